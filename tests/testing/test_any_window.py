"""The any-window count: what a provider's limit counts."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante import ConfigurationError
from andante.testing import (
    any_window_count,
)


def test_any_window_count() -> None:
    """The most arrivals in any half-open window: one exactly a window later is not in it."""
    assert any_window_count([], 60) == 0
    assert any_window_count([5], 60) == 1
    assert any_window_count([0, 60, 120], 60) == any_window_count([0, 60, 120], 60, slack=0) == 1
    assert any_window_count([0, 59.9, 60, 119.9], 60) == 2
    assert any_window_count([100, 1, 0, 2, 100.5], 10) == 3
    assert any_window_count([7] * 9, 0.001) == 9


def test_any_window_count_and_rounding() -> None:
    """A paced series whose floats are a hair early is no burst; with no slack it is."""
    times = [0.1 * n for n in range(1000)]
    assert any_window_count(times, 1) == 10
    assert any_window_count([0.0, 0.9999999], 1) == 1
    assert any_window_count([0.0, 0.9999999], 1, slack=0) == 2


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 30))
def test_any_window_count_is_the_maximum(times: list[int], window: int) -> None:
    """It agrees with looking at every window that begins at an arrival."""
    slow = max((sum(t <= other < t + window for other in times) for t in times), default=0)
    assert any_window_count(times, window) == slow


@pytest.mark.parametrize(
    "bad",
    [
        lambda: any_window_count([1], 0),
        lambda: any_window_count([1], -1),
        lambda: any_window_count([1], nan),
        lambda: any_window_count([1], 1e-6),
        lambda: any_window_count([1], 10, slack=-1),
        lambda: any_window_count([1], 10, slack=5.1),
        lambda: any_window_count([1, inf], 10),
        lambda: any_window_count([-inf, 1], 10),
    ],
)
def test_any_window_count_refuses_nonsense(bad: Any) -> None:
    """Windows are positive, slack is small, times are finite."""
    with pytest.raises(ConfigurationError):
        bad()
