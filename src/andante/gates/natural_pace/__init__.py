"""The pace that one backend can sustain, found from the streams themselves. Each part is a gate of its own too."""

from andante.gates.natural_pace.intertoken import IntertokenGate
from andante.gates.natural_pace.knee import Knee
from andante.gates.natural_pace.memory import MemoryCeiling
from andante.gates.natural_pace.pace import NaturalPace
from andante.gates.natural_pace.prefill import PrefillWindow

__all__ = ["IntertokenGate", "Knee", "MemoryCeiling", "NaturalPace", "PrefillWindow"]
