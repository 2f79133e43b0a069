"""For tests of your own: virtual time, a clock moved by hand, a scripted backend, a recorder, the laws of a gate."""

from __future__ import annotations

from andante.testing.backend import ScriptedBackend, any_window_count
from andante.testing.clock import ManualClock
from andante.testing.conservation import balanced, check_conservation
from andante.testing.contract import gate_contract
from andante.testing.recorder import Recorder
from andante.testing.script import Answer, Fail, Stall, Stream
from andante.testing.signal import ScriptedSignal
from andante.testing.stream import ScriptedStream, ServedCall
from andante.testing.virtual_time import DeadlockError, VirtualTimeLoop, run, virtual_backend, virtual_backends
from andante.testing.visitor import Visitor

__all__ = [
    "Answer",
    "DeadlockError",
    "Fail",
    "ManualClock",
    "Recorder",
    "ScriptedBackend",
    "ScriptedSignal",
    "ScriptedStream",
    "ServedCall",
    "Stall",
    "Stream",
    "VirtualTimeLoop",
    "Visitor",
    "any_window_count",
    "balanced",
    "check_conservation",
    "gate_contract",
    "run",
    "virtual_backend",
    "virtual_backends",
]
