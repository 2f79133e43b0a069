"""The rules of the line (DESIGN, section 2), one test each, in times that are plain numbers."""

from __future__ import annotations

import random
from math import inf

import pytest

from andante import (
    Call,
    Concurrency,
    Controller,
    Cost,
    CostTooLarge,
    DeadlineExpired,
    DeadlineUnreachable,
    Ending,
    Gate,
    LineFull,
    Outcome,
    ServiceClass,
    Shed,
    State,
    Ticket,
    TokenBucket,
    WouldWait,
)

WAITING, ADMITTED, REFUSED = State.WAITING, State.ADMITTED, State.REFUSED


class Room(Gate):
    """So many input tokens at once: whether a call fits depends on its size, and only an event can tell when."""

    def __init__(self, free: float) -> None:
        super().__init__()
        self.free = free
        self.asked = 0

    def delay(self, entry: object, now: float) -> float:
        self.asked += 1
        return 0.0 if entry.cost.input_tokens <= self.free else inf  # type: ignore[attr-defined]

    def enter(self, entry: object, now: float) -> None:
        self.free -= entry.cost.input_tokens  # type: ignore[attr-defined]

    def undo(self, entry: object, now: float) -> None:
        self.free += entry.cost.input_tokens  # type: ignore[attr-defined]

    def leave(self, entry: object, outcome: Outcome, now: float) -> None:
        self.undo(entry, now)


class Forecast(Gate):
    """Says how long calls take; may be told otherwise, or to fail."""

    def __init__(self, first: float, end: float) -> None:
        super().__init__()
        self.first, self.end = first, end

    def expected(self, entry: object, now: float) -> tuple[float, float]:
        if self.first < 0:
            raise RuntimeError("no forecast today")
        return (self.first, self.end)


def call(service: str = "default", size: float = 0.0, tenant: str | None = None, deadline: float = inf) -> Call:
    return Call(Cost(input_tokens=size), service, tenant, deadline)


def order(controller: Controller[Ticket], now: float = 0.0, limit: int = 10_000) -> list[Ticket]:
    """End whoever is inside, one after the other, and list who starts."""
    started: list[Ticket] = []
    while controller.inside and len(started) < limit:
        controller.leave(next(iter(controller.inside)), Outcome(), now)
        started += [ticket for ticket in controller.step(now) if ticket.state is ADMITTED]
    return started


# Rank, gates of classes, the door. ------------------------------------------------------------------------------------


