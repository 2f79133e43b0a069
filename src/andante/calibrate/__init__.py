"""Measure what a backend can sustain: throughput, first results and gaps against calls in flight, up to the knee.

`andante calibrate` is this from the command line.
"""

from __future__ import annotations

from andante.calibrate.climb import Bounds, Stop, Visit, knee, plan
from andante.calibrate.drive import Calibration, calibrate, first_call
from andante.calibrate.estimate import Estimate, estimate
from andante.calibrate.level import Level, Spread, measure, pooled
from andante.calibrate.sample import CallFailed, Effect, Report, Sample, Trouble
from andante.calibrate.target import FunctionTarget, Target, function_target

__all__ = [
    "Bounds",
    "Calibration",
    "CallFailed",
    "Effect",
    "Estimate",
    "FunctionTarget",
    "Level",
    "Report",
    "Sample",
    "Spread",
    "Stop",
    "Target",
    "Trouble",
    "Visit",
    "calibrate",
    "estimate",
    "first_call",
    "function_target",
    "knee",
    "measure",
    "plan",
    "pooled",
]
