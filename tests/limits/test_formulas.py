"""AIMD, Vegas and Gradient2 by their formulas, sample by sample."""

from __future__ import annotations

from datetime import timedelta
from math import nan
from typing import TYPE_CHECKING, Any

import pytest

from andante.limits import AIMD, Gradient2, Vegas
from andante.values import Ending, Outcome

if TYPE_CHECKING:
    from andante.limits.learned import LearnedLimit

KINDS: dict[str, type[Any]] = {"AIMD": AIMD, "Vegas": Vegas, "Gradient2": Gradient2}
EACH = pytest.mark.parametrize("name", KINDS)
SAME = pytest.approx


def done(estimate: LearnedLimit, took: float, inside: int, now: float, calls: int = 10) -> None:
    """A round: so many calls, all done at one moment, all begun after the last change."""
    for _ in range(calls):
        estimate.sample(Outcome(seconds=took), inside, now)


def refused(estimate: LearnedLimit, now: float, seconds: float | None = None, calls: int = 1) -> None:
    for _ in range(calls):
        estimate.sample(Outcome(Ending.OVERLOADED, seconds=seconds), 5, now)


# The formulas. --------------------------------------------------------------------------------------------------------


def test_aimd_adds_one_a_round_and_takes_a_tenth() -> None:
    """1 / limit per call that went well, 0.9 times the limit for a failure or a call over the timeout."""
    aimd = AIMD(initial=10)
    done(aimd, 0.1, 10, 1.0, calls=1)
    assert aimd.limit == SAME(10.1)
    done(aimd, 0.1, 10, 2.0, calls=9)
    assert aimd.limit == SAME(11, abs=0.05)
    aimd = AIMD(initial=10, timeout=timedelta(seconds=2))
    done(aimd, 2.0, 10, 10.0, calls=1)
    assert aimd.limit == SAME(10.1)
    done(aimd, 2.1, 10, 20.0, calls=1)
    assert aimd.limit == SAME(9.09)
    done(AIMD(timeout=None), 1e9, 10, 2e9)


def test_vegas_by_hand() -> None:
    """At a limit of 20 a step is 1: queues of at most 1, under 3, from 3 to 6 and over 6 add 6, add 1, change nothing,
    take 1."""
    for took, expected in ((1.0, 26), (1.05, 26), (1.1, 21), (1.16, 20), (1.2, 20), (1.4, 20), (1.5, 19), (9.0, 19)):
        vegas = Vegas()
        vegas.load({"limit": 20, "fastest": 1.0, "calls": 0}, 0.0)
        done(vegas, took, 20, 100.0)
        assert vegas.limit == expected, took


def test_vegas_takes_larger_steps_when_it_is_large() -> None:
    """From 100 calls a step is 2, from 1,000 it is 3."""
    for limit, step in ((99, 1), (100, 2), (999, 2), (1000, 3)):
        vegas = Vegas(initial=limit, maximum=5000)
        done(vegas, 1.0, limit, 10.0)
        assert vegas.limit == limit + 6 * step
        vegas = Vegas(initial=limit, maximum=5000)
        refused(vegas, 0.0)
        assert vegas.limit == limit - step


def test_vegas_forgets_the_fastest_time() -> None:
    """After `probe` times the limit's calls the present round's fastest time is the fastest."""
    vegas = Vegas(initial=10, probe=3)
    vegas.load({"fastest": 0.1, "calls": 0}, 0.0)
    for turn in range(1, 3):
        done(vegas, 1.0, 1, turn * 10.0)
        assert vegas.dump()["fastest"] == 0.1
    done(vegas, 1.0, 1, 30.0)
    assert vegas.dump() == {"limit": 10, "fastest": 1.0, "calls": 0}
    done(vegas, 0.5, 1, 40.0, calls=9)
    done(vegas, 2.0, 1, 40.0, calls=1)
    done(vegas, 0.9, 1, 50.0, calls=4)
    done(vegas, 2.0, 1, 50.0, calls=6)
    assert vegas.dump() == {"limit": 10, "fastest": 0.5, "calls": 20}
    done(vegas, 0.8, 1, 60.0, calls=4)
    done(vegas, 2.0, 1, 60.0, calls=6)
    assert vegas.dump() == {"limit": 10, "fastest": 0.8, "calls": 0}


def test_gradient2_by_hand() -> None:
    """usual 1 s, tolerance 1.5, queue 4, smoothing 0.2: 0.2 of the way to 20 * gradient + 4."""
    for took, gradient in ((1.0, 1.0), (1.5, 1.0), (2.0, 0.75), (3.0, 0.5), (99.0, 0.5)):
        learned = Gradient2(window=10**9)
        learned.load({"limit": 20, "usual": 1.0, "rounds": 100}, 0.0)
        done(learned, took, 20, 1000.0)
        assert learned.limit == SAME(20 + 0.2 * (20 * gradient + 4 - 20), rel=1e-6), took


def test_gradient2_knows_what_is_usual() -> None:
    """The plain mean of ten rounds, then an exponential average, 2 / (window + 1); 5 % less while twice as long."""
    learned = Gradient2(window=9)
    for turn in range(10):
        done(learned, 1.0 + turn % 2, 1, 100.0 * turn)
    assert learned.dump()["usual"] == SAME(1.5)
    done(learned, 2.0, 1, 2000.0)
    assert learned.dump()["usual"] == SAME(1.5 + 0.2 * 0.5)
    done(learned, 0.1, 1, 3000.0)
    assert learned.dump()["usual"] == SAME((1.6 + 0.2 * (0.1 - 1.6)) * 0.95)


