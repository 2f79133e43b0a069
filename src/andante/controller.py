"""Who enters, who is refused, and when to look again. Pure: no await, no clock, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from andante import errors
from andante.line import Line
from andante.plan import Plan
from andante.ticket import TINY, State, Ticket
from andante.values import Call, Cost, Ending, Outcome
from andante.verdict import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from andante.gate import Gate
    from andante.service import ServiceClass

T = TypeVar("T", bound=Ticket)

_WAITING, _ADMITTED = State.WAITING, State.ADMITTED
_WITHDRAWN, _ENDED = State.WITHDRAWN, State.ENDED
_DONE, _OVERLOADED = Ending.DONE, Ending.OVERLOADED


class Controller(Generic[T]):
    """Some gates and one line, decided without waiting: `Admission` is this plus an event loop.

    `offer` a call; `step` when `next_look` has come and after every `leave` or `withdraw`. Two controllers that are
    told the same at the same times decide the same.

    Args:
        gates: what every call must pass; a class may add gates of its own.
        classes: service classes from the most urgent to the least; none: one class, "default", without objectives.
        size_bias: how much later a larger call stands than a smaller one of its class; 0 is earliest deadline first.
        entry: the class of tickets to make.

    Attributes:
        plan: the gates and the lanes of the classes.
        line: where they wait.
        inside: the tickets that have started and not ended.
        waker: called (from any thread) when a gate has changed its answer; for whoever drives the controller.
    """

    @overload
    def __init__(
        self: Controller[Ticket], *gates: Gate, classes: Iterable[ServiceClass] = (), size_bias: float = 0.5
    ) -> None: ...
    @overload
    def __init__(
        self, *gates: Gate, classes: Iterable[ServiceClass] = (), size_bias: float = 0.5, entry: type[T]
    ) -> None: ...
    def __init__(
        self,
        *gates: Gate,
        classes: Iterable[ServiceClass] = (),
        size_bias: float = 0.5,
        entry: type[Any] = Ticket,
    ) -> None:
        self.waker: Callable[[], None] | None = None
        self._stale = False  # something but time, entries and exits changed an answer
        self._entry: type[T] = entry
        self.plan = Plan(gates, classes, size_bias, self.look_again)
        self._by_name = self.plan.by_name
        self.line: Line[T] = Line(self.plan)
        self.inside = self.line.inside
        self.plan.hold()

    @property
    def waiting(self) -> int:
        """Calls in the line."""
        return self.line.waiting

    # Coming. --------------------------------------------------------------------------------------------------------

    def offer(self, call: Call, now: float, instead: type[errors.Rejected] | None = None) -> T:
        """Decide about `call`, at once where possible.

        Returns its ticket: ADMITTED, WAITING, or REFUSED (`.error` says why). With `instead`, a call that would have
        to wait is refused with that error. Raises ConfigurationError for a class that nobody knows.
        """
        return self.at_once(call, now) or self.consider(call, now, instead)

    def at_once(self, call: Call, now: float) -> T | None:
        """Admit `call` if nobody waits and every gate is open; else None, and nobody has noticed. The fast path."""
        lane = self._by_name.get(call.service)
        if lane is None or self.line.waiting:
            return None
        ticket = self._entry(call, lane, now)
        way = lane.way
        try:
            if (way.forecasts or call.deadline < now) and lane.latest_start(ticket, now) < now:
                return None
            for delay in way.delays:
                if delay(ticket, now) > TINY:
                    return None
            ticket.started = now
            for enter in way.enters_now:
                enter(ticket, now)
        except Exception:
            if ticket.started is None:
                return None  # asked again, and answered, on the slow path
            way.undo_until(enter, ticket, now)
            return None
        ticket.state = _ADMITTED
        lane.offered += 1
        lane.started += 1
        self.inside.add(ticket)
        return ticket

    def consider(self, call: Call, now: float, instead: type[errors.Rejected] | None) -> T:
        """The other half of `offer`: decide about a call that could not enter at once."""
        lane = self._by_name.get(call.service) or self.plan.resolve(call.service)
        ticket = self._entry(call, lane, now)
        lane.offered += 1
        try:
            self.line.join(ticket, now, instead)
        except Exception as error:
            lane.refuse(ticket, error)
        return ticket

    def turn_away(self, call: Call, now: float, kind: type[errors.Rejected]) -> T:
        """Refuse `call` without asking anybody."""
        lane = self.plan.resolve(call.service)
        ticket = self._entry(call, lane, now)
        lane.offered += 1
        lane.refuse(ticket, refusal(kind, ticket, None, None, now))
        return ticket

    # Inside. --------------------------------------------------------------------------------------------------------

    def progress(self, ticket: T, items: float, now: float) -> None:
        """`items` more came out of the call; 0 is none, and then nothing has happened."""
        if items <= 0 or ticket.state is not _ADMITTED:
            return
        if ticket.first is None:
            ticket.first = now - ticket.idle  # less the time in which a stream's consumer had not asked for it
            self._stale = self._stale or bool(ticket.way.progresses and self.line.waiting)
        ticket.items += items
        for progress in ticket.way.progresses:
            progress(ticket, items, now)
        ticket.last = now

    # Going. ---------------------------------------------------------------------------------------------------------

    def leave(self, ticket: T, outcome: Outcome, now: float) -> None:
        """The call ended. Fields of `outcome` that are None are filled in. A second `leave` does nothing."""
        if ticket.state is not _ADMITTED:
            return
        ticket.state = _ENDED
        ticket.ended = now
        self.inside.discard(ticket)
        lane = ticket.lane
        ending = outcome.ending
        if ending is _DONE:
            lane.done += 1
        elif ending is _OVERLOADED:
            lane.overloaded += 1
        else:
            lane.ignored += 1
        started, first = ticket.started, ticket.first
        assert started is not None
        if outcome.seconds is None:
            spent = now - started - ticket.idle
            outcome.seconds = spent if spent > 0 else 0.0
        if first is not None and outcome.ttft is None:
            outcome.ttft = first - started
        if outcome.items is None:
            outcome.items = ticket.items
        if outcome.cost is None:
            cost = ticket.settled or ticket.cost
            if ending is _OVERLOADED and first is None and ticket.settled is None:
                cost = Cost(requests=cost.requests)
            outcome.cost = cost
        failure: Exception | None = None
        for leave in ticket.way.leaves:
            try:
                leave(ticket, outcome, now)
            except Exception as error:
                failure = failure or error  # the other gates still have to hear
        if self.plan.sharing:
            self.plan.tell_sharers(ticket)
        if failure is not None:
            raise failure

    def withdraw(self, ticket: T, now: float) -> None:
        """The caller left: while waiting, or after the grant but before it ran. Everything is given back."""
        lane = ticket.lane
        if ticket.state is _WAITING:
            ticket.state = _WITHDRAWN
            lane.withdrawn += 1
            self.line.remove(ticket, now)
            if ticket.gate is not None:
                self._stale = True  # it stood in the door: the next one may fit
        elif ticket.state is _ADMITTED:
            ticket.state = _WITHDRAWN
            lane.started -= 1
            lane.withdrawn += 1
            lane.refund(ticket)
            self.inside.discard(ticket)
            failure: Exception | None = None
            for undo in ticket.way.undos:
                try:
                    undo(ticket, now)
                except Exception as error:
                    failure = failure or error  # the other gates still have to hear
            self._stale = True
            if self.plan.sharing:
                self.plan.tell_sharers(ticket)
            if failure is not None:
                raise failure

    # Stepping. ------------------------------------------------------------------------------------------------------

    def step(self, now: float) -> list[T]:
        """Let in whom the gates let in, refuse whose time has passed.

        Returns every ticket whose state has changed since the last step, less those that `offer` decided at once.
        """
        self._stale = False
        line = self.line
        line.advance(now)
        changes, line.changes = line.changes, []
        return changes

    def next_look(self, now: float) -> float:
        """When to step next, absolute. At or before `now`: now. inf: not before something happens."""
        return now if self._stale or self.line.changes else self.line.look

    def look_again(self) -> None:
        """Something changed an answer: `Gate.changed` calls this, from any thread."""
        self._stale = True
        self.plan.count_sharers()
        if self.waker is not None and not self.line.busy:
            self.waker()

    # Changing. ------------------------------------------------------------------------------------------------------

    def reconfigure(
        self,
        now: float,
        *,
        classes: Iterable[ServiceClass] | None = None,
        gates: Iterable[Gate] | None = None,
        size_bias: float | None = None,
    ) -> None:
        """Work by these from now on; None keeps what is. Who waits is planned anew, nobody inside is sent away.

        Waiting calls of a class that is gone are refused (`Shed`). A gate that is new on a class's way is told of
        the calls already inside. Step afterwards. Raises ConfigurationError, and then nothing has changed.
        """
        plan = self.plan
        for lane in plan.lanes:
            lane.drain.rate(now)  # counts the time up to now by the old settings
        gone = plan.change(
            plan.gates if gates is None else gates,
            plan.classes if classes is None else classes,
            plan.size_bias if size_bias is None else size_bias,
        )
        self._stale = True
        line = self.line
        line.busy = True  # gates that speak up meanwhile are heard by the step that follows
        try:
            plan.hold()
            for lane in gone:
                line.clear(now, errors.Shed, lane)
            for ticket in self.inside:
                plan.take_inside(ticket, now)
            line.replan(now)
        finally:
            line.busy = False

    def clear_line(self, now: float, kind: type[errors.Rejected]) -> None:
        """Refuse everybody who waits. Step afterwards to learn whom."""
        self.line.clear(now, kind)

    def imagine(self, call: Call, now: float) -> T:
        """A ticket for `call` that nobody counts; to think about it."""
        return self._entry(call, self.plan.resolve(call.service), now)
