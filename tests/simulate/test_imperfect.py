"""Engines with faults: each fault shows its effect, and no call is lost by it."""

from __future__ import annotations

from math import inf, nan
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gates.concurrency import Concurrency
from andante.simulate.capacity import serve
from andante.simulate.engine import Engine, EngineModel
from andante.simulate.imperfect import Retimed, freezes, noisy, silent_first, slowed, stopped
from andante.simulate.job import Job
from andante.simulate.mixes import MIXES
from andante.simulate.policies import no_control
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.record import GAP
from andante.simulate.replay import replay
from andante.simulate.shapes import draw, steady
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, service_classes
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from collections.abc import Callable

FLAT = EngineProfile(a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64)
CALM = ClientClass("calm", share=1)
CHAT = MIXES["chat"]
CLIENTS = [client for client, _ in CHAT]


def alone(engine: EngineModel, tokens: int, at: float = 0.0) -> tuple[float, float]:
    """When a call that comes at `at` has its first and its last token."""
    job = Job(4, tokens)
    serve(engine, [(at, job)])
    assert job.first is not None
    assert job.end is not None
    return job.first, job.end


def test_noise_is_log_normal_with_mean_one() -> None:
    """Steps spread as told, take as long as before on average, and are the same from one seed."""
    times = []
    for seed in (1, 1, 2):
        engine = noisy(Engine(FLAT), 0.5, seed=seed)
        engine.submit(Job(1, 990))
        now, seconds = 0.0, []
        while not engine.idle:
            step = engine.step(now)
            seconds.append(step.seconds)
            assert step.at == pytest.approx(now + step.seconds)
            now = step.at
        times.append(seconds)
    assert times[0] == times[1] != times[2]
    assert fmean(times[0]) == pytest.approx(0.1, rel=0.06)
    assert pstdev(times[0]) / fmean(times[0]) == pytest.approx(0.533, rel=0.15)  # sqrt(exp(0.5^2) - 1)
    assert alone(noisy(Engine(FLAT), 0.0), 5) == alone(Engine(FLAT), 5)


def test_freezes_by_hand() -> None:
    """The engine stands still from 1.0 to 1.3, 2.0 to 2.3 ...; a step under way ends that much later."""

    def frozen() -> Retimed:
        return freezes(Engine(FLAT), 0.3, every=1.0)

    assert alone(frozen(), 9) == pytest.approx((0.1, 0.9))
    assert alone(frozen(), 11) == pytest.approx((0.1, 1.4))
    assert alone(frozen(), 18) == pytest.approx((0.1, 2.4))
    assert alone(frozen(), 1, at=0.95) == pytest.approx((1.35, 1.35))
    assert alone(frozen(), 1, at=1.1) == pytest.approx((1.4, 1.4))
    assert alone(frozen(), 1, at=1.3) == pytest.approx((1.4, 1.4))
    assert alone(frozen(), 1, at=0.05) == pytest.approx((0.15, 0.15))
    long = EngineProfile(a=2500.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64)
    assert alone(freezes(Engine(long), 0.5, every=1.0), 1) == pytest.approx((4.0, 4.0))


def test_silences_by_hand() -> None:
    """Nothing before 5 s; nothing for 5 s after the first call; nothing from 2 to 4, as while a model is loaded."""
    assert alone(stopped(Engine(FLAT), 5.0), 3) == pytest.approx((5.1, 5.3))
    assert alone(stopped(Engine(FLAT), 5.0), 3, at=7.0) == pytest.approx((7.1, 7.3))
    assert alone(silent_first(Engine(FLAT), 5.0), 3, at=7.0) == pytest.approx((12.1, 12.3))
    again = silent_first(Engine(FLAT), 5.0)
    alone(again, 1)
    assert alone(again, 1, at=20.0) == pytest.approx((20.1, 20.1))
    assert alone(stopped(Engine(FLAT), 2.0, at=2.0), 25) == pytest.approx((0.1, 4.5))


def test_speed_that_drifts() -> None:
    """Twice as slow from 1 s on, and back at 3 s."""
    engine = slowed(Engine(FLAT), lambda now: 2.0 if 1.0 - 1e-9 <= now < 3.0 - 1e-9 else 1.0)
    assert alone(engine, 25) == pytest.approx((0.1, 1.0 + 2.0 + 0.5))
    with pytest.raises(ConfigurationError, match=r"factor\(0\)"):
        alone(slowed(Engine(FLAT), lambda _: 0.0), 1)


FAULTS: dict[str, Callable[[EngineModel], Retimed]] = {
    "noise": lambda engine: noisy(engine, 0.3, seed=4),
    "freezes": lambda engine: freezes(engine, 1.0, every=10.0),
    "silence": lambda engine: silent_first(engine, 5.0),
    "stop": lambda engine: stopped(engine, 4.0, at=10.0),
    "drift": lambda engine: slowed(engine, lambda now: 1.5),
    "all": lambda engine: noisy(freezes(stopped(engine, 3.0, at=5.0), 1.0, every=12.0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost(fault: str) -> None:
    """Under overload each request has one fate, engine and controller count the same, and a fault costs."""
    requests = draw(steady(), CHAT, 12.0, 25.0, seed=6)
    values = []
    for imperfect in (None, FAULTS[fault]):
        engine = Engine(PROFILES["a100-8b"])
        controller = Controller(Concurrency(80), classes=service_classes(CLIENTS))
        records = replay_controller(requests, imperfect(engine) if imperfect else engine, controller)
        accounted(records, controller)
        assert engine.submitted == engine.finished + engine.cancelled
        assert engine.kv_used == 0
        values.append(sum(r.request.client.value for r in records if r.met))
    if fault != "noise":
        assert values[1] < values[0]


def test_with_an_event_loop_too() -> None:
    """A faulty engine serves the other driver the same."""
    requests = [Request(0.2 * n, 4, 5, CALM) for n in range(40)]
    runs = [
        replay(requests, FAULTS["all"](Engine(FLAT)), no_control),
        replay_controller(requests, FAULTS["all"](Engine(FLAT)), Controller(classes=service_classes([CALM]))),
    ]
    assert [r.over for r in runs[0]] == pytest.approx([r.over for r in runs[1]], abs=100 * GAP)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, True, "8", None])
def test_bad_numbers(bad: Any) -> None:
    """A fault that makes no sense is named."""
    engine = Engine(FLAT)
    for make in (
        lambda: freezes(engine, bad),
        lambda: freezes(engine, every=bad),
        lambda: stopped(engine, bad),
        lambda: silent_first(engine, bad),
    ):
        with pytest.raises(ConfigurationError):
            make()
    if bad != 0 or bad is True or bad is None:
        with pytest.raises(ConfigurationError, match="sigma"):
            noisy(engine, bad)
        with pytest.raises(ConfigurationError, match="at"):
            stopped(engine, 1.0, at=bad)
    with pytest.raises(ConfigurationError, match="no time"):
        freezes(engine, 30.0, every=30.0)
