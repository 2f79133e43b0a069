"""Engine profiles: the formula, and numbers that make no sense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.simulate.profiles import PROFILES, profile


def test_the_formula() -> None:
    """step = a + b*P + c*B + d*K + e*Q, in ms. A full chunk on an A100 beside 64 decoding sequences takes 146 ms."""
    a100 = profile("a100-8b")
    assert a100.step_ms(0, 0, 0) == 11.0
    assert a100.step_ms(0, 64, 64 * 1024) == pytest.approx(18.8, abs=0.05)
    assert a100.step_ms(2048 - 64, 64, 64 * 1024) == pytest.approx(146, abs=1.0)


def test_names() -> None:
    """A name nobody knows is answered with the names there are."""
    with pytest.raises(ConfigurationError, match="a100-8b, h100-8b"):
        profile("a100")
    with pytest.raises(ConfigurationError):
        profile([])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), True, "1", None])
def test_bad_times(name: str, value: Any) -> None:
    """A time is a finite number >= 0."""
    with pytest.raises(ConfigurationError, match=rf"EngineProfile\.{name}"):
        replace(PROFILES["a100-8b"], **{name: value})


@pytest.mark.parametrize("name", ["kv", "seqs", "mbt"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None])
def test_bad_sizes(name: str, value: Any) -> None:
    """A size is a whole number above 0."""
    with pytest.raises(ConfigurationError, match=rf"EngineProfile\.{name}"):
        replace(PROFILES["a100-8b"], **{name: value})


def test_a_step_takes_time_and_has_room_for_all() -> None:
    """No step without any time, which would be an endless loop; at least a token a step for each who runs."""
    with pytest.raises(ConfigurationError, match="above 0 ms"):
        replace(PROFILES["a100-8b"], a=0.0)
    with pytest.raises(ConfigurationError, match="at least seqs"):
        replace(PROFILES["a100-8b"], mbt=255)
