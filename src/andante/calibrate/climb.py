"""Which number of calls in flight to try next, and where the knee is. Pure: from what was measured, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, sqrt
from typing import TYPE_CHECKING

from andante.calibrate.level import Level, pooled
from andante.errors import ConfigurationError
from andante.values import is_number, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

GAIN = 0.15
"""Twice as many calls that bring less than 2**GAIN - 1 (11 %) more are past the knee; other steps in proportion."""
NEAR = 0.95
"""The knee is the smallest number that reaches this share of the best rate."""
MOST = 25
"""No climb has more visits than this: a visit takes at least this part of the time."""
FAULTS = 0.1
"""A larger share of failed calls ends the climb."""
CLOSE = 1.3
"""A step between two numbers is not halved any more when it is smaller than this."""
SMALL = 4
"""Up to here no gain is not believed before twice the number was tried: engines change their way of computing between
one call, a few and many, and two together may do no better than one where four do."""
LESS = 0.97
"""A number whose rate is below this share of the one before it brought less, not just no more."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a calibration may go.

    Args:
        at_most: calls in flight, 1 to 10,000. Default 64.
        seconds: how long the whole of it may take. Default 60. What is in flight then is ended.
        ttft: goal for the time to the first output, in seconds; more than one call in ten beyond it is too much.
        itl: goal for the mean gap between tokens of a call, likewise.
        rounds: how often the knee is measured, 1 to 20. Default 3.
        timeout: seconds a call may take to its first output (a whole call: to its end), and without output after that,
            before it is taken for overload. Default 60.

    Raises:
        ConfigurationError: a value that makes no sense.
    """

    at_most: int = 64
    seconds: float = 60.0
    ttft: float | None = None
    itl: float | None = None
    rounds: int = 3
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, most in (("at_most", 10_000), ("rounds", 20)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ConfigurationError(f"{name} must be an integer from 1 to {most:,}, not {value!r}", path=name)
        for name in ("seconds", "timeout", "ttft", "itl"):
            value = getattr(self, name)
            if value is None and name in {"ttft", "itl"}:
                continue
            if not is_number(value) or isnan(value) or seconds(value, name, positive=True) == inf:
                raise ConfigurationError(f"{name} must be a finite number of seconds, not {value!r}", path=name)


@dataclass(frozen=True, slots=True)
class Visit:
    """Try `n` calls in flight: let them settle for `settle` seconds, then measure for `window` seconds."""

    n: int
    settle: float
    window: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the climb: `reason` is one word (`knee`, `at_most`, `seconds`, `ttft`, `itl`, `pushback`, `faults`,
    `fatal`, `nothing`), `said` a sentence."""

    reason: str
    said: str


def plan(visits: Sequence[Level], bounds: Bounds, left: float, call: float = 0.0) -> Visit | Stop:
    """What to do after `visits`, with `left` seconds to go; `call`: how many seconds a call takes that is alone, where
    that is known.

    The numbers double while twice as many bring a gain and every objective is kept. Then steps are halved (on the
    logarithm) until they are small: the one to the first number that was too many, where it missed an objective,
    brought less, or may hide a top; and the one that leads to the knee. Then the knee is measured until it has been
    visited `rounds` times. A small number that brought too little is believed when twice as many bring no more. It is
    visited twice: at once, where its quartiles leave it open, else at the end, when the knee has been measured anew;
    should it bring a gain then, the climb goes on.
    """
    if not visits:
        return _visit(1, visits, bounds, left, call)
    trouble = _trouble(visits[-1], bounds)
    if trouble is not None:
        return trouble
    levels = pooled(visits)
    good, bad, why = _edge(levels, bounds)
    if bad is None:
        if levels[-1].n < bounds.at_most:
            return _visit(min(2 * levels[-1].n, bounds.at_most), visits, bounds, left)
        why = Stop("at_most", f"{bounds.at_most} in flight are as many as may be")
    elif why.reason == "knee" and bad.n <= SMALL and levels[-1].n < min(2 * bad.n, bounds.at_most):
        return _visit(min(2 * bad.n, bounds.at_most), visits, bounds, left)
    elif bad.visits < min(2, bounds.rounds) and good is not None and why.reason == "knee" and _doubtful(good, bad):
        return _visit(bad.n, visits, bounds, left)
    elif good is not None and (why.reason != "knee" or _may_hide_a_top(levels, good, bad)):
        between = _between(good.n, bad.n)
        if between is not None:
            return _visit(between, visits, bounds, left)
    pace = knee(levels, bounds)
    if pace is not None:
        if pace.visits < min(2, bounds.rounds):  # no step is halved on the word of a single visit
            return _visit(pace.n, visits, bounds, left)
        below = max((level.n for level in levels if level.n < pace.n), default=pace.n)
        between = _between(below, pace.n)
        if between is not None:
            return _visit(between, visits, bounds, left)
        if pace.visits < bounds.rounds:
            return _visit(pace.n, visits, bounds, left)
    if bad is not None and why.reason == "knee" and bad.visits < min(2, bounds.rounds):
        return _visit(bad.n, visits, bounds, left)
    return why if pace is None or why.reason != "knee" else _above(levels, pace, bounds)


