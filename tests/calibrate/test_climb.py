"""The plan: careful, bounded, and it finds the knee."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.calibrate import (
    Bounds,
    Effect,
    Estimate,
    Level,
    Sample,
    Stop,
    Trouble,
    Visit,
    estimate,
    knee,
    plan,
    pooled,
)
from andante.calibrate.climb import MOST
from andante.calibrate.level import SLICES
from andante.errors import ConfigurationError

PUSHBACK = Trouble("HTTP 429", effect=Effect.PUSHBACK)


class Backend:
    """Serves up to `knee` calls together, `took` seconds each, and no more than that; beyond, `thrash` of the rate is
    lost for every doubling. Rates carry relative `noise`."""

    def __init__(
        self, knee: float, took: float = 1.0, *, thrash: float = 0.0, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.knee, self.took, self.thrash, self.noise = knee, took, thrash, noise
        self.draw = random.Random(seed)

    def level(self, n: int) -> Level:
        rate = min(n, self.knee) / self.took
        if n > self.knee:
            rate *= (self.knee / n) ** self.thrash
        rates = tuple(rate * self.draw.lognormvariate(0, self.noise) for _ in range(SLICES))
        seconds = n / rate
        return Level(n, calls=rates, ttft=(seconds / 10,), itl=(seconds / 100,), seconds=(seconds,), ended=20)


def climbed(backend: Backend, bounds: Bounds) -> tuple[list[Level], Stop, float]:
    """The climb on this backend: visits, why it stopped, seconds spent."""
    visits: list[Level] = []
    spent = 0.0
    while isinstance(step := plan(visits, bounds, bounds.seconds - spent), Visit):
        spent += step.settle + step.window
        visits.append(backend.level(step.n))
        assert len(visits) <= MOST
    return visits, step, spent


@given(
    knee_at=st.integers(1, 200),
    took=st.floats(0.01, 20),
    thrash=st.floats(0, 2),
    noise=st.floats(0, 1),
    at_most=st.integers(1, 300),
    seconds=st.floats(1, 500),
    seed=st.integers(0, 9),
)
def test_always_bounded(
    knee_at: int, took: float, thrash: float, noise: float, at_most: int, seconds: float, seed: int
) -> None:
    """Whatever the backend does: the climb begins with one call, at most doubles what was well, keeps within both
    bounds, and ends."""
    bounds = Bounds(at_most=at_most, seconds=seconds)
    visits, _, spent = climbed(Backend(knee_at, took, thrash=thrash, noise=noise, seed=seed), bounds)
    assert spent <= seconds + 1e-6
    highest = 0
    for visit in visits:
        assert 1 <= visit.n <= min(at_most, max(1, 2 * highest))
        highest = max(highest, visit.n)


@given(knee_at=st.integers(1, 100), took=st.floats(0.1, 2), thrash=st.floats(0, 1))
def test_finds_the_knee(knee_at: int, took: float, thrash: float) -> None:
    """Without noise and with time enough: between what reaches nearly everything and a third above the knee, whether
    the rate beyond is flat or falls."""
    bounds = Bounds(at_most=256, seconds=5000)
    visits, stop, _ = climbed(Backend(knee_at, took, thrash=thrash), bounds)
    pace = knee(pooled(visits), bounds)
    assert stop.reason == "knee"
    assert pace is not None
    assert 0.8 * knee_at <= pace.n <= 1.31 * knee_at
    assert pace.visits >= 3
    assert max(visit.n for visit in visits) <= max(2, 4 * knee_at)


def test_noise_is_not_a_knee() -> None:
    """With 10 % noise in every slice the climb rarely stops half-way or goes far too far."""
    bounds = Bounds(at_most=128, seconds=5000)
    found = []
    for seed in range(40):
        visits, _, _ = climbed(Backend(24, noise=0.10, seed=seed), bounds)
        pace = knee(pooled(visits), bounds)
        assert pace is not None
        found.append(pace.n)
    assert sum(20 <= n <= 38 for n in found) >= 36, found
    assert sum(20 <= n <= 27 for n in found) >= 28, found


def test_flat_and_falling_backends() -> None:
    """A backend that serves one at a time: the pace is 1, whatever more would do."""
    for thrash in (0.0, 1.0):
        visits, stop, _ = climbed(Backend(1, thrash=thrash), Bounds(seconds=600))
        found = knee(pooled(visits), Bounds())
        assert found is not None
        assert (found.n, stop.reason) == (1, "knee")
        assert max(visit.n for visit in visits) == 4


def test_the_bound_is_the_bound() -> None:
    """A backend without a knee in reach stops at the stated number, and says so."""
    visits, stop, _ = climbed(Backend(1000), Bounds(at_most=24, seconds=600))
    found = knee(pooled(visits), Bounds())
    assert found is not None
    assert (found.n, stop.reason) == (24, "at_most")
    assert "24 in flight" in stop.said


def test_objectives_bound_the_climb() -> None:
    """An itl or ttft objective stops the climb below the knee, closely; kept by none, there is no pace."""
    slow = Backend(8, thrash=0.0)  # a call takes n/8 s beyond the knee: gap n/800, first output n/80
    for bounds, reason in ((Bounds(itl=0.01, seconds=900), "itl"), (Bounds(ttft=0.1, seconds=900), "ttft")):
        visits, stop, _ = climbed(slow, bounds)
        assert stop.reason in {reason, "knee"}
        found = knee(pooled(visits), bounds)
        assert found is not None
        assert 7 <= found.n <= 8
    visits, stop, _ = climbed(slow, Bounds(itl=0.005, seconds=900))
    assert (len(visits), stop.reason) == (1, "itl")
    assert knee(pooled(visits), Bounds(itl=0.005)) is None
    batching = Backend(1000)  # gaps are 0.01 s at every number: objectives a little above do not bind
    assert climbed(batching, Bounds(itl=0.0101, seconds=900))[1].reason == "at_most"


def test_pushback_and_troubles_stop_at_once() -> None:
    """The visit after which the backend said no, or in which no call can succeed, or too many failed, is the last."""
    ok = Backend(100)
    for trouble, reason in (
        (PUSHBACK, "pushback"),
        (Trouble("HTTP 401", effect=Effect.FATAL), "fatal"),
        (Trouble("HTTP 500"), "faults"),
    ):
        bad = replace(ok.level(4), troubles=((trouble, 3),))
        stop = plan([ok.level(1), ok.level(2), bad], Bounds(), 1000)
        assert isinstance(stop, Stop)
        assert stop.reason == reason
        assert trouble.kind in stop.said
    few = replace(ok.level(4), troubles=((Trouble("HTTP 500"), 2),))
    assert isinstance(plan([ok.level(1), ok.level(2), few], Bounds(), 1000), Visit)
    pushed = replace(ok.level(4), troubles=((PUSHBACK, 1),))
    found = knee([ok.level(1), ok.level(2), pushed], Bounds())
    assert found is not None
    assert found.n == 2, "a number at which the backend said no is never the pace"


def test_a_backend_that_gives_nothing() -> None:
    """No call came back in a visit: said, not divided by."""
    stop = plan([Level(1)], Bounds(), 1000)
    assert isinstance(stop, Stop)
    assert stop.reason == "nothing"
    assert knee([Level(1)], Bounds()) is None


def test_time_runs_out() -> None:
    """No visit begins that cannot end in time; one that was cut short ends the climb."""
    assert isinstance(plan([], Bounds(seconds=60), 2.3), Stop)
    assert isinstance(plan([], Bounds(seconds=60), 2.5), Visit)
    assert plan([], Bounds(seconds=60), 60, 10.0) == Visit(1, 0.0, 15.0), "no window is shorter than a call"
    assert isinstance(plan([], Bounds(seconds=60), 60, 50.0), Stop)
    stop = plan([replace(Backend(4).level(1), whole=False)], Bounds(), 1000)
    assert isinstance(stop, Stop)
    assert stop.reason == "seconds"


def test_a_lucky_stop_is_looked_at_again() -> None:
    """A number whose one visit was slow, with a wide spread, is visited a second time before it is believed; and one
    that was slow throughout is visited again at the end."""
    ok = Backend(100)
    low = [ok.level(n) for n in (1, 2, 4, 8)]
    wide = replace(ok.level(16), calls=(4.0, 7.0, 9.0, 20.0))
    again = plan([*low, wide], Bounds(seconds=600), 600)
    assert isinstance(again, Visit)
    assert again.n == 16
    visits = [*low, replace(ok.level(16), calls=(8.0,) * SLICES), ok.level(11), ok.level(11), ok.level(11)]
    visits += [ok.level(13)] * 3
    last = plan(visits, Bounds(seconds=600), 600)
    assert isinstance(last, Visit)
    assert last.n == 16
    on = plan([*visits, replace(ok.level(16), calls=(30.0,) * SLICES)], Bounds(seconds=600), 600)
    assert isinstance(on, Visit)
    assert on.n == 32, "it brought a gain after all: the climb goes on"


def test_the_reason_is_about_the_pace() -> None:
    """What is said of the end compares with the pace that is reported, or tells the objective that was missed."""
    ok = Backend(100)
    levels = [
        replace(ok.level(1), calls=(2.78,) * SLICES),
        replace(ok.level(2), calls=(2.46,) * SLICES),
        replace(ok.level(3), calls=(2.4,) * SLICES),
        replace(ok.level(4), calls=(3.3,) * SLICES),
        replace(ok.level(5), calls=(3.1,) * SLICES, ttft=(9.0,)),
    ]
    visits = [*levels, *levels[:4], *levels[:4]]
    for bounds, reason, said in ((Bounds(seconds=600), "knee", "5 in flight"), (Bounds(ttft=1.0), "ttft", "with 5")):
        found = knee(pooled(visits), bounds)
        assert found is not None
        assert found.n == 4
        stop = plan(visits, bounds, 600)
        assert isinstance(stop, Stop)
        assert stop.reason == reason
        assert said in stop.said


def test_two_together_may_do_no_better_than_one() -> None:
    """Engines compute otherwise for one call than for many: no gain at 2 or 4 is believed when twice as many bring
    none either, and the climb goes on where they do."""
    ok = Backend(100)
    two = replace(ok.level(2), calls=(1.0,) * SLICES)
    peek = plan([ok.level(1), two], Bounds(seconds=600), 600)
    assert isinstance(peek, Visit)
    assert peek.n == 4
    on = plan([ok.level(1), two, replace(ok.level(4), calls=(2.0,) * SLICES)], Bounds(seconds=600), 600)
    assert isinstance(on, Visit)
    assert on.n == 8
    enough = plan([ok.level(1), two], Bounds(at_most=2, rounds=1, seconds=600), 600)
    assert isinstance(enough, Stop)
    late = [ok.level(1), two, replace(ok.level(4), itl=(9.0,))]
    stop = plan(late, Bounds(itl=1.0, rounds=1, seconds=600), 600)
    assert isinstance(stop, Stop)
    assert stop.reason == "knee"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("at_most", value) for value in (0, -1, 2.5, True, "4", 10_001, None)],
        *[("rounds", value) for value in (0, 21, 1.0, False)],
        *[("seconds", value) for value in (0, -1, nan, inf, "60", True, None, 10**400)],
        *[("timeout", value) for value in (0, nan, inf, None)],
        *[("ttft", value) for value in (0, -0.1, nan, inf, "1")],
        *[("itl", value) for value in (0, -0.1, nan, inf, True)],
    ],
)
def test_bad_bounds(name: str, value: Any) -> None:
    """Each is refused by name."""
    with pytest.raises(ConfigurationError, match=name) as caught:
        Bounds(**{name: value})
    assert caught.value.path == name


@given(took=st.floats(0, 100), seconds=st.floats(1, 300), at_most=st.integers(1, 64), real=st.integers(1, 100))
def test_the_estimate_is_a_bound(took: float, seconds: float, at_most: int, real: int) -> None:
    """No backend gets more calls than the estimate says, up to the rounding and the noise of a real one."""
    bounds = Bounds(at_most=at_most, seconds=seconds)
    said = estimate(Sample(0.0, ended=took, tokens=10.0), bounds)
    assert isinstance(said, Estimate)
    assert said.seconds <= seconds + 1e-6
    assert said.n <= at_most
    visits, _, spent = climbed(Backend(real, max(took, 1e-3)), bounds)
    most = spent * max((visit.n for visit in visits), default=0) / max(took, 1e-3)
    assert said.calls <= seconds * at_most / max(took, 1e-3) + 1
    assert most >= 0