def test_rank_goes_first() -> None:
    """Law 5: the class named first starts first, whenever it came."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b"), ServiceClass("c")])
    c.offer(call("a"), 0.0)
    tickets = [c.offer(call(name), 0.0) for name in "cbabca"]
    assert [t.service for t in order(c)] == list("aabbcc")
    assert all(t.rank == "abc".index(t.service) for t in tickets)


def test_blocked_by_its_own_gate_a_class_is_skipped() -> None:
    """The door stays open for the classes below; and the class goes on as soon as its own gate opens."""
    own = Concurrency(1)
    c = Controller(Concurrency(4), classes=[ServiceClass("a", gates=(own,)), ServiceClass("b")])
    first = c.offer(call("a"), 0.0)
    held = c.offer(call("a"), 0.0)
    assert (held.state, held.gate) == (WAITING, "concurrency")
    assert c.offer(call("b"), 0.0).state is ADMITTED
    c.leave(first, Outcome(), 1.0)
    assert c.step(1.0) == [held]


def test_blocked_by_a_shared_gate_a_head_shuts_the_door() -> None:
    """A large call is not starved by small ones of the classes below, nor of its own."""
    c = Controller(Room(10), classes=[ServiceClass("a"), ServiceClass("b")])
    inside = c.offer(call("a", 8), 0.0)
    large = c.offer(call("a", 9), 0.0)
    small = [c.offer(call("a", 1), 0.0), c.offer(call("b", 1), 0.0)]
    assert [t.state for t in (large, *small)] == [WAITING] * 3
    c.leave(inside, Outcome(), 1.0)
    assert c.step(1.0) == [large, small[0]]


def test_who_expires_opens_the_door() -> None:
    """A head that stood in the door and reaches its latest start is gone: those behind it start in that same step."""
    c = Controller(Room(5), classes=[ServiceClass("a", max_wait=2), ServiceClass("b")])
    large = c.offer(call("a", 10), 0.0)
    small = c.offer(call("b", 1), 0.0)
    assert (large.state, small.state, c.next_look(0.0)) == (WAITING, WAITING, 2.0)
    assert c.step(2.0) == [large, small]
    assert isinstance(large.error, DeadlineExpired)
    assert small.state is ADMITTED


def test_who_withdraws_opens_the_door() -> None:
    c = Controller(Room(5), classes=[ServiceClass("a"), ServiceClass("b")])
    large, small = c.offer(call("a", 10), 0.0), c.offer(call("b", 1), 0.0)
    c.withdraw(large, 1.0)
    assert c.next_look(1.0) <= 1.0
    assert c.step(1.0) == [small]


def test_a_grant_taken_back_is_a_reason_to_look() -> None:
    c = Controller(Concurrency(1))
    granted, waits = c.offer(call(), 0.0), c.offer(call(), 0.0)
    c.withdraw(granted, 1.0)
    assert c.next_look(1.0) <= 1.0
    assert c.step(1.0) == [waits]


# Tenants. -------------------------------------------------------------------------------------------------------------


def test_least_attained_cost_first() -> None:
    """Between tenants of a class the one that has got least is next: by cost, not by calls."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a")])
    c.offer(call("a"), 0.0)
    for tenant, size, many in (("heavy", 30.0, 4), ("light", 10.0, 12)):
        for _ in range(many):
            c.offer(call("a", size, tenant), 0.0)
    started = [t.call.tenant for t in order(c, limit=8)]
    assert (started.count("heavy"), started.count("light")) == (2, 6)


def test_an_idle_tenant_re_enters_at_the_least_of_those_waiting() -> None:
    """It is not paid for the time in which it wanted nothing."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a")])
    c.offer(call("a"), 0.0)
    for _ in range(20):
        c.offer(call("a", 1, "busy"), 0.0)
    order(c, limit=10)
    for _ in range(20):
        c.offer(call("a", 1, "idle"), 0.0)
    started = [t.call.tenant for t in order(c, limit=10)]
    assert abs(started.count("idle") - 5) <= 1


def test_a_grant_taken_back_is_given_back_to_the_tenant() -> None:
    """A call withdrawn after its grant costs its tenant nothing, and its tenant is next."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a")])
    inside = c.offer(call("a"), 0.0)
    a = [c.offer(call("a", 10, "a"), 0.0) for _ in range(2)]
    b = [c.offer(call("a", 3, "b"), 0.0) for _ in range(2)]
    d = [c.offer(call("a", 5, "d"), 0.0) for _ in range(2)]
    c.leave(inside, Outcome(), 0.0)
    assert c.step(0.0) == [a[0]]
    c.withdraw(a[0], 0.0)
    assert c.step(0.0) == [b[0]]
    assert order(c, limit=2) == [d[0], a[1]]


def test_a_call_that_never_waited_refunds_nothing() -> None:
    """It was never charged; withdrawing it makes its tenant no poorer or richer."""
    c = Controller(Concurrency(2), classes=[ServiceClass("a")])
    keep, gone = c.offer(call("a", 1, "a"), 0.0), c.offer(call("a", 100, "a"), 0.0)
    one = [c.offer(call("a", 10, "a"), 0.0) for _ in range(4)]
    two = [c.offer(call("a", 10, "b"), 0.0) for _ in range(4)]
    for ends, starts in ((keep, one[0]), (one[0], two[0]), (two[0], one[1])):
        c.leave(ends, Outcome(), 0.0)
        assert c.step(0.0) == [starts]
    c.withdraw(gone, 0.0)  # 20 for the one, 10 for the other
    assert c.step(0.0) == [two[1]]


