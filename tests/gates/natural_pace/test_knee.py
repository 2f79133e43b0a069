"""The knee is found where one more buys nothing, followed when it moves, and never lost."""

from __future__ import annotations

import random
from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante import Call, Concurrency, Controller, Cost, DeadlineOverrun, Ending, Knee, Outcome, ServiceClass
from andante.simulate import ClientClass, Request, replay_controller, service_classes
from andante.simulate.imperfect import slowed
from andante.simulate.uniform import BatchEngine, BatchProfile, ServiceEngine, ServiceProfile
from andante.testing import Visitor

if TYPE_CHECKING:
    from andante import Gate
    from andante.simulate.engine import EngineModel

CLIENT = ClientClass("bulk", share=1, e2e=1e5)


def crowd(rate: float, seconds: float, seed: int = 1) -> list[Request]:
    draw, t, requests = random.Random(seed), 0.0, []
    while (t := t + draw.expovariate(rate)) < seconds:
        requests.append(Request(t, 100, 1, CLIENT))
    return requests


def ends(gate: Gate, engine: EngineModel, rate: float, until: float) -> list[float]:
    """When calls ended, of a crowd that always waits."""
    controller = Controller(gate, classes=[ServiceClass("bulk", max_waiting=inf)])
    records = replay_controller(crowd(rate, until), engine, controller, tells="ends", until=until)
    return [record.over for record in records if record.met and record.over is not None]


def within(times: list[float], since: float, until: float) -> int:
    return sum(since <= t < until for t in times)


@pytest.mark.parametrize(
    ("profile", "rate", "until", "best"),
    [
        (ServiceProfile(8, 2.0, 12.0), 8.0, 300.0, 8),
        (ServiceProfile(20, 0.2), 150.0, 40.0, 20),
        (ServiceProfile(1, 0.1), 20.0, 60.0, 1),
    ],
)  # fmt: skip
def test_as_much_as_the_best_limit(profile: ServiceProfile, rate: float, until: float, best: int) -> None:
    """A service with slots, one that thrashes beyond twelve, one that does one thing at a time: once it has had half of
    the time to find the knee, within 5 % of the limit that was known beforehand."""
    found = within(ends(Knee(), ServiceEngine(profile), rate, until), until / 2, until)
    known = within(ends(Concurrency(best), ServiceEngine(profile), rate, until), until / 2, until)
    assert found >= 0.95 * known


def test_batches_want_company() -> None:
    """Where a batch costs little more than one call, it goes up from sixteen."""
    knee = Knee()
    ends(knee, BatchEngine(BatchProfile(64, 0.010, 0.0005)), 2000.0, 10.0)
    assert knee.bend.limit >= 40


@pytest.mark.parametrize(
    "factor",
    [lambda t: 4.0 if 40 <= t < 70 else 1.0, lambda t: 2.0 if t >= 40 else 1.0],
    ids=["slow for a while", "slow for good"],
)
def test_fc_40_it_comes_back(factor: object) -> None:
    """FC-40: after 30 s at four times the time, or with a new base of twice the time, it is back at 80 % of what a
    fixed limit does within a minute."""
    profile = ServiceProfile(16, 0.25)
    rates = [
        within(ends(gate, slowed(ServiceEngine(profile), factor), 100.0, 160.0), 130.0, 160.0)  # type: ignore[arg-type]
        for gate in (Knee(), Concurrency(16))
    ]
    assert rates[0] >= 0.8 * rates[1]


def _in_and_out(knee: Knee, calls: int, outcome: Outcome, now: float, inside: int = 16) -> float:
    """Always `inside` of them; one ends each tenth of a second."""
    there = []
    for _ in range(inside):
        there.append(Visitor(Call(), now))
        knee.enter(there[-1], now)
    for _ in range(calls):
        now += 0.1
        knee.leave(there.pop(0), outcome, now)
        there.append(Visitor(Call(), now))
        knee.enter(there[-1], now)
    for visitor in there:
        knee.undo(visitor, now)
    return now


