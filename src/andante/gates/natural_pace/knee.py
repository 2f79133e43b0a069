"""The knee: the number inside at which one more buys no throughput. For backends whose classes have no objectives."""

from __future__ import annotations

from math import exp, hypot, inf, isfinite, log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from andante.gates.natural_pace.flow import told_tokens
from andante.gates.natural_pace.goals import GAPS, by_rank
from andante.gates.natural_pace.memory import turned_away
from andante.gates.natural_pace.nnls import nonnegative
from andante.gates.natural_pace.part import Part, PartsGate
from andante.values import Ending, is_number

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.values import Outcome

_GAIN = 0.05  # percent of throughput that a percent more calls must buy
_SURE = 1.5  # standard errors that make a difference one
_FAR = 0.1  # of throughput: who is so far beyond the knee goes back by halves
_TIE = 0.003  # two throughputs that differ by less are the same: the smaller number inside has it
_ENOUGH = 16.0  # calls that ended, before a decision, and at a level before its throughput is believed
_LEVEL = log(1.12)  # levels of the number inside are 12 % apart
_MEMORY, _LIVES = 600.0, 300.0  # seconds, and mean lives of calls: of the throughput of a level, the shorter
_EVERY = 8  # calls between two solutions of the law
_KEPT = 0.995  # forgetting of the law, per call that ended
_TRUST = 1e-3  # calls that the first guess counts for
_DIP = 0.85  # of the limit, in every `rest`-th phase: what fewer would do
_RARELY = 16  # phases between two dips, once they only confirm
_CUT = 0.9  # of what is inside, when the backend turns a call away: at most once in a mean life
_START, _LEAST, _MOST = 16.0, 1.0, 1e6


class Level(NamedTuple):
    """A number inside, the throughput measured there, and the standard error of its logarithm."""

    n: float
    throughput: float
    error: float


class Levels:
    """Throughput at each number inside, as it was measured.

    By Little's law a call that took T seconds in the company of n (its own included) had T / n seconds of the backend
    to itself. The throughput of a level is the work of the calls there over these seconds, its error that of a ratio of
    sums (Cochran 1977, section 6.3). All fade over ten minutes, or 300 lives of calls if that is shorter.
    """

    def __init__(self) -> None:
        self.memory = _MEMORY
        self._sums: dict[int, list[float]] = {}  # level -> calls, n, work w, seconds s, w w, w s, s s, and when

    def add(self, n: float, work: float, took: float, now: float) -> None:
        """A call has ended that had `n` inside on average."""
        sums = self._sums.setdefault(round(log(n) / _LEVEL), [0.0] * 7 + [now])
        kept = exp(-max(0.0, now - sums[7]) / self.memory)
        own = took / n
        for i, value in enumerate((1.0, n, work, own, work * work, work * own, own * own)):
            sums[i] = sums[i] * kept + value
        sums[7] = max(now, sums[7])

    def measured(self, now: float) -> list[Level]:
        """The levels that are known, ascending."""
        known = []
        for calls, n, w, s, ww, ws, ss, at in (self._sums[level] for level in sorted(self._sums)):
            if calls * exp(-max(0.0, now - at) / self.memory) >= _ENOUGH and s > 0 and w > 0:
                ratio = s / w
                scatter = max(0.0, ss - 2 * ratio * ws + ratio * ratio * ww)
                known.append(Level(n / calls, w / s, sqrt(scatter) / s))
        return known


def as_good(fewer: Level, more: Level) -> bool:
    """Whether `fewer` inside surely bring what `more` do, less what `_GAIN` makes of the way between them."""
    tie = max(_TIE, _GAIN * log(more.n / fewer.n))
    return log(fewer.throughput / more.throughput) > -tie + _SURE * hypot(fewer.error, more.error)