def test_a_call_that_started_from_the_line_as_it_came_is_refunded() -> None:
    """It was charged, though it never waited."""
    c = Controller(Room(10), classes=[ServiceClass("a", ttft=100.0)])
    inside = c.offer(call("a", 8, "x"), 0.0)
    a, b = c.offer(call("a", 9, "a"), 0.0), c.offer(call("a", 9, "b"), 0.0)
    quick = c.offer(call("a", 1, "a", deadline=1.0), 0.0)
    other = c.offer(call("a", 0.5, "b", deadline=1.0), 0.0)
    assert (quick.state, other.state, a.state, b.state) == (ADMITTED, ADMITTED, WAITING, WAITING)
    c.withdraw(quick, 0.0)
    c.leave(inside, Outcome(), 0.0)
    assert c.step(0.0) == [a]


def test_calls_without_a_tenant_are_one_tenant() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a")])
    c.offer(call("a"), 0.0)
    for _ in range(6):
        c.offer(call("a"), 0.0)
    c.offer(call("a", 0, "b"), 0.0)
    assert [t.call.tenant for t in order(c, limit=2)] == [None, "b"]


# The virtual deadline. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["ttft", "e2e"])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_virtual_deadline(objective: str, bias: float) -> None:
    """key = arrival + D (1 + bias min(4, size / mean)): with mean 10 and D 8, a call of 40 stands 12 s behind one of
    10, and one of 4,000 no further back."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", **{objective: 8.0})], size_bias=bias)
    c.offer(call("a"), 0.0)
    c.offer(call("a", 10), 0.0)
    large, huge = c.offer(call("a", 40), 0.0), c.offer(call("a", 4000), 0.0)
    assert large.key == pytest.approx(8.0 * (1 + bias * 4))
    assert huge.key == pytest.approx(8.0 * (1 + bias * 4))
    late = c.offer(call("a", 1e-6), 1.0)
    assert (late.key < large.key) is bool(bias)


def test_the_mean_starts_at_the_first_size_and_moves_by_a_fiftieth() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=10.0)])
    c.offer(call("a"), 0.0)
    assert c.offer(call("a", 100), 0.0).key == 15.0  # it is its own mean
    assert c.offer(call("a", 200), 0.0).key == 20.0
    assert c.offer(call("a", 102), 0.0).key == 15.0  # 100 + 0.02 (200 - 100)


def test_a_deadline_pulls_forward() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=10.0)])
    c.offer(call("a"), 0.0)
    plain, urgent = c.offer(call("a"), 0.0), c.offer(call("a", deadline=5.0), 1.0)
    assert urgent.key == 5.0
    assert order(c, 1.0) == [urgent, plain]


def test_without_an_objective_first_come_first_served() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a")])
    c.offer(call("a"), 0.0)
    tickets = [c.offer(call("a", size, deadline=9.0), 0.0) for size in (50, 1, 1000, 2)]
    assert order(c) == tickets


def test_fc_18_equal_priorities_keep_their_order() -> None:
    """FC-18: 100 calls of one class and deadline, whose keys cannot be compared, start in the order they came."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=60.0)])
    c.offer(call("a"), 0.0)
    payloads = [object() if i % 2 else ValueError(str(i)) for i in range(100)]
    tickets = [c.offer(Call(service="a", deadline=50.0, key=payload), 0.0) for payload in payloads]
    assert order(c) == tickets


# Floors. --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [0.05, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 1), (1, 7)])
def test_fc_19_a_floor_is_kept(floor: float, sizes: tuple[int, int]) -> None:
    """FC-19: while both wait, the class below gets its share of the started cost, give or take a call of each."""
    classes = [ServiceClass("a", max_waiting=inf), ServiceClass("b", floor=floor, max_waiting=inf)]
    c = Controller(Concurrency(1), classes=classes)
    c.offer(call("a"), 0.0)
    for _ in range(600):
        c.offer(call("a", sizes[0]), 0.0)
        c.offer(call("b", sizes[1]), 0.0)
    cost = {"a": 0.0, "b": 0.0}
    for n, ticket in enumerate(order(c, limit=500)):
        cost[ticket.service] += ticket.cost.weight
        total = sum(cost.values())
        assert cost["b"] >= floor * total - sizes[1] - sizes[0], n
        assert cost["b"] <= floor * total + sizes[1], n