def test_fc_39_the_callers_own_mistakes_do_not_move_it() -> None:
    """FC-39: a hundred cancelled calls, and a hundred that ran over their own deadline, leave the limit; twenty that
    the backend turned away lower it, once in a mean life."""
    knee = Knee()
    now = _in_and_out(knee, 100, Outcome(Ending.IGNORED, seconds=1.0), 0.0)
    now = _in_and_out(knee, 100, Outcome(Ending.OVERLOADED, seconds=1.0, error=DeadlineOverrun("late")), now)
    assert knee.bend.limit == 16
    _in_and_out(knee, 20, Outcome(Ending.OVERLOADED, seconds=0.001), now)
    assert 8 <= knee.bend.limit < 16


def test_fc_40_a_crowd_that_is_turned_away_at_once_raises_nothing() -> None:
    """FC-40: quick refusals of the backend are no good latencies."""
    knee = Knee()
    _in_and_out(knee, 500, Outcome(Ending.OVERLOADED, seconds=0.001), 0.0)
    assert 1 <= knee.bend.limit <= 16


def test_idle_moves_nothing() -> None:
    """Few calls, far below the limit: no evidence that more would pay, no move up; and an hour without any changes
    nothing."""
    knee = Knee()
    now = _in_and_out(knee, 400, Outcome(seconds=0.2), 0.0, inside=2)
    limit = knee.bend.limit
    assert limit <= 16
    knee.delay(Visitor(Call(), now + 3600), now + 3600)
    assert knee.bend.limit == limit


@pytest.mark.parametrize("seconds", [1e-9, 1e6])
def test_one_lucky_or_terrible_sample_pins_nothing(seconds: float) -> None:
    """A call that took nothing, or for ever, is one among many."""
    knee = Knee()
    now = _in_and_out(knee, 200, Outcome(seconds=1.6), 0.0)
    limit = knee.bend.limit
    visitor = Visitor(Call(), now)
    knee.enter(visitor, now)
    knee.leave(visitor, Outcome(seconds=seconds), now + seconds)
    now = _in_and_out(knee, 200, Outcome(seconds=1.6), now + seconds)
    assert knee.bend.limit == pytest.approx(limit, rel=0.5)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.floats(0, 1e4),
            st.sampled_from([0.0, 1.0, 1e12, 1e-12]),
            st.sampled_from(list(Ending)),
        ),
        max_size=120,
    )
)
def test_it_stays_a_number(plan: list[tuple[int, float, float, Ending]]) -> None:
    """Whatever it is told, the limit is at least 1, and everybody may leave."""
    knee, now = Knee(), 0.0
    inside: list[Visitor] = []
    for kind, wait, tokens, ending in plan:
        now += wait if kind else 0.0
        if kind < 2 or not inside:
            inside.append(Visitor(Call(Cost(input_tokens=tokens)), now))
            knee.enter(inside[-1], now)
        else:
            knee.leave(inside.pop(0), Outcome(ending, items=tokens, seconds=wait), now)
    assert 1 <= knee.bend.limit < 1e7
    for visitor in inside:
        knee.leave(visitor, Outcome(), now)
    assert knee.flow.inside == 0
    assert knee.delay(Visitor(Call(), now), now) == 0


@pytest.mark.parametrize(
    ("limit", "age", "then"), [(40.0, 5, 40.0), (40.0, 1e5, 20.0), (nan, 5, 16.0), (-3, 5, 16.0), ("x", 5, 16.0)]
)
def test_it_remembers(limit: object, age: float, then: float) -> None:
    """The limit of before, half of it when it is old, and nonsense not at all."""
    knee = Knee()
    knee.bend.load({"limit": limit}, age)
    assert knee.bend.limit == then


def test_no_service_class_is_needed() -> None:
    """A bare controller with nothing but the knee."""
    assert len(service_classes([CLIENT])) == 1
    controller = Controller(Knee())
    assert sum(controller.offer(Call(), 0.0).error is None for _ in range(16)) == 16
