"""What was measured with so many calls in flight: rates in slices of time, first results, gaps, troubles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

from andante.calibrate.sample import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from andante.calibrate.sample import Sample, Trouble

SLICES = 4
"""Into how many equal parts the time of one visit is cut: their rates have a spread."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The quartiles of some values."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """The quartiles of `values`, None of none."""
        ordered = sorted(values)
        return Spread(*(quantile(ordered, share) for share in (0.25, 0.5, 0.75))) if ordered else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the ascending values lie, interpolated between neighbours (Hyndman and Fan's
    type 7). At least one value."""
    place = share * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    return low if low == high else low + (place - below) * (high - low)


@dataclass(frozen=True, slots=True)
class Level:
    """What one visit, or several, measured with `n` calls in flight. Times in seconds.

    Attributes:
        n: calls in flight.
        calls: calls a second, one value for each slice of time; empty where none ended.
        tokens: output tokens a second, likewise; empty where the backend tells of none.
        ttft: times to the first output; empty for whole calls.
        itl: mean gaps between tokens, one for each call that had two.
        seconds: durations of the calls that ended well.
        ended: how many calls ended, well or not.
        troubles: those that did not, counted.
        visits: how many visits are in here.
        whole: False: every visit was cut short.
    """

    n: int
    calls: tuple[float, ...] = ()
    tokens: tuple[float, ...] = ()
    ttft: tuple[float, ...] = ()
    itl: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    ended: int = 0
    troubles: tuple[tuple[Trouble, int], ...] = ()
    visits: int = 1
    whole: bool = True

    @property
    def rate(self) -> Spread:
        """What the climb goes by: tokens a second where they are seen, else calls a second."""
        return Spread.of(self.tokens or self.calls) or Spread(0.0, 0.0, 0.0)

    @property
    def failed(self) -> int:
        """How many calls failed."""
        return sum(count for _, count in self.troubles)

    @property
    def pushback(self) -> Trouble | None:
        """The backend's own no, if it said one."""
        return self._first(Effect.PUSHBACK)

    @property
    def fatal(self) -> Trouble | None:
        """A trouble that no further call would be spared, if there was one."""
        return self._first(Effect.FATAL)

    def _first(self, effect: Effect) -> Trouble | None:
        return next((trouble for trouble, _ in self.troubles if trouble.effect is effect), None)

    def share(self, values: tuple[float, ...], share: float) -> float | None:
        """The quantile `share` of `values` (one of the tuples of this level), None of none."""
        return quantile(sorted(values), share) if values else None


def measure(samples: Iterable[Sample], n: int, begin: float, end: float, *, whole: bool = True) -> Level:
    """What the calls of a run show of the time from `begin` to `end`, while `n` were in flight.

    A call that is only partly inside counts for the share of its time that is inside; one that is not over yet is
    taken to last as long as the median, or as it has lasted already. Tokens are those of the calls that ended, evenly
    over their time; where none has ended yet, those that came. A call that has waited longer for its first
    output than all others did is evidence too, and stands among the times to first output with what it waited.
    """
    inside = [s for s in samples if s.started < end and (s.ended is None or s.ended > begin)]
    over = [s for s in inside if s.ended is not None and s.ended <= end]
    lasted = [s.ended - s.started for s in over if s.ended is not None and s.done]
    width = (end - begin) / SLICES
    calls = _calls(inside, begin, end, quantile(sorted(lasted), 0.5) if lasted else 0.0)
    known = [count for s in over if s.done and (count := s.output) is not None]
    if known:  # steadier than to count them as they come: callers that began together prefill together
        tokens = [rate * sum(known) / len(known) for rate in calls]
    else:
        tokens = _tokens(inside, begin, end)
    firsts = [s.first - s.started for s in inside if s.first is not None and begin < s.first <= end]
    longest = max(firsts, default=0.0)
    streams = any(s.first is not None for s in inside)
    firsts += [
        end - s.started for s in inside if streams and s.ended is None and s.first is None and end - s.started > longest
    ]
    troubles = Counter(s.trouble for s in over if s.trouble is not None)
    return Level(
        n=n,
        calls=tuple(value / width for value in calls) if lasted and width > 0 else (),
        tokens=tuple(value / width for value in tokens) if any(tokens) and width > 0 else (),
        ttft=tuple(firsts),
        itl=tuple(gap for s in inside if (gap := _gap(s, begin, end)) is not None),
        seconds=tuple(lasted),
        ended=len(over),
        troubles=tuple(troubles.items()),
        whole=whole,
    )


def pooled(visits: Sequence[Level]) -> list[Level]:
    """The visits of each number together, ascending in n."""
    levels: dict[int, Level] = {}
    for visit in visits:
        known = levels.get(visit.n)
        levels[visit.n] = visit if known is None else _together(known, visit)
    return [levels[n] for n in sorted(levels)]


def drift(visits: Sequence[Level]) -> tuple[int, float] | None:
    """The number whose visits differ most in their median rate, and the largest over the smallest of these; None where
    nothing was visited twice. No climb can tell what is smaller than this from a backend that changes meanwhile."""
    seen: dict[int, list[float]] = {}
    for visit in visits:
        if visit.whole and visit.rate.median > 0:
            seen.setdefault(visit.n, []).append(visit.rate.median)
    ratios = [(max(rates) / min(rates), n) for n, rates in seen.items() if len(rates) > 1]
    if not ratios:
        return None
    ratio, n = max(ratios)
    return n, ratio


def _together(one: Level, other: Level) -> Level:
    troubles = Counter(dict(one.troubles)) + Counter(dict(other.troubles))
    rated = [level for level in (one, other) if level.whole] or [one, other]  # a visit cut short has poor rates
    return Level(
        n=one.n,
        calls=tuple(rate for level in rated for rate in level.calls),
        tokens=tuple(rate for level in rated for rate in level.tokens),
        ttft=one.ttft + other.ttft,
        itl=one.itl + other.itl,
        seconds=one.seconds + other.seconds,
        ended=one.ended + other.ended,
        troubles=tuple(troubles.items()),
        visits=one.visits + other.visits,
        whole=one.whole or other.whole,
    )


def _calls(samples: list[Sample], begin: float, end: float, usual: float) -> list[float]:
    """Calls in each slice; a call counts in each for the share of its time that is in there."""
    counts = [0.0] * SLICES
    width = (end - begin) / SLICES
    for sample in samples:
        if sample.trouble is not None:
            continue
        until = end if sample.ended is None else sample.ended
        length = max(until - sample.started, usual if sample.ended is None else 0.0)
        for k in range(SLICES):
            left, right = begin + k * width, begin + (k + 1) * width
            if length > 0:
                counts[k] += max(0.0, min(right, until) - max(left, sample.started)) / length
            elif left < until <= right:
                counts[k] += 1
    return counts


def _tokens(samples: list[Sample], begin: float, end: float) -> list[float]:
    """The tokens that came in each slice."""
    counts = [0.0] * SLICES
    for at, count in (item for sample in samples for item in sample.items):
        if begin < at <= end:
            counts[min(SLICES - 1, int(SLICES * (at - begin) / (end - begin)))] += count
    return counts


def _gap(sample: Sample, begin: float, end: float) -> float | None:
    """The mean gap between the tokens of a stream that came from `begin` to `end`."""
    scale = sample.scale
    came = [(at, count * scale) for at, count in sample.items if begin < at <= end]
    if sample.first is None or len(came) < 2:
        return None
    later = sum(count for _, count in came[1:])
    return (came[-1][0] - came[0][0]) / later if later > 0 else None