@pytest.mark.parametrize(
    "floors", [(0.0, 0.5, 0.25), (0.0, 0.5, 0.4), (0.0, 0.3, 0.3, 0.4), (0.2, 0.2, 0.0, 0.6)], ids=str
)
def test_several_floors_are_kept_with_calls_of_any_size(floors: tuple[float, ...]) -> None:
    """The share holds for the cost, however it is spread over calls: short of it by a few calls at most."""
    rng = random.Random(19)
    classes = [ServiceClass(str(n), floor=floor, max_waiting=inf) for n, floor in enumerate(floors)]
    c = Controller(Concurrency(1), classes=classes)
    c.offer(call("0"), 0.0)
    sizes = [(1, 50), (1, 10), (3, 100), (1, 2, 3)]
    cost = [0.0] * len(floors)
    for n, choice in enumerate(sizes[: len(floors)]):
        for _ in range(1500):
            c.offer(call(str(n), rng.choice(choice)), 0.0)
    for ticket in order(c, limit=1500):
        cost[ticket.rank] += ticket.cost.weight
        if not all(lane.waiting for lane in c.plan.lanes):
            break
        for floor, got in zip(floors, cost, strict=True):
            assert got >= floor * sum(cost) - 2 * 100


def test_fc_19_without_a_floor_a_class_may_starve_until_its_bound() -> None:
    """FC-19: the floor can be left out; then a call that got nothing is refused at its bound, not forgotten."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b", max_wait=3.0)])
    c.offer(call("a"), 0.0)
    batch = [c.offer(call("b"), 0.0) for _ in range(10)]
    for now in (1.0, 2.0, 3.0):
        c.offer(call("a"), now)
        c.leave(next(iter(c.inside)), Outcome(), now)
        c.step(now)
    assert all(isinstance(t.error, DeadlineExpired) for t in batch)


def test_a_class_earns_only_while_it_waits() -> None:
    """What started before it came is no credit."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b", floor=0.5)])
    c.offer(call("a"), 0.0)
    for _ in range(30):
        c.offer(call("a"), 0.0)
    order(c, limit=20)
    c.offer(call("b"), 0.0)
    assert [t.service for t in order(c, limit=3)] == ["a", "a", "b"]


def test_credit_is_earned_anew_by_a_class_that_comes_again() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b", floor=0.25)])
    c.offer(call("a"), 0.0)
    for _ in range(30):
        c.offer(call("a"), 0.0)
    gone = c.offer(call("b"), 0.0)
    assert [t.service for t in order(c, limit=3)] == ["a"] * 3
    c.withdraw(gone, 0.0)
    c.offer(call("b"), 0.0)
    assert [t.service for t in order(c, limit=5)] == [*"aaaab"]


def test_what_its_own_gate_holds_up_a_class_does_not_claim_from_others() -> None:
    """Held up by itself for long, it is owed one start, not all that it could not make."""
    own = Concurrency(1, name="own")
    c = Controller(Concurrency(2), classes=[ServiceClass("a"), ServiceClass("b", floor=0.5, gates=(own,))])
    b = [c.offer(call("b"), 0.0) for _ in range(30)]
    for _ in range(100):
        c.offer(call("a"), 0.0)
    for _ in range(50):  # b[0] keeps the only place of its class
        c.leave(next(t for t in c.inside if t.service == "a"), Outcome(), 0.0)
        assert [t.service for t in c.step(0.0)] == ["a"]
    own.limit = 30
    c.leave(b[0], Outcome(), 0.0)
    c.step(0.0)
    started = [t.service for t in order(c, limit=20)]
    assert 9 <= started.count("b") <= 12


