"""Shapes of load over time: steady, bursty, on and off, ramp, steps, drift; and workloads drawn from them."""

from __future__ import annotations

import random
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from math import cos, inf, isfinite, pi
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.traces import Arrival, Trace
from andante.simulate.workload import Request
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from andante.simulate.mixes import Mix


def _always(_: float) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How the load moves. `draw` makes a workload of it.

    Attributes:
        name: what reports call it.
        rate: `f(t)`: the rate at `t` seconds as a multiple of the load, from 0 to `most`.
        most: the largest that `rate` can be.
        longer: `f(t)`: a factor on the lengths of answers (default 1).
        gap_cv: the spread of the gaps between arrivals, standard deviation / mean, where the rate is steady: 1 is
            Poisson (the default), above it arrivals come in clumps (gamma-distributed gaps), below it evenly.

    Raises ConfigurationError when `most` or `gap_cv` is not a finite number above 0.
    """

    name: str
    rate: Callable[[float], float] = _always
    most: float = 1.0
    longer: Callable[[float], float] = _always
    gap_cv: float = 1.0

    def __post_init__(self) -> None:
        _positive(self.most, "most")
        _positive(self.gap_cv, "gap_cv")


def steady() -> Shape:
    """Poisson arrivals at a constant rate."""
    return Shape("steady")


def clumps(cv: float = 3.0) -> Shape:
    """A constant rate, gamma-distributed gaps with this spread (standard deviation / mean)."""
    return Shape(f"clumps of {cv:g}", gap_cv=cv)


def bursty(
    seconds: float, *, seed: int = 0, high: float = 2.5, low: float = 0.5, high_for: float = 10.0, low_for: float = 30.0
) -> Shape:
    """Two states that last exponentially long (a Markov-modulated Poisson process), up to `seconds`.

    The defaults are those of the policy study: 2.5 for about 10 s, 0.5 for about 30 s, which is 1 on average.

    Args:
        seconds: how long the workload is; afterwards the last state stays.
        seed: of the changes.
        high: the rate in the one state, as a multiple of the load.
        low: the rate in the other.
        high_for: mean seconds of the one.
        low_for: mean seconds of the other.
    """
    _positive(seconds, "seconds")
    _positive(high_for, "high_for")
    _positive(low_for, "low_for")
    _multiples(high=high, low=low)
    draw = random.Random(seed)
    changes: list[tuple[float, float]] = []
    at, up = 0.0, draw.random() < high_for / (high_for + low_for)
    while at < seconds:
        changes.append((at, high if up else low))
        at += draw.expovariate(1 / (high_for if up else low_for))
        up = not up
    return steps(changes, name="bursty")


def on_off(on: float = 10.0, off: float = 10.0, *, high: float = 2.0, low: float = 0.0) -> Shape:
    """`high` for `on` seconds, then `low` for `off` seconds, and again (defaults: twice the load half of the time)."""
    _positive(on, "on")
    _positive(off, "off")
    _multiples(high=high, low=low)
    return Shape("on-off", lambda t: high if t % (on + off) < on else low, max(high, low))


def ramp(seconds: float, *, low: float = 0.2, high: float = 1.8) -> Shape:
    """From `low` up to `high` in the middle of `seconds` and down again, along a cosine."""
    _positive(seconds, "seconds")
    _multiples(high=high, low=low)
    middle, half = (high + low) / 2, (high - low) / 2
    return Shape("ramp", lambda t: middle - half * cos(2 * pi * t / seconds), max(high, low))


def steps(changes: Sequence[tuple[float, float]], *, name: str = "steps") -> Shape:
    """The rate changes at once: pairs of when (seconds, ascending from 0) and to which multiple of the load."""
    times = [at for at, _ in changes]
    multiples = [multiple for _, multiple in changes]
    for at, multiple in changes:
        _multiples(multiple=multiple)
        if not is_number(at) or not isfinite(at):
            raise ConfigurationError(f"a step's time must be finite seconds, not {at!r}", path="changes")
    if not times or times[0] != 0 or times != sorted(times):
        raise ConfigurationError(f"steps must ascend from 0 s, not {times}", path="changes")
    return Shape(name, lambda t: multiples[bisect(times, t) - 1], max(multiples))


def step(seconds: float, *, low: float = 0.7, high: float = 2.0) -> Shape:
    """The policy study's step: the middle third of `seconds` at `high`, the rest at `low`."""
    _positive(seconds, "seconds")
    return steps([(0.0, low), (seconds / 3, high), (2 * seconds / 3, low)], name="step")


def drift(seconds: float, *, factor: float = 2.0) -> Shape:
    """A constant rate, but in the middle third of `seconds` answers are `factor` times as long."""
    _positive(seconds, "seconds")
    _positive(factor, "factor")
    return Shape("drift", longer=lambda t: factor if seconds / 3 <= t < 2 * seconds / 3 else 1.0)


def draw(shape: Shape, mix: Mix, rate: float, seconds: float, *, seed: int = 0) -> list[Request]:
    """Calls of `mix` that arrive in this shape, ascending in time. The same arguments give the same calls.

    Candidates come at the shape's peak rate and are kept with the probability rate(t) / most (thinning: Lewis and
    Shedler, 1979), which is exact for Poisson arrivals; for other gaps the mean rate is exact, and thinning draws their
    spread towards 1.

    Args:
        shape: how the load moves.
        mix: classes, each with its lengths (`MIXES`).
        rate: calls per second at the multiple 1.
        seconds: how long.
        seed: of the draw.
    """
    _positive(rate, "rate")
    _positive(seconds, "seconds")
    source = random.Random(seed)
    bounds = list(accumulate(client.share for client, _ in mix))
    if not bounds:
        raise ConfigurationError("a workload needs at least one class", path="mix")
    peak = rate * shape.most
    order = 1 / shape.gap_cv**2  # of the gamma distribution: its cv is 1 / sqrt(order)
    requests: list[Request] = []
    at = 0.0
    while True:
        at += source.expovariate(peak) if shape.gap_cv == 1 else source.gammavariate(order, 1 / (order * peak))
        if at >= seconds:
            return requests
        if source.random() * shape.most >= shape.rate(at):
            continue
        client, lengths = mix[bisect(bounds, source.random() * bounds[-1])]
        prompt, output = lengths.draw(source, shape.longer(at))
        requests.append(Request(at, prompt, output, client))


def at_load(trace: Trace, multiple: float, capacity: float) -> Trace:
    """`trace` as much faster or slower as makes its mean rate `multiple` times `capacity` (calls per second)."""
    _positive(multiple, "multiple")
    _positive(capacity, "capacity")
    if trace.rate == 0:
        raise ConfigurationError(f"{trace!r} has no rate", path="trace")
    return trace.faster(multiple * capacity / trace.rate)


def trace_of(requests: Sequence[Request], *, name: str = "drawn", seconds: float | None = None) -> Trace:
    """The arrivals and lengths of `requests`, such as `capacity` takes to measure what load 1 is."""
    return Trace(
        [Arrival(request.at, request.prompt_tokens, request.output_tokens) for request in requests],
        name=name,
        seconds=seconds,
    )


def _positive(value: float, name: str) -> None:
    if not is_number(value) or not 0 < value < inf:
        raise ConfigurationError(f"{name} must be a finite number above 0, not {value!r}", path=name)


def _multiples(**values: float) -> None:
    for name, value in values.items():
        if not is_number(value) or not 0 <= value < inf:
            raise ConfigurationError(
                f"{name} must be a finite multiple of the load, 0 or more, not {value!r}", path=name
            )
