"""One attempt to enter: the controller's ticket, the gates' entry and (in admission.py) the caller's permit."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from andante.gate import Entry, Gate
    from andante.lane import Lane
    from andante.values import Call, Cost, Ending, Outcome


TINY = 1e-7  # seconds: a delay below this is none


class State(Enum):
    """Where a ticket stands."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    ENDED = "ended"


_WAITING = State.WAITING  # a module's own name: before Python 3.12 looking up an enum's attribute runs Python code


class Way:
    """The gates on one way in, taken apart once so that the hot path looks nothing up.

    `asked` has the gates of the class, then those of the admission: (delay, repays lateness, name, is the class's own).
    """

    __slots__ = (
        "asked",
        "delays",
        "enters",
        "enters_now",
        "forecasts",
        "gates",
        "leaves",
        "looks",
        "progresses",
        "undos",
    )

    def __init__(self, shared: Iterable[Gate], own: Iterable[Gate] = ()) -> None:
        from andante.gate import Gate as Default

        shared, own = tuple(shared), tuple(own)
        self.gates: tuple[Gate, ...] = shared + own
        self.asked = tuple(
            (gate.delay, gate.repays_lateness, gate.name, mine)
            for mine, gates in ((True, own), (False, shared))
            for gate in gates
        )
        self.delays = tuple(gate.delay for gate in self.gates)
        self.enters = tuple((gate.enter, gate.repays_lateness) for gate in self.gates)
        self.enters_now = tuple(gate.enter for gate in self.gates)
        self.leaves: tuple[Callable[[Entry, Outcome, float], None], ...] = tuple(gate.leave for gate in self.gates)
        self.undos = tuple(gate.undo for gate in self.gates)
        self.progresses = tuple(g.progress for g in self.gates if type(g).progress is not Default.progress)
        self.looks = tuple(g.look for g in self.gates if type(g).look is not Default.look)
        self.forecasts = tuple(g.expected for g in self.gates if type(g).expected is not Default.expected)

    def ends(self, ticket: Ticket, at: float, now: float) -> tuple[float, float, str | None, bool]:
        """Ask every gate. Rate gates are asked as of `at`, the others as of `now`.

        Returns when the last of them opens (`now` if all are open), the moment as of which rate gates may be entered,
        the name of the gate that opens last, and whether a gate of the class itself blocks.
        """
        end, reached, name, own = now, at, None, False
        for delay, repays, gate, mine in self.asked:
            wait = delay(ticket, at if repays else now)
            if wait <= TINY:
                continue
            opens = (at if repays else now) + wait
            if opens <= now + TINY:
                reached = max(reached, min(opens, now))
                continue
            own = own or mine
            if opens > end:
                end, name = opens, gate
        return end, reached, name, own

    def enter(self, ticket: Ticket, at: float, now: float) -> None:
        """Enter every gate, or, where one raises, none."""
        ticket.started = now
        for enter, repays in self.enters:
            try:
                enter(ticket, at if repays else now)
            except Exception:
                self.undo_until(enter, ticket, now)
                raise

    def undo_until(self, failed: Callable[[Entry, float], None], ticket: Ticket, now: float) -> None:
        """The gate whose `enter` is `failed` raised: undo those before it. Nothing is ever half taken."""
        for enter, undo in zip(self.enters_now, self.undos, strict=True):
            if enter == failed:
                break
            with suppress(Exception):  # the error of `failed` is told; the other gates still have to hear
                undo(ticket, now)
        ticket.started = None

    def joined(self, more: Iterable[Gate]) -> Way:
        """This way with `more` gates on it."""
        return Way((*self.gates, *more))


class Ticket:
    """One attempt to enter. Gates see it as an `Entry`; they only read it.

    Attributes:
        call, cost: what was asked for.
        lane, way: where it would wait, and the gates it passes.
        arrived, started, first, last, ended: absolute times; None until they happen.
        items: output tokens (or items) seen so far.
        idle: seconds in which the consumer of a stream had not asked for the next item.
        state: a `State`; `error` says why, when it is REFUSED.
        gate: the gate that held it last, at the head of its line; None if it never was held there.
        queued: whether it stood in the line; then `key` is its place there, `latest` its latest start, and `serial`
            says who joined before whom.
        settled: the true cost, once somebody said it.
        waiter, failure: for whoever waits and works; the controller does not look at them.
    """

    __slots__ = (
        "__weakref__", "arrived", "call", "cost", "ended", "error", "failure", "first", "gate", "idle", "items", "key",
        "lane", "last", "latest", "queued", "serial", "settled", "started", "state", "waiter", "way",
    )  # fmt: skip

    key: float
    latest: float
    serial: int

    def __init__(self, call: Call, lane: Lane, now: float) -> None:
        self.call = call
        self.cost: Cost = call.cost
        self.lane = lane
        self.way: Way = lane.way
        self.arrived = now
        self.started: float | None = None
        self.first: float | None = None
        self.last: float | None = None
        self.ended: float | None = None
        self.items = 0.0
        self.idle = 0.0
        self.state = _WAITING
        self.queued = False
        self.error: Exception | None = None
        self.gate: str | None = None
        self.settled: Cost | None = None
        self.waiter: Any = None
        self.failure: tuple[Ending, float | None, BaseException | None] | None = None

    @property
    def service(self) -> str:
        """The name of the class it was resolved to."""
        return self.lane.name

    @property
    def rank(self) -> int:
        """The rank of that class, 0 the most urgent."""
        return self.lane.rank

    @property
    def deadline(self) -> float:
        """Absolute time by which it must have ended; inf for none."""
        return self.call.deadline

    def waited(self, now: float) -> float:
        """Seconds in the line so far, or until it started."""
        return (now if self.started is None else self.started) - self.arrived

    def __repr__(self) -> str:
        held = f", held by {self.gate}" if self.state is _WAITING and self.gate else ""
        return f"<{type(self).__name__} {self.service} {self.state.value}{held}>"