def test_a_floor_stops_the_door_above_it_only_for_a_finite_delay() -> None:
    """Its head waits for tokens that come by time: those above let it go first. Its head does not fit: they go on."""
    bucket = TokenBucket(10, unit="input_tokens", burst=10)
    c = Controller(bucket, classes=[ServiceClass("a"), ServiceClass("b", floor=1.0)])
    c.offer(call("a", 10), 0.0)
    below, above = c.offer(call("b", 9), 0.0), c.offer(call("a", 9), 0.0)
    more = [c.offer(call("a", 1), 0.0) for _ in range(9)]
    assert (below.state, above.state) == (WAITING, WAITING)
    c.step(0.9)
    assert above.state is ADMITTED  # 9 tokens are credited now
    c.step(1.0)
    assert [t.state for t in more] == [WAITING] * 9
    c.step(1.8)
    assert below.state is ADMITTED

    room = Room(10)
    c = Controller(room, classes=[ServiceClass("a"), ServiceClass("b", floor=1.0)])
    c.offer(call("a", 9), 0.0)
    below = c.offer(call("b", 9), 0.0)
    above, *_ = [c.offer(call("a", 1), 0.0) for _ in range(3)]
    c.plan.lanes[1].credit = 9.0
    c.leave(above, Outcome(), 0.0)
    assert [t.service for t in c.step(0.0)] == ["a"]
    assert below.state is WAITING


# Deferrable classes. --------------------------------------------------------------------------------------------------


def test_deferrable_starts_only_when_nothing_else_waits() -> None:
    """Not even when all others are held by gates of their own."""
    own = Concurrency(1)
    classes = [ServiceClass("spare", deferrable=True), ServiceClass("a", gates=(own,))]
    c = Controller(Concurrency(5), classes=classes)
    first, second = c.offer(call("a"), 0.0), c.offer(call("a"), 0.0)
    spare = c.offer(call("spare"), 0.0)
    assert (second.state, spare.state) == (WAITING, WAITING)
    c.leave(first, Outcome(), 1.0)
    assert c.step(1.0) == [second, spare]


def test_deferrable_starts_at_its_latest_start_whatever_waits() -> None:
    own = Concurrency(1)
    classes = [ServiceClass("a", gates=(own,)), ServiceClass("spare", deferrable=True, max_wait=4.0)]
    c = Controller(Concurrency(2), classes=classes)
    c.offer(call("a"), 0.0)
    held, spare, unlucky = c.offer(call("a"), 0.0), c.offer(call("spare"), 0.0), c.offer(call("spare"), 0.0)
    assert c.next_look(0.0) == 4.0
    assert c.step(4.0) == [spare, unlucky]
    assert (spare.state, held.state) == (ADMITTED, WAITING)
    assert isinstance(unlucky.error, DeadlineExpired)


@pytest.mark.parametrize(("late", "starts"), [(0.0, True), (0.008, True), (0.02, False)])
def test_deferrable_does_not_start_past_its_latest_start(late: float, starts: bool) -> None:
    """Timers are late by milliseconds, and that is forgiven; a loop that was held up for longer is not."""
    classes = [ServiceClass("a", gates=(Concurrency(1),)), ServiceClass("spare", deferrable=True, max_wait=4.0)]
    c = Controller(classes=classes)
    c.offer(call("a"), 0.0)
    c.offer(call("a"), 0.0)
    spare = c.offer(call("spare"), 0.0)
    c.step(4.0 + late)
    assert (spare.state is ADMITTED) is starts


# Latest start. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "deadline", "latest"),
    [
        (ServiceClass("a", ttft=10.0), inf, 10 - 1.1 * 2),
        (ServiceClass("a", e2e=10.0), inf, 10 - 1.1 * 4),
        (ServiceClass("a", max_wait=3.0), inf, 3.0),
        (ServiceClass("a"), 9.0, 9 - 1.1 * 4),
        (ServiceClass("a", ttft=10.0, e2e=12.0, max_wait=9.0), 13.0, 12 - 1.1 * 4),
    ],
)
def test_latest_start(service: ServiceClass, deadline: float, latest: float) -> None:
    """min(arrival + ttft - 1.1 first, arrival + e2e - 1.1 end, deadline - 1.1 end, arrival + max_wait)."""
    c = Controller(Concurrency(1), Forecast(2.0, 4.0), classes=[service])
    c.offer(call("a"), 0.0)
    ticket = c.offer(call("a", deadline=deadline), 0.0)
    assert c.next_look(0.0) == pytest.approx(latest)
    assert c.step(latest - 1e-6) == []
    assert c.step(c.next_look(latest)) == [ticket]
    assert isinstance(ticket.error, DeadlineExpired)


