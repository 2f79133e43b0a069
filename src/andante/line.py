"""The one waiting place: who starts next, who has waited too long, and who has to make room. Pure."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from andante import errors
from andante.ticket import TINY, State, Ticket
from andante.verdict import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from andante.lane import Lane
    from andante.plan import Plan

T = TypeVar("T", bound=Ticket)

LATENESS = 0.010  # seconds: how far back a late step may ask rate gates

_WAITING, _ADMITTED, _REFUSED = State.WAITING, State.ADMITTED, State.REFUSED


class Line(Generic[T]):
    """All lanes of a plan together.

    Attributes:
        waiting: calls in the line.
        inside: the tickets that have started and not ended.
        changes: tickets whose state has changed since somebody took them out of this list.
        look: when to `advance` next, absolute; inf: not before something happens.
        held_by: the gate that shut the door last.
        busy: a step is under way; what gates say meanwhile has to wait for its end.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.waiting = 0
        self.inside: set[T] = set()
        self.changes: list[T] = []
        self.look = inf
        self.busy = False
        self.held_by: str | None = None
        self._due = inf  # when the call that blocks the door was due

    # Arriving. ------------------------------------------------------------------------------------------------------

    def join(self, ticket: T, now: float, instead: type[errors.Rejected] | None) -> None:
        """`ticket` starts, if it stands before an open door, or waits, if it may. Else it is refused; where it never
        stood in the line, by raising the refusal."""
        lane = ticket.lane
        end, _, gate, _ = ticket.way.ends(ticket, now, now)
        delay = end - now
        latest = ticket.latest = lane.latest_start(ticket, now)
        early = lane.service.early_refusal
        if now > latest or (early and delay < inf and end > latest + TINY):
            raise refusal(errors.DeadlineUnreachable, ticket, gate, delay, now)
        ticket.key = lane.key(ticket)
        may_wait = instead is None and now < latest
        may_stay = may_wait and lane.service.max_waiting >= 1  # else nobody is sent away for it
        if may_stay and (lane.waiting > 2 or lane.waiting >= lane.service.max_waiting):
            self._make_room(ticket, lane, gate, delay, now)
        at_head = lane.push(ticket, now)
        self.waiting += 1
        if at_head:
            self._admit(now)
        if ticket.state is not _WAITING:
            self.changes.remove(ticket)  # decided at once
        elif may_stay:
            ticket.queued = True
            self._watch(ticket)
        else:
            ticket.state = _REFUSED
            self.remove(ticket, now)
            kind = instead or (errors.LineFull if may_wait else errors.DeadlineUnreachable)
            lane.refuse(ticket, refusal(kind, ticket, ticket.gate or gate, delay, now))
            if at_head:
                self._admit(now)  # it may have stood in the door: find out anew when the others are due
        if at_head or self.plan.looks:
            self.plan_look(now)
        elif latest < self.look and ticket.state is _WAITING:
            self.look = latest

    def _make_room(self, ticket: T, lane: Lane, gate: str | None, delay: float, now: float) -> None:
        """Early refusal: of the largest key where the wait would be too long, or the lane is full."""
        if lane.service.early_refusal and lane.waiting > 2 and ticket.latest < inf:
            rate, slack = lane.drain.rate(now), ticket.latest - now
            if rate is not None and lane.waiting > 2 + slack * rate:
                last = lane.victim(ticket)
                if last is ticket or lane.waiting > 2 + (last.latest - now) * rate:  # the last one itself would be late
                    late = lane.waiting / rate - slack if rate else inf
                    self._send_away(
                        ticket, errors.DeadlineUnreachable, gate, max(late, delay if delay < inf else 0), now
                    )
        if lane.waiting >= lane.service.max_waiting and (delay > TINY or lane.waiting):
            self._send_away(ticket, errors.LineFull, gate, delay, now)

    def _send_away(self, ticket: T, kind: type[errors.Rejected], gate: str | None, after: float, now: float) -> None:
        """Refuse the largest key of the lane: `ticket` itself, by raising, or one that waits."""
        victim: T = ticket.lane.victim(ticket)  # type: ignore[assignment]  # this line's lanes hold its own tickets
        if victim is ticket:
            raise refusal(kind, ticket, gate, after, now)
        self.drop(victim, errors.Shed, now, after)

    # Moving up. -----------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Let in whom the gates let in, then refuse whose time has passed."""
        if self.waiting:
            self._admit(now)
            if self.look <= now and self._expire(now):
                self._admit(now)  # who went may have stood in the door
        self.plan_look(now)

    def _admit(self, now: float) -> None:
        """Open the door to heads in their order, as of the moment the first of them was due, until one blocks it."""
        at = max(self._due, now - LATENESS) if self._due < now else now
        self._due = inf
        self.busy = again = True
        try:
            while again:
                again = False
                for lane, by_floor in self._turns():
                    if not lane.waiting:
                        continue
                    at, again, shut = self._admit_from(lane, by_floor, at, now)
                    if again or shut:
                        break
        finally:
            self.busy = False

    def _admit_from(self, lane: Lane, by_floor: bool, at: float, now: float) -> tuple[float, bool, bool]:
        """Let in heads of `lane`. Returns the moment reached, whether to begin anew, and whether the door is shut."""
        floors = self.plan.floors
        while True:
            head: T | None = lane.head()  # type: ignore[assignment]  # this line's lanes hold its own tickets
            if head is None:
                return at, False, False
            try:
                way = head.way
                latest = lane.latest_start(head, now) if way.forecasts else head.latest
                if latest < at - TINY:
                    self.drop(head, errors.DeadlineExpired, now)
                    continue
                end, reached, gate, own = way.ends(head, at, now)
                if end <= now + TINY:
                    at = reached
                    self._start(head, at, now)
                    if floors:
                        return at, True, False
                    continue
            except Exception as error:
                self._fail(head, error, now)
                continue
            head.gate = self.held_by = gate
            if by_floor and own:
                lane.credit = head.cost.weight  # what its own gates hold up is not owed to it by others
            self._due = min(self._due, end)
            return at, False, not own and not (by_floor and end == inf)

    def _turns(self) -> Iterable[tuple[Lane, bool]]:
        """The lanes in the order in which their heads are asked, and whether a floor brought them forward."""
        plan = self.plan
        if plan.floors or plan.deferrable:
            return self._special_turns(plan)
        return plan.turns

    def _special_turns(self, plan: Plan) -> Iterator[tuple[Lane, bool]]:
        for lane in plan.floors:
            if lane.floor_covers_head():
                yield lane, True
        for lane in plan.lanes:
            if lane.waiting and not lane.service.deferrable:
                yield lane, False
        if self.waiting == sum(lane.waiting for lane in plan.deferrable):
            for lane in plan.deferrable:
                if lane.waiting:
                    yield lane, False

    def _start(self, ticket: T, at: float, now: float) -> None:
        ticket.way.enter(ticket, at, now)
        ticket.state = _ADMITTED
        lane, weight = ticket.lane, ticket.cost.weight
        lane.take(ticket, weight, now)
        self.waiting -= 1
        self.inside.add(ticket)
        self.changes.append(ticket)
        for floored in self.plan.floors:
            if floored is lane:
                floored.spend(weight)
            else:
                floored.earn(weight)

    # Leaving the line. ----------------------------------------------------------------------------------------------

    def drop(self, ticket: T, kind: type[errors.Rejected], now: float, after: float | None = None) -> None:
        """Refuse `ticket`, which waits."""
        self._fail(ticket, refusal(kind, ticket, ticket.gate or self.held_by, after, now), now)

    def clear(self, now: float, kind: type[errors.Rejected], lane: Lane | None = None) -> None:
        """Refuse all who wait, or all who wait in `lane`."""
        for one in self.plan.lanes if lane is None else (lane,):
            for ticket in one.tickets():
                self.drop(ticket, kind, now)  # type: ignore[arg-type]  # this line's lanes hold its own tickets

    def remove(self, ticket: T, now: float) -> None:
        """`ticket`, which is no longer WAITING, is taken out."""
        ticket.lane.remove(ticket, now)
        self.waiting -= 1

    def _fail(self, ticket: T, error: Exception, now: float) -> None:
        ticket.lane.refuse(ticket, error)
        self.remove(ticket, now)
        self.changes.append(ticket)

    def _expire(self, now: float) -> bool:
        """Refuse whose latest start has come, and tell whether anybody was. It was asked a moment before, so a bound
        equal to the wait succeeds."""
        before = self.waiting
        while (ticket := self._next_to_expire(now)) is not None:
            ticket.lane.watched.pop()
            if self._forecast(ticket, now) and ticket.latest > now:  # the forecast is better by now
                self._watch(ticket)
            elif ticket.state is not _WAITING:
                continue
            elif not (ticket.lane.service.deferrable and ticket.latest > now - LATENESS and self._rescue(ticket, now)):
                self.drop(ticket, errors.DeadlineExpired, now)
        return self.waiting < before

    def _next_to_expire(self, now: float) -> T | None:
        """Whose latest start came first, of those whose latest start has come; of equals, who joined first."""
        late = [lane.watched.first() for lane in self.plan.lanes if lane.waiting]
        late = [ticket for ticket in late if ticket is not None and ticket.latest <= now]
        return min(late, key=lambda ticket: (ticket.latest, ticket.serial), default=None)

    def _forecast(self, ticket: T, now: float) -> bool:
        """Find out the latest start of `ticket`, which waits. False, and it is refused, where a gate raises."""
        try:
            ticket.latest = ticket.lane.latest_start(ticket, now)
        except Exception as error:
            self._fail(ticket, error, now)
            return False
        return True

    def _rescue(self, ticket: T, now: float) -> bool:
        """A deferrable call has reached its latest start: it goes before all others now, or never."""
        self.busy = True
        try:
            if ticket.way.ends(ticket, now, now)[0] > now + TINY:
                return False
            self._start(ticket, now, now)
        except Exception as error:
            self._fail(ticket, error, now)
        finally:
            self.busy = False
        return True

    # Looking ahead. -------------------------------------------------------------------------------------------------

    def replan(self, now: float) -> None:
        """The plan has changed: those who wait have other latest starts."""
        for lane in self.plan.lanes:
            tickets: list[T] = lane.tickets()  # type: ignore[assignment]  # this line's lanes hold its own tickets
            lane.watched.fill([ticket for ticket in tickets if self._forecast(ticket, now) and ticket.latest < inf])
        self.look = now

    def plan_look(self, now: float) -> None:
        """Find out when to look again."""
        if not self.waiting:
            self._due = self.look = inf
            return
        look = self._due
        for lane in self.plan.lanes:
            if lane.waiting:
                first = lane.watched.first()
                if first is not None and first.latest < look:
                    look = first.latest
        for soon in self.plan.looks:
            look = min(look, soon(now))
        self.look = look

    def _watch(self, ticket: T) -> None:
        if ticket.latest < inf:
            ticket.lane.watched.add(ticket.latest, ticket)
