"""What gates accept as numbers, flags and units."""

from __future__ import annotations

import math
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.gates.parameters import UNITS, finite, flag, measure
from andante.values import Cost


def test_finite() -> None:
    """A number comes back as a float; bounds are inclusive unless said otherwise."""
    assert finite(3, "x") == 3.0
    assert isinstance(finite(3, "x"), float)
    assert finite(0, "x") == 0
    assert finite(1.5, "x", least=1.5) == 1.5


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, None, "1", 10**400, -(10**400)])
def test_not_finite(value: Any) -> None:
    """Anything else is refused with the name of the parameter."""
    with pytest.raises(ConfigurationError, match="width") as error:
        finite(value, "width")
    assert error.value.path == "width"
    with pytest.raises(ConfigurationError, match="above 0"):
        finite(0, "width", above=True)


def test_flag() -> None:
    """True and False, and nothing that is like them."""
    assert flag(True, "x") is True
    for value in (1, 0, None, "yes"):
        with pytest.raises(ConfigurationError, match="x must be"):
            flag(value, "x")


def test_measure() -> None:
    """Each unit counts its part of a cost."""
    cost = Cost(requests=3, input_tokens=10, output_tokens=4, cached_tokens=6)
    assert [measure(unit)(cost) for unit in UNITS] == [3, 14, 10, 4]
    assert [measure(unit, count_cached=False)(cost) for unit in UNITS] == [3, 8, 4, 4]
    for unit in ("bytes", "", None, ["tokens"]):
        with pytest.raises(ConfigurationError, match="unit"):
            measure(unit)  # type: ignore[arg-type]