def test_past_its_latest_start_nothing_starts_though_all_is_free() -> None:
    """A call whose forecast says that it cannot make it is refused at once, on every way in."""
    c = Controller(Forecast(1.0, 5.0), classes=[ServiceClass("a", ttft=1.0), ServiceClass("b", e2e=6.0)])
    assert isinstance(c.offer(call("a"), 0.0).error, DeadlineUnreachable)
    assert c.offer(call("b"), 0.0).state is ADMITTED
    assert isinstance(c.offer(call("b", deadline=5.0), 0.0).error, DeadlineUnreachable)
    assert isinstance(c.offer(call("b", deadline=-1.0), 0.0).error, DeadlineUnreachable)


def test_a_forecast_that_gets_better_is_believed_and_one_that_gets_worse_too() -> None:
    gate = Forecast(2.0, 2.0)
    c = Controller(Concurrency(1), gate, classes=[ServiceClass("a", ttft=10.0)])
    c.offer(call("a"), 0.0)
    ticket = c.offer(call("a"), 0.0)
    gate.first = 1.0
    assert c.step(7.9) == []
    assert c.next_look(7.9) == pytest.approx(8.9)
    gate.first = 5.0
    c.leave(next(iter(c.inside)), Outcome(), 8.0)
    assert c.step(8.0) == [ticket]
    assert isinstance(ticket.error, DeadlineExpired)


def test_a_bound_equal_to_the_wait_succeeds() -> None:
    c = Controller(TokenBucket(1), classes=[ServiceClass("a", max_wait=1.0)])
    c.offer(call("a"), 0.0)
    ticket, late = c.offer(call("a"), 0.0), c.offer(call("a"), 0.0)
    assert c.next_look(0.0) == 1.0
    assert c.step(1.0) == [ticket, late]
    assert (ticket.state, late.state) == (ADMITTED, REFUSED)


def test_zero_is_now_or_never() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_wait=0), ServiceClass("b")])
    assert c.offer(call("a"), 0.0).state is ADMITTED
    assert isinstance(c.offer(call("a"), 0.0).error, DeadlineUnreachable)
    assert isinstance(c.offer(call("b", deadline=0.0), 0.0).error, DeadlineUnreachable)
    assert c.waiting == 0


# Early refusal and full lines. ----------------------------------------------------------------------------------------


def test_a_delay_that_is_too_long_refuses_at_once_and_costs_nothing() -> None:
    bucket = TokenBucket(1)
    c = Controller(bucket, classes=[ServiceClass("a", max_wait=0.5)])
    c.offer(call("a"), 0.0)
    refused = c.offer(call("a"), 0.0).error
    assert isinstance(refused, DeadlineUnreachable)
    assert (refused.retry_after, refused.gate, refused.service) == (1.0, "token_bucket", "a")
    assert bucket.snapshot(0.0)["level"] == 0.0


def test_without_early_refusal_it_waits_until_its_bound() -> None:
    """The rate might be raised meanwhile; whoever says so wants to wait."""
    bucket = TokenBucket(1)
    c = Controller(bucket, classes=[ServiceClass("a", max_wait=0.5, early_refusal=False)])
    c.offer(call("a"), 0.0)
    waits = c.offer(call("a"), 0.0)
    assert (waits.state, c.next_look(0.0)) == (WAITING, 0.5)
    c.step(0.5)
    assert isinstance(waits.error, DeadlineExpired)


def crowd(c: Controller[Ticket], many: int, **kwargs: object) -> tuple[list[Ticket], float]:
    """Calls of class a wait; one starts every second."""
    first = c.offer(call("a"), 0.0)
    inside = [first]
    tickets = [c.offer(call("a", **kwargs), 0.0) for _ in range(many)]  # type: ignore[arg-type]
    now = 0.0
    for _ in range(20):
        now += 1.0
        c.leave(inside.pop(), Outcome(), now)
        inside += c.step(now)
    return [t for t in tickets if t.state is WAITING], now


