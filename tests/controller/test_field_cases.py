"""Troubles that people have reported in public, as far as the pure controller shows them. Times are plain numbers."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from andante import (
    Call,
    Concurrency,
    Controller,
    Cost,
    DeadlineExpired,
    DeadlineUnreachable,
    Gate,
    LineFull,
    Nested,
    Outcome,
    ServiceClass,
    State,
    Ticket,
    TokenBucket,
    WouldWait,
)
from tests.gates.drive import Drive

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING, ADMITTED, REFUSED = State.WAITING, State.ADMITTED, State.REFUSED


@pytest.mark.parametrize("strict", [False, True])
def test_fc_04_concurrent_callers_do_not_all_pass_the_same_check(strict: bool) -> None:
    """FC-04: of 50 calls of 20 tokens at once exactly 5 enter a window of 100; of 1,000 exactly 4 enter one of 4."""
    for _ in range(100):
        c = Controller(TokenBucket(100, per="minute", unit="tokens", strict_window=strict))
        tickets = [c.offer(Call(Cost(input_tokens=20)), 0.0) for _ in range(50)]
        assert sum(ticket.state is ADMITTED for ticket in tickets) == 5
        c.step(0.0)
        assert sum(ticket.state is ADMITTED for ticket in tickets) == 5
    day = Controller(TokenBucket(4, per="day", burst=4, strict_window=strict))
    assert sum(day.offer(Call(), 0.0, WouldWait).state is ADMITTED for _ in range(1000)) == 4


class Probe(Gate):
    """A memory probe: full while one is inside."""

    inside = 0

    def delay(self, entry: object, now: float) -> float:
        return float("inf") if self.inside else 0.0

    def enter(self, entry: object, now: float) -> None:
        self.inside += 1

    def undo(self, entry: object, now: float) -> None:
        self.inside -= 1

    def leave(self, entry: object, outcome: Outcome, now: float) -> None:
        self.inside -= 1


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
@pytest.mark.parametrize("how", ["refused", "withdrawn", "expired"])
def test_fc_05_a_rejected_call_uses_no_quota(order: tuple[int, ...], how: str) -> None:
    """FC-05: B is refused, or leaves, or waits in vain for the second gate: only A and C count, in every order."""
    rate = TokenBucket(2, per="minute", burst=2)
    tokens = TokenBucket(20, per="minute", unit="tokens", burst=20)
    gates: list[Gate] = [rate, tokens, Concurrency(1), Probe()]
    c = Controller(*(gates[n] for n in order), classes=[ServiceClass("a", max_wait=1.0)])
    one = Call(Cost(input_tokens=10), "a")
    a = c.offer(one, 0.0)
    b = c.offer(one, 0.0, WouldWait if how == "refused" else None)
    if how == "withdrawn":
        c.withdraw(b, 0.0)
    c.step(1.0)
    assert (a.state, b.state) == (ADMITTED, State.WITHDRAWN if how == "withdrawn" else REFUSED)
    c.leave(a, Outcome(), 1.0)
    assert rate.snapshot(1.0)["level"] == pytest.approx(1 + 1 / 30)
    assert c.offer(one, 1.0).state is ADMITTED
    assert rate.snapshot(1.0)["level"] == pytest.approx(1 / 30)
    assert tokens.snapshot(1.0)["level"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("early", [True, False])
def test_fc_10_the_maximum_wait_is_the_maximum(early: bool) -> None:
    """FC-10: 3 a minute, 30 s at most, ten callers: each is admitted or refused by its bound, of its class or its own;
    a bound equal to the wait succeeds; nobody who was refused is charged."""
    bucket = TokenBucket(3, per="minute")
    drive = Drive(bucket, classes=[ServiceClass("a", max_wait=30.0, early_refusal=early)])
    for n in range(10):
        drive.call(0.0, Call(service="a", deadline=10.0 if n == 5 else float("inf")))
    drive.run(100.0)
    assert drive.times == [0.0, 20.0]
    assert len(drive.refused) == 8
    for at, ticket in drive.refused:
        bound = min(30.0, ticket.call.deadline)
        assert at <= bound
        assert isinstance(ticket.error, DeadlineUnreachable if at == 0.0 else DeadlineExpired)
    assert bucket.snapshot(100.0)["level"] == 1.0

    exact = Drive(TokenBucket(3, per="minute"), classes=[ServiceClass("a", max_wait=20.0, early_refusal=early)])
    exact.call(0.0, Call(service="a"))
    exact.call(0.0, Call(service="a"))
    assert exact.run(100.0).times == [0.0, 20.0]


def test_fc_20_no_work_for_callers_who_have_left() -> None:
    """FC-20: one place held for 10 s, 50 calls with 2 s, then fresh ones: the 50 fail at 2 s, unstarted and uncharged,
    with an error of their own; the fresh ones start at once."""
    bucket = TokenBucket(1000, burst=1000)
    drive = Drive(Concurrency(1), bucket)
    drive.call(0.0, Call(), lambda _: (10.0, Outcome()))
    for _ in range(50):
        drive.call(0.0, Call(deadline=2.0))
    for _ in range(3):
        drive.call(10.5, Call(deadline=12.5))
    drive.run(20.0)
    assert [at for at, _ in drive.refused] == [2.0] * 50
    assert all(isinstance(ticket.error, DeadlineExpired) for _, ticket in drive.refused)
    assert drive.times == [0.0, 10.5, 10.5, 10.5]
    assert drive.controller.plan.lanes[0].refused == 50


def test_fc_21_a_full_line_refuses_at_once() -> None:
    """FC-21, first run: 10 a second, 50 may wait, 10,000 come: the rest is refused on the spot, with a retry hint."""
    c = Controller(TokenBucket(10), classes=[ServiceClass("a", max_waiting=50)])
    tickets = [c.offer(Call(service="a"), 0.0) for _ in range(10_000)]
    refused = [ticket.error for ticket in tickets if ticket.state is REFUSED]
    assert len(refused) == 10_000 - 50 - 1
    assert all(isinstance(error, LineFull) and error.retry_after for error in refused)
    assert c.waiting == 50


def test_fc_21_a_deadline_bounds_the_wait() -> None:
    """FC-21, second run: no bound but 3 s for every call: about 30 start, the others are refused by their deadline."""
    drive = Drive(TokenBucket(10), classes=[ServiceClass("a", max_waiting=float("inf"))])
    for _ in range(10_000):
        drive.call(0.0, Call(service="a", deadline=3.0))
    drive.run(10.0)
    assert len(drive.started) == 31
    assert len(drive.refused) == 10_000 - 31
    assert max(at for at, _ in drive.refused) <= 3.0
    assert drive.controller.waiting == 0


def test_fc_22_a_nested_call_is_refused_instead_of_waiting() -> None:
    """FC-22: the rule the admission builds on: with `instead` a call enters where there is room and never waits."""
    c = Controller(Concurrency(2))
    assert c.offer(Call(), 0.0).state is ADMITTED
    assert c.offer(Call(), 0.0, Nested).state is ADMITTED
    refused = c.offer(Call(), 0.0, Nested)
    assert isinstance(refused.error, Nested)
    assert (c.waiting, len(c.inside)) == (0, 2)


def test_fc_23_one_key_does_not_take_the_whole_queue() -> None:
    """FC-23: A alone fills all ten places; B, with one call behind 500 of A's, starts with the first place that is
    given back after A has been charged for one call it waited for: two completions."""
    c = Controller(Concurrency(10))
    a = [c.offer(Call(tenant="A"), 0.0) for _ in range(500)]
    assert sum(ticket.state is ADMITTED for ticket in a) == 10
    b = c.offer(Call(tenant="B"), 0.0)
    completions = 0
    while b.state is WAITING:
        completions += 1
        c.leave(next(ticket for ticket in a if ticket.state is ADMITTED), Outcome(), 1.0)
        c.step(1.0)
    assert completions <= 2


# What it costs: counted, not timed. -----------------------------------------------------------------------------------


class Counting(Concurrency):
    """Counts how often it is asked."""

    asked = 0

    def delay(self, entry: Any, now: float) -> float:
        self.asked += 1
        return super().delay(entry, now)


def questions(gate: Counting, act: Callable[[], object]) -> int:
    gate.asked = 0
    act()
    return gate.asked


@pytest.mark.parametrize("floor", [0.0, 0.2])
@pytest.mark.parametrize("tenants", [1, 100])
def test_fc_08_questions_do_not_grow_with_who_waits(floor: float, tenants: int) -> None:
    """FC-08: with 10,000 waiting, an arrival, a leave, a cancel and an expiry ask a gate a handful of times."""
    gate = Counting(1)
    classes = [ServiceClass("a", max_waiting=20_000), ServiceClass("b", floor=floor, max_waiting=20_000, max_wait=50.0)]
    c = Controller(gate, classes=classes)
    tickets: list[Ticket] = []

    def arrive(n: int) -> int:
        call = Call(service="ab"[n % 2], tenant=n % tenants)
        return questions(gate, lambda: tickets.append(c.offer(call, 0.0)))

    assert max(arrive(n) for n in range(10_000)) <= 4
    for _ in range(50):
        inside = next(iter(c.inside))

        def leave(inside: Ticket = inside) -> None:
            c.leave(inside, Outcome(), 0.0)
            c.step(0.0)

        def cancel() -> None:
            c.withdraw(next(ticket for ticket in reversed(tickets) if ticket.state is WAITING), 0.0)
            c.step(0.0)

        assert questions(gate, leave) <= 6
        assert questions(gate, cancel) <= 4
    waiting = c.waiting
    asked = questions(gate, lambda: c.step(50.0))  # all of class b expire at once
    assert c.waiting < waiting / 2 + 100
    assert asked <= 8


def test_removed_calls_are_swept_out() -> None:
    """After 100,000 cancels, of one tenant or of as many, what is kept is in proportion to who still waits."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_wait=1e6, max_waiting=float("inf"))])
    c.offer(Call(service="a"), 0.0)
    kept = [c.offer(Call(service="a"), 0.0) for _ in range(10)]
    for block in range(100):
        tickets = [c.offer(Call(service="a", tenant=n if block % 2 else None), 0.0) for n in range(1000)]
        for ticket in tickets:
            c.withdraw(ticket, 0.0)
        c.step(0.0)
    lane = c.plan.lanes[0]
    held = [lane.watched.kept, len(lane._order), sum(tenant.row.kept for tenant in lane._tenants.values())]
    assert max(held) <= 2 * len(kept) + 64
    assert len(lane._tenants) == 1
    assert [ticket.state for ticket in kept] == [WAITING] * 10


def test_a_full_line_sorts_no_keys_for_newcomers_that_are_last() -> None:
    """Refusing a newcomer with the largest key compares no more keys than there are tenants."""

    class Key(float):
        compared = 0

        def __lt__(self, other: float) -> bool:
            Key.compared += 1
            return float(self) < float(other)

        def __gt__(self, other: float) -> bool:
            Key.compared += 1
            return float(self) > float(other)

        def __ge__(self, other: float) -> bool:
            Key.compared += 1
            return float(self) >= float(other)

    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_waiting=5000)])
    c.offer(Call(service="a"), Key(0.0))
    for n in range(5000):
        assert c.offer(Call(service="a"), Key(n)).state is WAITING
    Key.compared = 0
    assert isinstance(c.offer(Call(service="a"), Key(5000)).error, LineFull)
    assert Key.compared <= 20