def _above(levels: Sequence[Level], pace: Level, bounds: Bounds) -> Stop:
    """Why the pace is not higher: what the next number that was tried showed."""
    higher = next((level for level in levels if level.n > pace.n), None)
    if higher is None:
        return Stop("at_most", f"{pace.n} in flight are as many as were tried")
    change = higher.rate.median / pace.rate.median - 1
    said = f"{higher.n} in flight brought {100 * change:+.0f} % over {pace.n}: past the knee"
    return _misses(higher, bounds) or Stop("knee", said)


def knee(levels: Sequence[Level], bounds: Bounds) -> Level | None:
    """The natural pace: of the numbers that were measured to the end, keep the objectives and met no pushback, the
    smallest whose rate reaches NEAR of the best median, or might in the light of its spread (half the distance of its
    quartiles, less the more often it was visited). None where there is none.

    `levels` ascend in n, one for each. Smaller numbers keep the objectives too, or nothing above them counts.
    """
    kept: list[Level] = []
    for level in levels:
        poor = not level.whole or level.pushback is not None or not level.rate.median > 0
        if poor or _misses(level, bounds) is not None:
            break
        kept.append(level)
    best = max((level.rate.median for level in kept), default=0.0)
    return next((level for level in kept if level.rate.median + _margin(level) >= NEAR * best), None)


def _margin(level: Level) -> float:
    return (level.rate.high - level.rate.low) / 2 / sqrt(level.visits)


def _may_hide_a_top(levels: Sequence[Level], good: Level, bad: Level) -> bool:
    """Whether some number from `good` to `bad` may do better than both: beyond it the rate fell; or the rate was still
    rising at `good` (more than the root of the step) and the step to `bad` was wide."""
    if bad.rate.median < LESS * good.rate.median:
        return True
    before = max((level for level in levels if level.n < good.n), key=lambda level: level.n, default=None)
    rising = before is None or good.rate.median >= before.rate.median * sqrt(good.n / before.n)
    return rising and bad.n > sqrt(2) * good.n


def _between(low: int, high: int) -> int | None:
    """The geometric middle, or None where the step is small enough."""
    if high - low <= 1 or high / low <= CLOSE:
        return None
    return max(low + 1, min(high - 1, round(sqrt(low * high))))


def _edge(levels: Sequence[Level], bounds: Bounds) -> tuple[Level | None, Level | None, Stop]:
    """The last number up to which everything is well, the first that is too many, and why.

    A number without a gain is well after all where a larger one brought it, as long as every objective was kept."""
    good: Level | None = None
    flat: tuple[Level | None, Level, Stop] | None = None
    for level in levels:
        missed = _misses(level, bounds)
        if missed is not None:
            return flat or (good, level, missed)
        if good is None or level.rate.median >= good.rate.median * (level.n / good.n) ** GAIN:
            good, flat = level, None
        elif flat is None:
            flat = good, level, Stop("knee", f"{level.n} in flight brought no gain over {good.n}: past the knee")
    return flat or (good, None, Stop("at_most", ""))


def _misses(level: Level, bounds: Bounds) -> Stop | None:
    for name, values, goal, what in (
        ("ttft", level.ttft, bounds.ttft, "first output"),
        ("itl", level.itl, bounds.itl, "gap between tokens"),
    ):
        tail = level.share(values, 0.9)
        if goal is not None and tail is not None and tail > goal:
            said = f"with {level.n} in flight one call in ten missed its {what} of {goal:g} s ({tail:.3g} s)"
            return Stop(name, said)
    return None


def _doubtful(good: Level, bad: Level) -> bool:
    """Whether the quartiles leave it open that `bad` brought a gain."""
    return bad.rate.high >= good.rate.low * float((bad.n / good.n) ** GAIN)


def _trouble(level: Level, bounds: Bounds) -> Stop | None:
    if level.fatal is not None:
        return Stop("fatal", f"no call can succeed here: {level.fatal}")
    if level.pushback is not None:
        return Stop("pushback", f"with {level.n} in flight the backend said that it cannot: {level.pushback}")
    if level.failed > FAULTS * level.ended:
        most = max(level.troubles, key=lambda pair: pair[1])[0]
        return Stop("faults", f"with {level.n} in flight {level.failed} of {level.ended} calls failed: {most}")
    if not level.whole:
        return Stop("seconds", f"the {bounds.seconds:g} s were over")
    if not level.rate.median > 0:
        return Stop("nothing", f"with {level.n} in flight nothing came back in the time of a visit")
    return None


def _visit(n: int, visits: Sequence[Level], bounds: Bounds, left: float, call: float = 0.0) -> Visit | Stop:
    """A visit to `n`, if there is time for it. Calls settle for as long as one lasts, at worst stretched by `n`."""
    window = max(bounds.seconds / MOST, 1.5 * call)
    settle = 0.0
    if visits:
        last = visits[-1]
        call = last.share(last.seconds, 0.5) or window
        settle = call * max(1.0, min(2.0, n / last.n))
        window = max(window, 1.5 * call)
    if settle + window > left:
        known = "" if visits else " for a single visit"
        said = f"{left:.1f} of {bounds.seconds:g} s were left, and {n} in flight need {settle + window:.1f} s{known}"
        return Stop("seconds", said)
    return Visit(n, settle, window)