class Bend(Part):
    """Finds the knee from starts, ends and what the calls brought.

    *The law*: T = O (t0 + t1 n) + t2 prompt, least squares over the calls that ended (O: output tokens, 1 where none
    are told; n: the mean number inside over the call's life). From it follows how much throughput a percent more calls
    would buy, and how far there is to go. *The levels*: the throughput that was in fact measured at each number inside
    overrules it: where fewer surely did as much, fewer it is, and nobody goes where more surely did not help.

    The limit moves once 16 calls have ended and a mean life has passed: up only if it was reached and the law promises
    a gain (by a tenth; doubled where the knee is far), down by a tenth at a time. Now and then one phase runs at 0.85
    of it, so that there is something to compare; more rarely, the longer that only confirms.

    Attributes:
        limit: calls inside, of the most urgent class.
    """

    name = "knee"

    def __init__(self) -> None:
        super().__init__()
        self.limit = _START
        self.levels = Levels()
        self.t = (0.0, 0.0, 0.0)
        self.ended = 0
        self._a = [[0.0] * 3 for _ in range(3)]
        self._b = [0.0] * 3
        self._scale = (1.0, 1.0, 1.0)
        self._mean = (1.0, 0.0, 0.0)  # of work, prompt, seconds
        self._told = False
        self._area, self._at = 0.0, -inf
        self._starts: dict[Entry, tuple[float, float]] = {}
        self._left: tuple[float, float] | None = None  # of the call that is gone, for `finish`
        self._before: tuple[float, float] | None = None  # the sums before that call, if nothing happened since
        self._latest: tuple[Entry, float, float] | None = None  # who started last, and the sums before that
        self._reached = False
        self._phase_began, self._phase_ends = -inf, 0
        self._phase, self._rest = 0, 4
        self._dipping = False
        self._cut = -inf
        self._settled = -inf  # calls that start before it tell of a crowd that has just come, not of a level

    # Deciding. ------------------------------------------------------------------------------------------------------

    @property
    def in_force(self) -> float:
        """The limit, less while it is compared."""
        return max(_LEAST, self.limit * _DIP) if self._dipping else self.limit

    def room(self, entry: Entry, now: float) -> bool:
        return self.flow.inside < max(_LEAST, self.in_force * by_rank(GAPS, entry.rank))

    def shut(self, now: float) -> None:
        self._reached = True
        if self._settled == -inf:  # the limit is reached for the first time: what came before was on the way
            self._settled = now

    def headroom(self, now: float) -> float:
        return 1 - self.flow.inside / self.in_force

    # Learning. ------------------------------------------------------------------------------------------------------

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        before = (entry, self._area, self._at)
        self._pass(now, self.flow.inside - 1)
        self._starts[entry] = (self._area, now)
        self._latest = before

    def gone(self, entry: Entry, stream: Stream, now: float) -> None:
        latest = self._latest
        self._pass(now, self.flow.inside + 1)
        self._left = self._starts.pop(entry, None)
        self._before = latest[1:] if latest is not None and latest[0] is entry else None

    def undone(self, stream: Stream, now: float) -> None:
        if self._before is not None:  # nothing has happened since it started: as if it had never come
            self._area, self._at = self._before

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        start, self._left = self._left, None
        if turned_away(outcome) and now - self._cut >= max(1.0, self._mean[2]):
            self.limit = max(_LEAST, _CUT * min(self.limit, self.flow.inside + 1.0))
            self._cut = now
        if start is None or outcome.ending is not Ending.DONE:
            return
        took = now - start[1]
        n = (self._area - start[0]) / took if took > 0 else 0.0
        tokens = told_tokens(entry, outcome) or outcome.items or 0.0
        self._told = self._told or tokens > 0
        if not (took > 0 and n >= 0.5 and isfinite(took)) or (self._told and not tokens):
            return
        work, prompt = (tokens, stream.prompt) if self._told else (1.0, 0.0)
        if start[1] < self._settled:
            return
        self._learn(work, max(1.0, n), prompt, took)
        self.levels.add(max(1.0, n), work, took, now)
        self._phase_ends += 1
        if self._phase_ends >= _ENOUGH and now - self._phase_began >= self._mean[2]:
            self._decide(now)

    def _learn(self, work: float, n: float, prompt: float, took: float) -> None:
        self.ended += 1
        keep = max(0.05, 1 / self.ended)
        self._mean = tuple(m + keep * (x - m) for m, x in zip(self._mean, (work, prompt, took), strict=True))  # type: ignore[assignment]
        if self.ended == 1:
            self._scale = (took / work / 2, took / work / n / 2, took / max(1.0, prompt) / 4)
        row = [x * s for x, s in zip((work, n * work, prompt), self._scale, strict=True)]
        expected = work * (self.t[0] + self.t[1] * n) + prompt * self.t[2] if self.t[0] + self.t[1] else took
        by = min(max(expected, took / 3), 3 * took)
        for i, x in enumerate(row):
            self._b[i] = self._b[i] * _KEPT + x * took / by / by
            self._a[i] = [old * _KEPT + x * y / by / by for old, y in zip(self._a[i], row, strict=True)]
        if self.ended % _EVERY == 0:
            ridge = [[value + _TRUST * (i == j) for j, value in enumerate(r)] for i, r in enumerate(self._a)]
            t0, t1, t2 = (
                s * x for s, x in zip(self._scale, nonnegative(ridge, [b + _TRUST for b in self._b]), strict=True)
            )
            if isfinite(t0 + t1 + t2):
                self.t = (t0, t1, t2)

    def _pass(self, now: float, inside: int) -> None:
        self._latest = None
        if now > self._at:
            if inside > 0 and self._at > -inf:
                self._area += (now - self._at) * inside
            self._at = now

    # Moving. --------------------------------------------------------------------------------------------------------

    def wanted(self) -> float:
        """Where the law puts the knee; inf where company costs nothing."""
        t0, t1, _ = self.t
        return t0 / t1 * (1 / _GAIN - 1) if t1 > 0 else inf

    def _decide(self, now: float) -> None:
        limit, reached, step = self.limit, self._reached, 0.9
        varied = self._varied()
        want = self.wanted() if varied else limit
        known = self.levels.measured(now)
        if known:
            top = max(known, key=lambda level: level.throughput)
            knee = next(level for level in known if level is top or as_good(level, top))
            if knee.n < 0.94 * limit and (knee is not top or self._more_did_no_better(known, knee)):
                step = 0.5 if self._far_better(knee, known) else 0.9
                want = max(knee.n, step * limit)
            elif want > limit and self._more_did_no_better(known, knee):
                want = max(limit, min(want, knee.n))
            elif self._fewer_did_less(known):
                want = max(want, 1.2 * limit)
        if want < limit:
            self.limit = max(_LEAST, want, step * limit)
        elif reached and want > limit:
            self.limit = min(_MOST, want, limit * (2.0 if want > 1.5 * limit else 1.1))
            if limit < 10:
                self.limit = max(self.limit, min(want, limit + 1))
        moved = abs(self.limit - limit) > 0.02 * limit
        if moved:
            self._settled = now + self._mean[2] / 2
        self._phase = 0 if moved else self._phase + 1
        self._rest = 2 if not varied else 4 if moved else self._rest
        self._dipping = reached and not moved and self._phase % self._rest == self._rest - 1
        if self._dipping:
            self._rest = min(_RARELY, 2 * self._rest)
            self._phase = 0
        self._reached, self._phase_ends, self._phase_began = False, 0, now
        self.levels.memory = min(_MEMORY, _LIVES * self._mean[2])

    def _varied(self) -> bool:
        """Whether the number inside has varied enough for a law."""
        a, by = self._a, self._scale[0] / self._scale[1]
        if a[0][0] <= 0:
            return False
        mean, squares = a[0][1] / a[0][0] * by, a[1][1] / a[0][0] * by * by
        return squares - mean * mean > 0.002 * squares

    def _far_better(self, knee: Level, known: list[Level]) -> bool:
        """Whether it was measured that the knee brings a tenth more than what is inside now."""
        here = known[-1] if known[-1].n > 1.06 * knee.n else knee
        return log(knee.throughput / here.throughput) - _SURE * hypot(knee.error, here.error) > _FAR

    def _more_did_no_better(self, known: list[Level], knee: Level) -> bool:
        """Whether it was measured that more inside than at the knee bring no more."""
        return any(as_good(knee, level) for level in known if level.n > 1.06 * knee.n)

    def _fewer_did_less(self, known: list[Level]) -> bool:
        """Whether it was measured that somewhat fewer than the limit bring clearly less: a quarter of a percent a
        percent."""
        here = [level for level in known if 0.93 * self.limit <= level.n <= 1.06 * self.limit]
        fewer = [level for level in known if 0.5 * self.limit <= level.n < 0.93 * self.limit]
        if not here or not fewer:
            return False
        one, other = here[-1], max(fewer, key=lambda level: level.throughput)
        gain = log(one.throughput / other.throughput) - _SURE * hypot(one.error, other.error)
        return gain > max(0.02, 0.25 * log(one.n / other.n))

    # People and restarts. -------------------------------------------------------------------------------------------

    def snapshot(self, now: float) -> dict[str, Any]:
        """`limit`, `in_force` (less while it is compared), `wanted` (by the law; None: no end in sight), `levels`
        ((n, throughput, error), ...), `ended`."""
        wanted = self.wanted()
        return {
            "limit": self.limit,
            "in_force": self.in_force,
            "wanted": None if wanted == inf else wanted,
            "levels": [tuple(level) for level in self.levels.measured(now)],
            "ended": self.ended,
        }

    def dump(self) -> dict[str, Any]:
        """The limit."""
        return {"limit": self.limit}

    def load(self, state: dict[str, Any], age: float) -> None:
        """Begin at the limit of before; half of it after more than ten minutes."""
        limit = state.get("limit")
        if is_number(limit) and _LEAST <= limit <= _MOST:
            self.limit = float(limit) if age <= _MEMORY else max(_LEAST, limit / 2)


class Knee(PartsGate):
    """Open while fewer calls are inside than the backend has any use for.

    Args:
        name: what metrics and errors call it. Default "knee".
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.bend = Bend()
        super().__init__(self.bend, name=name)
