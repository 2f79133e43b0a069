"""How long work takes, learned from how long it took."""

from __future__ import annotations

from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.wrappers.durations import ASKED_AGAIN, KEPT, Durations


def test_nothing_is_predicted_of_four() -> None:
    """Below five nothing is known, and everything fits."""
    durations = Durations()
    for _ in range(4):
        durations.took(9.0)
    assert durations.predicted is None
    assert durations.fits(0.001)
    durations.took(9.0)
    assert durations.predicted == 9.0
    assert not durations.fits(8.9)
    assert durations.fits(9.0)


@given(st.lists(st.floats(0, 1e6), min_size=5, max_size=200))
def test_the_quantile_of_the_latest(seconds: list[float]) -> None:
    """Nine of ten of the latest 64 lie at or below it."""
    durations = Durations()
    for took in seconds:
        durations.took(took)
    latest = sorted(seconds[-KEPT:])
    assert durations.predicted == latest[ceil(0.9 * len(latest)) - 1]


def test_one_terrible_run_does_not_count() -> None:
    """One sample of ten or more moves nothing."""
    durations = Durations()
    for _ in range(10):
        durations.took(1.0)
    durations.took(inf)
    assert durations.predicted == 1.0


def test_it_recovers() -> None:
    """Work that was slow once and is fast again is found out, though it is turned away meanwhile."""
    durations = Durations()
    for _ in range(KEPT):
        durations.took(10.0)
    asked = ran = 0
    while durations.predicted != 0.1:
        asked += 1
        if durations.fits(1.0):
            ran += 1
            durations.took(0.1)
        assert asked < 10_000
    assert ran == pytest.approx(asked / ASKED_AGAIN, rel=0.1)
