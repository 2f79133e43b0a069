"""What a climb may cost, before it is made: the plan, played against a backend that answers all calls equally fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from andante.calibrate.climb import Bounds, Stop, plan
from andante.calibrate.level import SLICES, Level

if TYPE_CHECKING:
    from andante.calibrate.sample import Sample


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most that a climb is expected to send: `calls` in `seconds`, up to `n` in flight, with `tokens`
    of output in all (None where a call tells of none)."""

    calls: int
    seconds: float
    n: int
    tokens: int | None


def estimate(probe: Sample, bounds: Bounds) -> Estimate:
    """What the climb costs if every call takes as long as `probe`, however many are in flight: no backend does more
    work than that."""
    assert probe.ended is not None
    took = max(probe.ended - probe.started, 1e-3)
    visits: list[Level] = []
    sent, spent, most = 0.0, 0.0, 1
    while not isinstance(step := plan(visits, bounds, bounds.seconds - spent, took), Stop):
        spent += step.settle + step.window
        sent += (step.settle + step.window) * step.n / took
        most = max(most, step.n)
        visits.append(Level(step.n, calls=(step.n / took,) * SLICES, seconds=(took,), ended=1))
    seen = probe.output
    return Estimate(round(sent), spent, most, round(sent * seen) if seen else None)