@EACH
def test_growth_needs_half_of_the_limit_in_use(name: str) -> None:
    """The published rule: with half of the limit in use it grows, below that it stays."""
    for inside, grows in ((20, True), (10, True), (9, False), (1, False)):
        estimate = KINDS[name]()
        done(estimate, 0.1, inside, 1.0)
        assert (estimate.limit > 20) is grows, inside
        assert estimate.limit >= 20


# One cut per round trip. ----------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("seconds", [None, 0.0, 0.001, 0.3, nan])
def test_a_burst_of_refusals_is_one_cut(name: str, seconds: float | None) -> None:
    """Twenty refusals within one round trip lower the limit as much as one, whether or not they say how long they
    took; the next round trip's lower it again."""
    one, many = KINDS[name](), KINDS[name]()
    for estimate in (one, many):
        done(estimate, 0.2, 1, 1.0, calls=30)
    refused(one, 10.0, seconds)
    for n in range(20):
        refused(many, 10.0 + n * 0.009, seconds)
    assert one.limit == many.limit < 20
    before = many.limit
    refused(many, 10.6, seconds)
    assert many.limit < before


@EACH
def test_refusals_of_calls_from_before_the_cut(name: str) -> None:
    """A call that began before the cut tells of the same overload, however late it ends."""
    estimate = KINDS[name]()
    refused(estimate, 10.0, 1.0)
    once = estimate.limit
    refused(estimate, 100.0, 90.5)
    assert estimate.limit == once
    refused(estimate, 100.0, 89.5)
    assert estimate.limit < once


@EACH
def test_calls_from_before_the_cut_do_not_raise_it(name: str) -> None:
    """Calls that began before a cut and go well prove nothing about the limit after it; later ones do."""
    estimate = KINDS[name]()
    refused(estimate, 10.0)
    once = estimate.limit
    done(estimate, 1.0, 20, 10.5, calls=20)
    assert estimate.limit == once
    done(estimate, 1.0, 20, 11.5, calls=20)
    assert estimate.limit > once


def test_a_burst_of_slow_calls_is_one_cut_for_aimd() -> None:
    """So are slow calls; and what began before the cut adds nothing afterwards."""
    aimd = AIMD(timeout=1)
    done(aimd, 5.0, 20, 10.0, calls=20)
    assert aimd.limit == SAME(18)
    done(aimd, 0.5, 20, 10.1, calls=20)
    assert aimd.limit == SAME(18)
    done(aimd, 5.0, 20, 15.0, calls=1)
    assert aimd.limit == SAME(16.2)


@EACH
@pytest.mark.parametrize("limit", [1, 2, 5, 8, 20, 150])
def test_an_overload_never_raises(name: str, limit: int) -> None:
    """At no limit: it falls, or is the minimum."""
    estimate = KINDS[name](initial=limit)
    refused(estimate, 5.0)
    assert estimate.limit < limit or limit == 1


@EACH
@pytest.mark.parametrize("back", [-1e6, 0.0])
def test_a_clock_that_starts_anew(name: str, back: float) -> None:
    """After a cut at a late time, samples at early ones still count: neither cuts nor growth stay off."""
    estimate = KINDS[name]()
    done(estimate, 0.1, 20, 1e6, calls=1)
    refused(estimate, 1e6)
    cut = estimate.limit
    refused(estimate, back)
    assert estimate.limit < cut
    cut = estimate.limit
    for turn in range(1, 40):
        done(estimate, 0.1, 20, back + turn)
    assert estimate.limit > cut


@EACH
def test_a_clock_that_starts_anew_in_good_times(name: str) -> None:
    """After growth at a late time, calls that go well at early ones raise the limit further."""
    estimate = KINDS[name]()
    done(estimate, 0.1, 20, 1e6)
    before = estimate.limit
    assert before > 20
    done(estimate, 0.1, 60, 5.0)
    assert estimate.limit > before


@EACH
def test_a_round_trip_is_the_median(name: str) -> None:
    """Four terrible times of nine do not hold up the next cut; before any time is known it comes after 1 s."""
    estimate = KINDS[name]()
    for took in (0.1, 900.0, 0.2, 900.0, 0.2, 900.0, 0.3, 900.0, 0.2):
        done(estimate, took, 1, 1000.0, calls=1)
    new = KINDS[name]()
    for each, pause in ((estimate, 0.31), (new, 1.01)):
        refused(each, 2000.0)
        before = each.limit
        refused(each, 2000.0 + pause - 0.02)
        assert each.limit == before
        refused(each, 2000.0 + pause)
        assert each.limit < before


@EACH
def test_load_begins_anew(name: str) -> None:
    """Cuts and rounds from before a `load` do not hold up what comes after it, whatever the clock says."""
    estimate = KINDS[name]()
    refused(estimate, 10.0)
    estimate.load({"limit": 20}, 0.0)
    refused(estimate, 10.1)
    assert estimate.limit < 20
    estimate.load({"limit": 20}, 0.0)
    done(estimate, 5.0, 20, 10.2)
    assert estimate.limit > 20
