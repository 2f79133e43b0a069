"""Uniform backends by their laws: throughput against calls inside, batches, and no call lost."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

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
from andante.simulate.uniform import UNIFORM_PROFILES, BatchEngine, BatchProfile, ServiceEngine, ServiceProfile
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, service_classes
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from andante.simulate.engine import EngineModel

CALL = MIXES["whole"][0][0]


def made(name: str) -> EngineModel:
    profile = UNIFORM_PROFILES[name]
    return ServiceEngine(profile) if isinstance(profile, ServiceProfile) else BatchEngine(profile)


def throughput(name: str, places: int, rate: float, seconds: float) -> float:
    """Calls a second that are done, after the first third."""
    controller = Controller(Concurrency(places), classes=service_classes([CALL]))
    requests = draw(steady(), MIXES["whole"], rate, seconds)
    records = replay_controller(requests, made(name), controller, tells="ends", until=seconds)
    accounted(records, controller)
    return sum(r.fate is Fate.DONE and r.over is not None and r.over > seconds / 3 for r in records) / (seconds * 2 / 3)


@pytest.mark.parametrize(
    ("name", "places", "rate", "expected"),
    [
        ("http-20", 10, 150.0, 50.0),
        ("http-20", 20, 150.0, 100.0),
        ("http-20", 60, 150.0, 100.0),
        ("http-8-thrashing", 4, 8.0, 2.0),
        ("http-8-thrashing", 8, 8.0, 4.0),
        ("http-8-thrashing", 12, 8.0, 4.0),
        ("http-8-thrashing", 24, 8.0, 2.0),
        ("http-8-thrashing", 48, 8.0, 1.0),
        ("embedder", 64, 2000.0, 64 / 0.042),
        ("embedder", 8, 1000.0, 8 / 0.014),
        ("embedder-slow", 64, 1000.0, 64 / 0.133),
    ],
)
def test_throughput_by_the_law(name: str, places: int, rate: float, expected: float) -> None:
    """Under overload, with so many inside: what the profile's law says, to 4 %."""
    seconds = 3.0 if rate >= 1000 else 12.0 if rate > 100 else 240.0
    assert throughput(name, places, rate, seconds) == pytest.approx(expected, rel=0.04)


def test_a_call_alone_and_two_together() -> None:
    """One worker, 1 s a call: alone 1 s; two that share it from the start 2 s; with one more in the middle the first
    takes 0.5 + 2 * 0.5."""
    clients = [ClientClass("calm", share=1)]
    for times, ends in (([0.0], [1.0]), ([0.0, 0.0], [2.0, 2.0]), ([0.0, 0.5], [1.5, 2.0])):
        engine = ServiceEngine(ServiceProfile(workers=1, seconds=1.0))
        requests = [Request(at, 1, 1, clients[0]) for at in times]
        records = replay_controller(requests, engine, Controller(classes=service_classes(clients)))
        assert [r.over for r in records] == pytest.approx(ends, abs=0.015)
        assert [r.first for r in records] == [r.over for r in records]
        assert engine.idle


def test_batches_by_hand() -> None:
    """What waits goes together, at most `most`; who leaves before its batch is not in it."""
    engine = BatchEngine(BatchProfile(most=2, fixed=0.1, each=0.05))
    jobs = [Job(1, 7) for _ in range(4)]
    for job in jobs:
        engine.submit(job)
    assert engine.cancel(jobs[1])
    step = engine.step(1.0)
    assert (step.seconds, step.finished) == (pytest.approx(0.2), (jobs[0], jobs[2]))
    assert not engine.cancel(jobs[0])
    assert engine.step(2.0).finished == (jobs[3],)
    assert engine.step(3.0).seconds == 0.0
    assert (jobs[0].first, jobs[0].generated, jobs[1].state) == (pytest.approx(1.2), 7, JobState.CANCELLED)


@given(
    calls=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5), st.floats(0.01, 5)), max_size=40),
    name=st.sampled_from(sorted(UNIFORM_PROFILES)),
    tells=st.sampled_from(["streams", "ends"]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost(calls: list[tuple[float, int, float]], name: str, tells: Any) -> None:
    """Whoever comes and leaves when they like: each call has one fate, and the backend ends empty."""
    requests = [
        Request(at, 10, output, ClientClass("calm", share=1, leaves=patience)) for at, output, patience in sorted(calls)
    ]
    engine = made(name)
    controller = Controller(Concurrency(9), classes=service_classes([ClientClass("calm", share=1)]))
    records = replay_controller(requests, engine, controller, tells=tells)
    accounted(records, controller)
    assert engine.idle


@pytest.mark.parametrize("bad", [0, -1, nan, True, "4", None])
def test_bad_profiles(bad: Any) -> None:
    """Times and sizes that make no sense are named."""
    for name in ("workers", "seconds", "thrashes", "steepness", "tick"):
        with pytest.raises(ConfigurationError, match=name):
            ServiceProfile(**{"workers": 1, "seconds": 1.0, name: bad})
    with pytest.raises(ConfigurationError, match="most"):
        BatchProfile(most=bad, fixed=1.0, each=1.0)
    if bad != 0 or bad is True:
        with pytest.raises(ConfigurationError, match="fixed"):
            BatchProfile(most=1, fixed=bad, each=1.0)


def test_what_takes_no_time_or_for_ever() -> None:
    """A batch takes some time, and a service ends; a job serves once."""
    with pytest.raises(ConfigurationError, match="no time"):
        BatchProfile(most=1, fixed=0.0, each=0.0)
    with pytest.raises(ConfigurationError, match="seconds"):
        ServiceProfile(workers=1, seconds=inf)
    for engine in (ServiceEngine(ServiceProfile(workers=1, seconds=1.0)), BatchEngine(BatchProfile(1, 1.0, 1.0))):
        job = Job(1, 1)
        engine.submit(job)
        with pytest.raises(ConfigurationError, match="submitted before"):
            engine.submit(job)
        assert engine.cancel(job)
        assert not engine.cancel(job)
        assert engine.step(0.0).seconds == 0.0
