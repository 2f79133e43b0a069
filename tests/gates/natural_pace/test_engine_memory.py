"""The backend's own word on its memory: an extra ceiling that is out of the way when it says nothing."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from andante import Call, ConfigurationError, Cost
from andante.gates.natural_pace.engine_memory import EngineMemory
from andante.gates.natural_pace.memory import Ceiling
from andante.gates.natural_pace.part import PartsGate
from andante.testing import ScriptedSignal, Visitor


def gate(signal: ScriptedSignal) -> tuple[PartsGate, Ceiling]:
    """A gate with one call inside."""
    ceiling = Ceiling()
    it = PartsGate(ceiling, EngineMemory(signal, ceiling))
    it.enter(Visitor(Call(Cost(input_tokens=1000)), 0.0), 0.0)
    return it, ceiling


@pytest.mark.parametrize(
    ("used", "at", "open_"),
    [(0.5, 10, True), (0.92, 10, True), (0.93, 10, False), (None, 10, True), (nan, 10, True), (1.0, 4.9, True)],
)
def test_no_start_above_the_mark(used: float | None, at: float, open_: bool) -> None:
    """Above 0.92 nobody starts; a missing or stale reading is neither idle nor full: the other parts decide."""
    signal = ScriptedSignal()
    it, _ = gate(signal)
    signal.say(used, at)
    assert it.delay(Visitor(Call(), 10.0), 10.0) == (0 if open_ else inf)


def test_nearly_full_counts_as_a_stall() -> None:
    """Above 0.97 the ceiling is cut to nine tenths of what is inside, at most each 5 s."""
    signal = ScriptedSignal()
    it, ceiling = gate(signal)
    signal.say(0.98, 10.0)
    for now in (10.0, 10.1, 12.0):
        visitor = Visitor(Call(), now)
        it.enter(visitor, now)
        it.undo(visitor, now)
    assert ceiling.stalls == 1
    assert ceiling.ceiling == pytest.approx(0.9 * it.flow.size, rel=0.1)


def test_blind_is_said() -> None:
    """The snapshot says that nothing is known."""
    it, _ = gate(ScriptedSignal())
    assert it.snapshot(1.0)["engine_memory"] == {"used": None, "blind": True}


@pytest.mark.parametrize(
    ("signal", "more"),
    [(object(), {}), (0.5, {}), (ScriptedSignal(), {"close_at": 0}), (ScriptedSignal(), {"close_at": nan}),
     (ScriptedSignal(), {"close_at": 1.1}), (ScriptedSignal(), {"stale_after": -1}),
     (ScriptedSignal(), {"stale_after": inf})],
)  # fmt: skip
def test_nonsense_is_refused(signal: Any, more: dict[str, Any]) -> None:
    """A signal must have read(), a share must be a share, a time a time."""
    with pytest.raises(ConfigurationError, match="memory"):
        EngineMemory(signal, Ceiling(), **more)
