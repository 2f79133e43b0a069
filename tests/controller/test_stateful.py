"""The controller against the model: whatever comes, in whatever order, both decide the same."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from andante import (
    Call,
    Concurrency,
    Controller,
    Cost,
    Ending,
    Outcome,
    Rejected,
    ServiceClass,
    State,
    Ticket,
    TokenBucket,
    WouldWait,
)
from andante.testing.conservation import check_conservation
from andante.testing.visitor import Visitor
from andante.verdict import snapshot
from tests.controller.model import Entry, Model

if TYPE_CHECKING:
    from collections.abc import Callable

BURST = 16.0
TICK = 1 / 64  # seconds; with rates that are powers of two every moment is exact

AMOUNTS = st.one_of(st.integers(0, 10), st.sampled_from([1, 1, 1, 16, 20])).map(float)
WITHIN = st.one_of(st.none(), st.none(), st.none(), st.sampled_from([-1.0, 0.0, 0.25, 1.0, 3.0]))
TENANTS = st.sampled_from([None, None, "a", "b"])


class Side:
    """A controller, its gates, and a log of what it was told and what it decided; it can be replayed."""

    def __init__(self, limit: int, rate: float) -> None:
        self.places = Concurrency(limit)
        self.own = Concurrency(2, name="own")
        self.bucket = TokenBucket(rate, unit="input_tokens", burst=BURST)
        self.controller = Controller(self.places, self.bucket, classes=self.services(0))
        self.numbers: dict[Ticket, int] = {}
        self.tickets: list[Ticket] = []
        self.log: list[object] = []

    def services(self, which: int) -> list[ServiceClass]:
        """Sets of classes to choose from; the middle one has places of its own."""
        fast = ServiceClass("fast", ttft=2.0, max_waiting=4)
        bulk = ServiceClass("bulk", max_wait=4.0, floor=0.25, gates=(self.own,), early_refusal=False)
        spare = ServiceClass("spare", max_wait=3.0, deferrable=True)
        free = ServiceClass("free", floor=0.125)
        if which == 0:
            return [fast, bulk, spare]
        if which == 1:
            bulk = ServiceClass("bulk", max_wait=6.0, floor=0.5, early_refusal=False)
            return [free, bulk, ServiceClass("fast", e2e=4.0, max_waiting=3, gates=(self.own,))]
        if which == 2:
            return [ServiceClass("fast", ttft=1.0, floor=0.5, max_waiting=0), ServiceClass("spare", max_wait=3.0), free]
        return [free, bulk, ServiceClass("spare", max_wait=3.0, deferrable=True, max_waiting=2), fast]

    def do(self, what: Callable[[Side], Any]) -> Any:
        result = what(self)
        self.log.append(result)
        return result

    def offer(self, call: Call, now: float, *, trying: bool) -> tuple[str, float]:
        ticket = self.controller.offer(call, now, WouldWait if trying else None)
        self.numbers[ticket] = len(self.tickets)
        self.tickets.append(ticket)
        return word(ticket), self.controller.next_look(now)

    def step(self, now: float) -> list[tuple[int, str]]:
        return [(self.numbers[ticket], word(ticket)) for ticket in self.controller.step(now)]


def word(ticket: Ticket) -> str:
    if ticket.state is State.REFUSED:
        assert isinstance(ticket.error, Rejected)
        assert ticket.error.service == ticket.service
        return ticket.error.reason
    return ticket.state.value


class ControllerMachine(RuleBasedStateMachine):
    """Calls come, wait, go; time passes; limits, rates and classes change."""

    @initialize(limit=st.integers(1, 4), rate=st.sampled_from([2.0, 4.0, 8.0]))
    def begin(self, limit: int, rate: float) -> None:
        self.limit, self.rate, self.now = limit, rate, 0.0
        self.side = Side(limit, rate)
        self.script: list[Callable[[Side], Any]] = []
        side = self.side
        self.model = Model(side.places, limit, side.bucket, rate, BURST, side.services(0))
        self.model.limits[side.own] = 2.0
        self.entries: list[Entry] = []

    def do(self, what: Callable[[Side], Any]) -> Any:
        self.script.append(what)
        return self.side.do(what)

    def compare(self, theirs: list[tuple[int, str]], ours: list[tuple[Entry, str]]) -> None:
        """The same calls started in the same order, and the same calls were refused for the same reasons."""
        told = [(self.entries[number], what) for number, what in theirs]
        assert [one for one, what in told if what == "admitted"] == [one for one, what in ours if what == "admitted"]
        assert {(one.serial, what) for one, what in told} == {(one.serial, what) for one, what in ours}
        assert len(told) == len(ours)

    def step(self, before: list[tuple[Entry, str]] | None = None) -> None:
        now = self.now
        theirs = self.do(lambda side: side.step(now))
        self.compare(theirs, (before or []) + self.model.step())

    # Rules. ---------------------------------------------------------------------------------------------------------

    @rule(
        calls=st.lists(
            st.tuples(st.integers(0, 9), AMOUNTS, TENANTS, WITHIN, st.integers(0, 5)), min_size=1, max_size=10
        )
    )
    def calls_come(self, calls: list[tuple[int, float, str | None, float | None, int]]) -> None:
        for call in calls:
            self.offer(*call)

    def offer(self, which: int, amount: float, tenant: str | None, within: float | None, trying: int) -> None:
        one = self.model.classes[which % len(self.model.classes)]
        deadline = inf if within is None else self.now + within
        tenant = None if one.service.deferrable else tenant
        call = Call(Cost(input_tokens=amount), one.service.name, tenant, deadline)
        now = self.now
        what, look = self.do(lambda side: side.offer(call, now, trying=not trying))
        entry, ours, others = self.model.offer(call, trying=not trying)
        self.entries.append(entry)
        assert what == ours
        assert (look <= now) == bool(others) or self.model.waiting_now() == 0
        self.step(others)

    @precondition(lambda self: self.model.inside)
    @rule(many=st.integers(1, 12))
    def several_leave(self, many: int) -> None:
        """One after the other, as planned."""
        for _ in range(many):
            if self.model.inside:
                self.leave(0, Ending.DONE, None, first=False)

    @precondition(lambda self: self.model.inside)
    @rule(
        which=st.integers(0, 99),
        ending=st.sampled_from(Ending),
        used=st.one_of(st.none(), st.integers(0, 24).map(float)),
        first=st.booleans(),
    )
    def one_leaves(self, which: int, ending: Ending, used: float | None, first: bool) -> None:
        self.leave(which, ending, used, first=first)

    def leave(self, which: int, ending: Ending, used: float | None, *, first: bool) -> None:
        entry = self.model.inside[which % len(self.model.inside)]
        number, now = self.entries.index(entry), self.now

        def what(side: Side) -> tuple[object, ...]:
            ticket = side.tickets[number]
            if first:
                side.controller.progress(ticket, 1, now)
            outcome = Outcome(ending, cost=None if used is None else Cost(input_tokens=used))
            side.controller.leave(ticket, outcome, now)
            side.controller.leave(ticket, Outcome(), now)  # the second time nothing happens
            return (outcome.ending, outcome.seconds, outcome.ttft, outcome.items, outcome.cost)

        told = self.do(what)
        assert entry.started is not None
        took = now - entry.started
        settled = used if used is not None else 0.0 if ending is Ending.OVERLOADED and not first else entry.cost
        assert told == (ending, took, took if first else None, float(first), Cost(input_tokens=settled))
        self.model.leave(entry, settled)
        self.step()

    @precondition(lambda self: self.model.inside or self.model.waiting_now())
    @rule(which=st.integers(0, 99))
    def withdraw(self, which: int) -> None:
        """While it waits, or after the grant."""
        there = [e for one in self.model.classes for e in one.waiting()] + self.model.inside
        entry = there[which % len(there)]
        number, now = self.entries.index(entry), self.now
        self.do(lambda side: side.controller.withdraw(side.tickets[number], now))
        self.model.withdraw(entry)
        self.step()

    @rule(ticks=st.one_of(st.integers(1, 30), st.integers(1, 200)))
    def time_passes(self, ticks: int) -> None:
        """The controller is stepped when it asks for it, and misses nothing by that."""
        end = self.now + ticks * TICK
        rounds = 0
        while True:
            moment = self.model.next_moment()
            moment = moment if moment > self.now else inf
            look = self.side.controller.next_look(self.now)
            assert look > self.now, "it was just stepped"
            self.now = min(end, look, moment)
            self.model.pass_to(self.now)
            if self.now < look:
                assert self.model.step() == [], f"next_look said {look}"
            else:
                self.step()
            rounds += 1
            assert rounds < 10_000
            if self.now == end:
                return

    @rule()
    def look_in_between(self) -> None:
        """A step that nobody needed changes nothing."""
        now = self.now
        assert self.do(lambda side: side.step(now)) == []

    @rule(limit=st.integers(1, 5), own=st.booleans())
    def set_limit(self, limit: int, own: bool) -> None:
        def what(side: Side) -> None:
            (side.own if own else side.places).limit = limit

        self.do(what)
        self.model.limits[self.side.own if own else self.side.places] = limit
        self.step()

    @rule(rate=st.sampled_from([2.0, 4.0, 8.0]))
    def set_rate(self, rate: float) -> None:
        now = self.now

        def what(side: Side) -> None:
            # A gate has no clock: it takes the time of the change from what it is asked just before and after.
            nothing = Visitor(Call(), now)
            side.bucket.enter(nothing, now)
            side.bucket.rate = rate
            side.bucket.delay(nothing, now)

        self.do(what)
        self.model.rate = rate
        self.step()

    @precondition(lambda self: len(self.entries) > 8)
    @rule(which=st.integers(0, 3))
    def reconfigure(self, which: int) -> None:
        now = self.now
        self.do(lambda side: side.controller.reconfigure(now, classes=side.services(which)))
        self.step(self.model.reconfigure(self.side.services(which)))

    # Laws. ----------------------------------------------------------------------------------------------------------

    @invariant()
    def conserved(self) -> None:
        """Law 1, for each class; and the counts are the model's."""
        told = snapshot(self.side.controller, self.now, "calm")
        check_conservation(told)
        for name, one in self.model.known.items():
            counts = told.classes[name]
            inside = sum(entry.call.service == name for entry in self.model.inside)
            ours = (one.offered, one.started, one.refused, one.withdrawn, len(one.waiting()), inside, one.ended)
            ended = counts.done + counts.overloaded + counts.ignored
            assert ours == (
                counts.offered, counts.started, counts.refused, counts.withdrawn, counts.waiting, counts.inside, ended,
            )  # fmt: skip

    @invariant()
    def in_bounds(self) -> None:
        """Gates hold what the model says; nobody waits past its latest start, and nobody started past it."""
        side = self.side
        assert side.places.inside == len(self.model.inside) == len(side.controller.inside)
        assert side.own.inside == sum(side.own in entry.passed for entry in self.model.inside)
        assert side.bucket.snapshot(self.now)["level"] == self.model.level
        assert side.controller.waiting == self.model.waiting_now()
        for ticket in side.tickets:
            if ticket.state is State.WAITING:
                assert ticket.latest > self.now
            elif ticket.queued and ticket.started is not None:
                assert ticket.started <= ticket.latest

    def teardown(self) -> None:
        """Law 11: told the same at the same times, a new controller decides the same. In the end all is given back."""
        again = Side(self.limit, self.rate)
        for what in self.script:
            again.do(what)
        assert again.log == self.side.log
        for ticket in again.tickets:
            again.controller.withdraw(ticket, self.now)
        again.step(self.now)
        assert (again.controller.waiting, again.places.inside, again.own.inside) == (0, 0, 0)
        assert again.controller.next_look(self.now) == inf


TestController = ControllerMachine.TestCase