def test_early_refusal_by_the_drain_rate_refuses_the_largest_key() -> None:
    """At one start a second, a newcomer that may wait 30 s finds 45 calls ahead: the last in the line is refused."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=30.0, max_waiting=inf)])
    left, now = crowd(c, 20 + 5)
    newcomers = [c.offer(call("a"), now) for _ in range(40)]
    kept = [t for t in newcomers if t.state is WAITING]
    assert 32 <= len(kept) + len(left) <= 40  # 2 + 30 s at about one a second
    for ticket in newcomers:
        if ticket.state is REFUSED:
            assert isinstance(ticket.error, DeadlineUnreachable)
            assert ticket.error.retry_after is not None


def test_a_hurried_newcomer_sends_nobody_away_who_would_be_in_time() -> None:
    """Its own bound is tight, but it stands in front; those behind it, who can wait for long, stay."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=1000.0, max_waiting=inf)])
    left, now = crowd(c, 20 + 100)
    hurried = c.offer(call("a", deadline=now + 2.0), now)
    assert hurried.state is WAITING
    assert all(t.state is WAITING for t in left)


def test_calls_that_never_waited_do_not_count_as_drained() -> None:
    """1,000 calls that started at once say nothing about how fast a line moves up."""
    own = Concurrency(1)
    classes = [ServiceClass("x", gates=(own,)), ServiceClass("a", ttft=30.0, max_waiting=inf)]
    c = Controller(Concurrency(2, name="places"), classes=classes)
    held = [c.offer(call("x"), -10.0) for _ in range(2)]  # one waits for its own gate, so that there is a line
    assert [ticket.state for ticket in held] == [ADMITTED, WAITING]
    for n in range(1000):
        now = -10.0 + n / 100
        ticket = c.offer(call("a"), now)
        assert ticket.state is ADMITTED
        c.leave(ticket, Outcome(), now)
        c.step(now)
    left, now = crowd(c, 20 + 5)
    newcomers = [c.offer(call("a"), now) for _ in range(80)]
    assert sum(t.state is WAITING for t in newcomers) + len(left) <= 40


def test_a_full_line_refuses_the_newcomer_where_it_is_last() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_waiting=3)])
    c.offer(call("a"), 0.0)
    kept = [c.offer(call("a"), 0.0) for _ in range(3)]
    refused = c.offer(call("a"), 0.0)
    assert isinstance(refused.error, LineFull)
    assert [t.state for t in kept] == [WAITING] * 3


def test_a_full_line_sheds_the_largest_key_for_a_more_urgent_call() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=60.0, max_waiting=3)])
    c.offer(call("a"), 0.0)
    kept = [c.offer(call("a", 1), float(n)) for n in range(3)]
    urgent = c.offer(call("a", 1, deadline=10.0), 3.0)
    assert urgent.state is WAITING
    assert c.next_look(3.0) <= 3.0  # somebody has to be told
    assert c.step(3.0) == [kept[2]]
    assert isinstance(kept[2].error, Shed)


def test_a_full_line_knows_its_largest_key_after_others_have_left() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=100.0, max_waiting=3)])
    c.offer(call("a"), 0.0)
    first, second, third = (c.offer(call("a", deadline=at), 0.0) for at in (10.0, 20.0, 30.0))
    c.withdraw(third, 0.0)
    fourth = c.offer(call("a", deadline=15.0), 0.0)
    assert isinstance(c.offer(call("a", deadline=25.0), 0.0).error, LineFull)
    assert [t.state for t in (first, second, fourth)] == [WAITING] * 3
    assert c.offer(call("a", deadline=18.0), 0.0).state is WAITING
    assert isinstance(second.error, Shed)


