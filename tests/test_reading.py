"""A reading is a number, or nothing: never idle, never full."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from andante import Reading, Signal
from andante.testing import ScriptedSignal


@pytest.mark.parametrize(
    ("value", "at", "known"),
    [(0.5, 10.0, 0.5), (0, 10.0, 0.0), (0.5, 5.0, 0.5), (0.5, 4.9, None), (None, 10.0, None), (nan, 10.0, None),
     (inf, 10.0, None), ("0.5", 10.0, None), (True, 10.0, None), (0.5, -inf, None), (0.5, nan, None), (0.5, 11.0, 0.5)],
)  # fmt: skip
def test_missing_and_stale_are_a_third_state(value: Any, at: float, known: float | None) -> None:
    """Only a finite number that is at most so old is known."""
    assert Reading(value, at).known(10.0, stale_after=5.0) == known


def test_a_scripted_signal_says_what_it_was_told() -> None:
    """At first nothing; then the last word, with its time and source."""
    signal = ScriptedSignal("kv")
    assert isinstance(signal, Signal)
    assert signal.read().known(0.0, 5.0) is None
    signal.say(0.25, at=3.0)
    assert signal.read() == Reading(0.25, 3.0, "kv")
    assert repr(signal) == "<ScriptedSignal 'kv': 0.25 at 3>"
