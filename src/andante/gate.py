"""The one abstraction: a gate says how long, and is told who came and went."""

from __future__ import annotations

import threading
import weakref
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from andante.service import ServiceClass
    from andante.values import Call, Cost, Outcome


class Entry(Protocol):
    """One attempt to enter, as gates see it. Read-only; a gate may keep its own state keyed by it."""

    @property
    def call(self) -> Call: ...
    @property
    def cost(self) -> Cost:
        """What the call reserves."""

    @property
    def service(self) -> str:
        """The name of its service class."""

    @property
    def rank(self) -> int:
        """The rank of its class, 0 the most urgent."""

    @property
    def deadline(self) -> float:
        """Absolute time by which it must have ended; inf for none."""

    @property
    def arrived(self) -> float: ...
    @property
    def started(self) -> float | None: ...
    @property
    def first(self) -> float | None:
        """When its first result came."""

    @property
    def last(self) -> float | None:
        """When its latest result came."""

    @property
    def items(self) -> float:
        """Output tokens (or items) so far."""


class Gate:
    """A rule about who may go in, and when. Subclass it; every method has a default that lets everybody in.

    A gate never waits, never reads a clock and never does I/O: `now` is an argument, in seconds.

    Args:
        name: what metrics, errors and snapshots call it. Default: the class name in snake_case.
    """

    repays_lateness: bool = False
    """Whether a late step may ask this gate as of the moment the blocked call was due (at most 10 ms back).

    Rate gates say True: an event loop's timer fires late, and without this the rate would be lost. Then `delay`,
    `enter` and `undo` may see a `now` a little before one they saw already, and must treat negative elapsed time as 0.
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name or _snake(type(self).__name__)
        self._holders: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._holders_lock = threading.Lock()

    # What a gate answers. -------------------------------------------------------------------------------------------

    def delay(self, entry: Entry, now: float) -> float:
        """Seconds until `entry` may enter: 0 now; a finite number is a lower bound, exact for rates; inf: not until
        something changes. Changes nothing that one can see. Raises a `Rejected` to refuse this entry for good."""
        return 0.0

    def look(self, now: float) -> float:
        """The absolute time at which an infinite delay may end by time alone; inf if only by an event."""
        return inf

    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        """Forecast: seconds from start to the first result, and to the end. (0, 0) where nothing is known."""
        return (0.0, 0.0)

    # What a gate is told. -------------------------------------------------------------------------------------------

    def enter(self, entry: Entry, now: float) -> None:
        """`entry` goes in. Only ever right after every gate said 0, with no await between."""

    def progress(self, entry: Entry, items: float, now: float) -> None:
        """The first result came, or `items` more output tokens. Only called on gates that override it."""

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """`entry` came out. Every field of `outcome` but ttft, retry_after and error is filled."""

    def undo(self, entry: Entry, now: float) -> None:
        """`entry` was let in but never ran: give everything back, as if it had not come."""

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        """An admission takes this gate; its service classes in rank order."""

    # What people and restarts see. ----------------------------------------------------------------------------------

    def snapshot(self, now: float) -> dict[str, Any]:
        """State for people and metrics. Well-known keys: `limit`, `inside`, `headroom` (0 to 1)."""
        return {}

    def dump(self) -> dict[str, Any]:
        """Learned state, as JSON-able values, to `load` after a restart."""
        return {}

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over what `dump` gave, `age` seconds later."""

    # How a gate speaks up. ------------------------------------------------------------------------------------------

    @final
    def changed(self) -> None:
        """Something other than time, entries and exits changed the answer (a limit was set, a sample came in).

        Every admission that holds this gate looks again. Safe from any thread.
        """
        if len(self._holders) > 1:
            with self._holders_lock:
                self._holders.append(self._holders.pop(0))  # in turn: nobody is always the first to hear
        for holder in self.holders():
            holder()

    @final
    def attach(self, look_again: Callable[[], None]) -> None:
        """A controller takes this gate: `look_again` (a bound method, held weakly) is called by `changed`."""
        with self._holders_lock:
            others = [ref for ref in self._holders if ref() is not None]
            self._holders = [*others, weakref.WeakMethod(look_again)]
        if others:
            self.changed()  # they learn that they share it

    @final
    def detach(self, look_again: Callable[[], None]) -> None:
        """The controller lets this gate go."""
        with self._holders_lock:
            self._holders = [ref for ref in self._holders if ref() not in (None, look_again)]

    @final
    def holders(self) -> list[Callable[[], None]]:
        """Who holds this gate, in the order in which they took it."""
        return [holder for ref in self._holders if (holder := ref()) is not None]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))
