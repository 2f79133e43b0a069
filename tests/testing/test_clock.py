"""The clock that a test moves by hand."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.testing import ManualClock


def test_it_moves_only_by_hand() -> None:
    """The clock stands still between advances, and advancing returns the new time."""
    clock = ManualClock(5)
    assert clock() == clock() == 5.0
    assert clock.advance(2.5) == clock() == 7.5
    assert clock.advance(timedelta(minutes=1)) == 67.5
    assert clock.advance_to(100) == clock() == 100.0
    assert clock.advance_to(100) == 100.0
    assert repr(clock) == "<ManualClock at 100 s>"
    assert ManualClock()() == 0.0


@given(st.lists(st.floats(0, 1e12)))
def test_it_never_goes_back(steps: list[float]) -> None:
    """Whatever it is told, a later reading is never smaller."""
    clock = ManualClock()
    for step in steps:
        before = clock()
        clock.advance(step)
        assert clock() >= before


@pytest.mark.parametrize("value", [-1.0, -1e-300, nan, inf, True, "1", None])
def test_nonsense_is_refused(value: Any) -> None:
    """Negative, endless and non-numeric times are refused by name, and change nothing."""
    clock = ManualClock(1)
    with pytest.raises(ConfigurationError, match="by"):
        clock.advance(value)
    with pytest.raises(ConfigurationError, match="at"):
        clock.advance_to(value)
    with pytest.raises(ConfigurationError, match="start"):
        ManualClock(value)
    assert clock() == 1.0


def test_back_is_refused() -> None:
    """Going back to an earlier time is refused."""
    clock = ManualClock(10)
    with pytest.raises(ConfigurationError, match="never goes back"):
        clock.advance_to(9.999)
    assert clock() == 10.0
