"""The engine of a few slots, by hand: long prompts stop all streams, batching gains nothing, dead prompts cost."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gates.concurrency import Concurrency
from andante.simulate.job import Job, JobState
from andante.simulate.mixes import MIXES
from andante.simulate.record import Fate
from andante.simulate.shapes import draw, steady
from andante.simulate.slots import SLOT_PROFILES, SlotEngine, SlotProfile
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, service_classes
from tests.simulate.accounting import accounted

ROUND = SlotProfile(slots=2, step=10.0, prompt=1.0, stream=100.0)
CALM = ClientClass("calm", share=1)


def test_steps_by_hand() -> None:
    """The second prompt of 500 tokens stops the first stream for 610 ms; the third waits for a slot."""
    engine = SlotEngine(ROUND)
    jobs = [Job(100, 3), Job(500, 2), Job(100, 1)]
    for job in jobs:
        engine.submit(job)
    first = engine.step(0.0)
    assert (first.seconds, first.prefill, first.tokens) == (pytest.approx(0.110), 100, (jobs[0],))
    second = engine.step(first.at)
    assert (second.seconds, second.tokens, second.first) == (pytest.approx(0.610), (jobs[0], jobs[1]), (jobs[1],))
    assert (engine.running, engine.waiting) == (2, 1)
    third = engine.step(second.at)
    assert (third.seconds, third.finished) == (pytest.approx(0.210), (jobs[0], jobs[1]))
    last = engine.step(third.at)
    assert (last.seconds, last.first, last.finished) == (pytest.approx(0.110), (jobs[2],), (jobs[2],))
    assert engine.idle
    assert engine.step(last.at).seconds == 0.0
    assert [(job.state, job.generated, job.prefilled) for job in jobs] == [
        (JobState.FINISHED, 3, 100),
        (JobState.FINISHED, 2, 500),
        (JobState.FINISHED, 1, 100),
    ]


def test_batching_gains_nothing() -> None:
    """Four streams at once make hardly more tokens a second than one."""
    speeds = []
    for count in (1, 4):
        engine = SlotEngine()
        for _ in range(count):
            engine.submit(Job(1, 201))
        now, tokens = 0.0, 0
        while not engine.idle:
            step = engine.step(now)
            now, tokens = step.at, tokens + len(step.tokens)
        speeds.append(tokens / now)
    assert speeds[1] / speeds[0] == pytest.approx(1.07, abs=0.03)


def test_dead_prompts_are_processed_all_the_same() -> None:
    """A foreign crowd of 60 that leaves at once keeps the engine busy for all its prompts, gives nothing; a call
    that left its slot frees it before the next step."""
    engine = SlotEngine()
    crowd = [Job(100, 50) for _ in range(60)]
    for job in crowd:
        engine.submit(job)
        assert engine.cancel(job)
        assert not engine.cancel(job)
    mine = Job(10, 1)
    engine.submit(mine)
    now = 0.0
    while not engine.idle:
        step = engine.step(now)
        assert step.tokens == ((mine,) if step.first else ())
        now = step.at
    assert now == pytest.approx(60 * (0.2 + 90.0) / 1000 + (0.2 + 9.0) / 1000)
    assert {job.state for job in crowd} == {JobState.CANCELLED}
    assert mine.end == pytest.approx(now)

    engine = SlotEngine(ROUND)
    jobs = [Job(1, 50) for _ in range(3)]
    for job in jobs:
        engine.submit(job)
    engine.step(0.0)
    engine.step(1.0)
    assert engine.cancel(jobs[0])
    assert engine.step(2.0).tokens == (jobs[1], jobs[2])
    assert not engine.cancel(Job(1, 1))
    with pytest.raises(ConfigurationError, match="submitted before"):
        engine.submit(jobs[0])


@given(
    calls=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 60), st.integers(1, 20), st.floats(0.01, 3)), max_size=30),
    slots=st.integers(1, 4),
    prompts=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost(calls: list[tuple[float, int, int, float]], slots: int, prompts: int) -> None:
    """Whoever comes and leaves when they like: never more than `slots` streams, each call has one fate and all its
    tokens."""
    requests = [
        Request(at, prompt, output, ClientClass("calm", share=1, leaves=patience))
        for at, prompt, output, patience in sorted(calls)
    ]

    class Watched(SlotEngine):
        def step(self, now: float) -> Any:
            step = super().step(now)
            assert len(step.tokens) <= slots
            assert len(set(step.tokens)) == len(step.tokens)
            return step

    engine = Watched(SlotProfile(slots=slots, prompts=prompts))
    controller = Controller(Concurrency(8), classes=service_classes([CALM]))
    records = replay_controller(requests, engine, controller)
    accounted(records, controller)
    assert engine.idle


def test_the_right_cap_matters_here() -> None:
    """The study's small engine at 1.5 times its load: two inside serve far more within objectives than four."""
    mix = MIXES["small"]
    clients = [client for client, _ in mix]
    requests = draw(steady(), mix, 6.0, 60.0, seed=2)
    values = []
    for places in (2, 4):
        controller = Controller(Concurrency(places), classes=service_classes(clients))
        records = replay_controller(requests, SlotEngine(SLOT_PROFILES["slots-4"]), controller)
        fates = accounted(records, controller)
        assert fates[Fate.DONE] > 50
        values.append(sum(r.request.client.value for r in records if r.met))
    assert values[0] > 1.2 * values[1]


@pytest.mark.parametrize("bad", [0, -1, nan, inf, True, "4", None])
def test_bad_profiles(bad: Any) -> None:
    """Times and sizes that make no sense are named."""
    for name in ("slots", "step", "prompts"):
        with pytest.raises(ConfigurationError, match=name):
            SlotProfile(**{name: bad})
    if bad != 0 or bad is True:
        for name in ("prompt", "stream"):
            with pytest.raises(ConfigurationError, match=name):
                SlotProfile(**{name: bad})