def test_a_noisy_tenant_pushes_nobody_else_out() -> None:
    """The one sent away is of the tenant with the most calls waiting."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_waiting=10)])
    c.offer(call("a"), 0.0)
    quiet = [c.offer(call("a", 0, "quiet"), 0.0) for _ in range(2)]
    noisy = [c.offer(call("a", 0, "noisy"), 0.0) for _ in range(50)]
    third = c.offer(call("a", 0, "third"), 0.0)
    c.step(0.0)
    assert [t.state for t in (*quiet, third)] == [WAITING] * 3
    assert isinstance(noisy[7].error, Shed)
    assert all(isinstance(t.error, LineFull) for t in noisy[8:])


@pytest.mark.parametrize("blocked_by", ["its gates", "the door"])
def test_max_waiting_zero_lets_nobody_wait(blocked_by: str) -> None:
    c = Controller(Room(5), classes=[ServiceClass("a"), ServiceClass("b", max_waiting=0)])
    c.offer(call("a", 10), 0.0)
    refused = c.offer(call("b", 10 if blocked_by == "its gates" else 1), 0.0)
    assert isinstance(refused.error, LineFull)
    assert c.waiting == 1


# Trying. --------------------------------------------------------------------------------------------------------------


def test_a_try_never_jumps_the_line() -> None:
    c = Controller(Room(10), classes=[ServiceClass("a")])
    c.offer(call("a", 8), 0.0)
    c.offer(call("a", 9), 0.0)
    tried = c.offer(call("a", 1), 0.0, WouldWait)
    assert isinstance(tried.error, WouldWait)
    assert c.offer(call("a", 1), 0.0).state is WAITING


def test_a_try_sends_nobody_away() -> None:
    """A try that stays outside in the end has not cost anybody else their place in a full line."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=60.0, max_waiting=1)])
    c.offer(call("a"), 0.0)
    waits = c.offer(call("a"), 0.0)
    assert isinstance(c.offer(call("a", deadline=9.0), 0.0, WouldWait).error, WouldWait)
    assert isinstance(c.offer(call("a", deadline=0.0), 0.0).error, DeadlineUnreachable)
    assert waits.state is WAITING


def test_a_try_that_stood_in_front_for_a_moment_loses_no_look() -> None:
    """It had the smallest key and a long delay; the one behind it is still looked at when it is due."""
    c = Controller(TokenBucket(10, unit="tokens", burst=100), classes=[ServiceClass("a", ttft=100.0)], size_bias=0)
    c.offer(call("a", 100), 0.0)
    due = c.offer(call("a", 10), 0.0)
    assert isinstance(c.offer(call("a", 90, deadline=50.0), 0.0, WouldWait).error, WouldWait)
    c.offer(call("a", 10), 0.0)
    assert c.next_look(0.0) == 1.0
    assert c.step(1.0) == [due]


# What can never be. ---------------------------------------------------------------------------------------------------


def test_fc_03_more_than_a_gate_can_hold() -> None:
    """FC-03: refused at once, also with others waiting in front; 1,000 enters, 0 is free, a later call is not lost."""
    bucket = TokenBucket(1000, per="minute", unit="tokens")
    c = Controller(bucket)
    refused = c.offer(call(size=1500), 0.0)
    assert isinstance(refused.error, CostTooLarge)
    assert c.offer(call(size=1000), 0.0).state is ADMITTED
    assert c.offer(call(), 0.0).state is ADMITTED
    later = c.offer(call(size=10), 0.0)
    assert isinstance(c.offer(call(size=1500), 0.0).error, CostTooLarge)
    assert c.next_look(0.0) == pytest.approx(0.6)
    assert c.step(c.next_look(0.0)) == [later]
    for size in (-1.0, float("nan"), inf):
        with pytest.raises(ValueError, match="input_tokens"):
            Cost(input_tokens=size)


def test_a_gate_whose_forecast_raises_refuses_that_call_alone() -> None:
    """In the line too: the call is refused with the gate's error, the others go on."""
    gate = Forecast(0.5, 0.5)
    c = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=9.0, gates=(gate,)), ServiceClass("b")])
    inside = c.offer(call("b"), 0.0)
    bad, good = c.offer(call("a"), 0.0), c.offer(call("b"), 0.0)
    gate.first = -1.0
    c.leave(inside, Outcome(Ending.IGNORED), 1.0)
    assert c.step(1.0) == [bad, good]
    assert (bad.state, good.state) == (REFUSED, ADMITTED)
    assert isinstance(bad.error, RuntimeError)
