"""The inter-token gate: would one more call still leave the streams fast enough, and does company still pay?"""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING, Any

from andante.gates.natural_pace.goals import GAPS, GapGoal, by_rank
from andante.gates.natural_pace.least_squares import Line
from andante.gates.natural_pace.part import Part, PartsGate
from andante.gates.natural_pace.share import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.service import ServiceClass
    from andante.values import Outcome

_MEMORY = 1.0  # seconds: the present gap
_LINE_MEMORY = 20.0  # seconds: how the gap goes with the number inside
_EVIDENCE = 50.0  # gaps before a slope is believed
_COMPANY = 0.9  # of the gap that may be company before one more buys nothing
_CLIP, _CLIP_LEAST = 4.0, 5e-3  # a gap counts at most so many times the mean; seconds it may always count
_DIP, _BETWEEN_DIPS = 0.5, 5.0  # seconds
_FEW, _BETWEEN_PROBES = 2, 2.0  # calls inside, seconds
_COLD = 4  # calls inside before any gap was seen, and half a call more for each that has ended


class Company(Part):
    """Gaps between output tokens, against the number inside.

    *With one more*: the gap of the last second, and how much one more adds to it (a line over the number inside,
    forgotten over 20 s; between nothing and its fair share), must stay under the goal. *Knee*: where nine tenths of the
    gap are company, one more buys no throughput; learned only from gaps while no prompt was on its way, since prompts
    lengthen gaps too. *Dip*: while the number inside never varies, a slope cannot be seen; then, at most each 5 s, one
    that ended gets no successor for half a second.
    """

    name = "intertoken"

    def __init__(self) -> None:
        super().__init__()
        self.share = Share(0.85, miss=0.03, step=0.02, most=0.88)
        self.late = Share(0.9, miss=0.03, step=0.02, most=1.0)
        self._goal = GapGoal(self.share, self.late)
        self._gaps = self._weight = self._company = 0.0
        self._pending = self._pending_gaps = 0.0
        self._n, self._free = 0, True  # the number inside, and whether no prompt was on its way, with those pending
        self._most = inf  # seconds that the gap of one item counts at most
        self._at = -inf
        self._line, self._pure = Line(), Line()
        self._hold = self._dipped = self._probed = -inf
        self._before = -inf  # the probe before the last
        self._ended = 0

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        self._goal.bind(classes)

    @property
    def goal(self) -> float:
        """Seconds between tokens that the most urgent class may cause; inf where no class has an itl objective."""
        return self._goal.seconds(self.flow)

    def gap(self, stream: Stream, gap: float, items: float, now: float) -> None:
        if now != self._at:  # all streams of one step come at once: they are added up, and taken in together
            self._take_in()
            self._fade(now)
        if not self._pending:
            self._n, self._free = len(self.flow.streams), self.flow.ahead <= 0
        most = items * self._most
        self._pending_gaps += gap if gap < most else most
        self._pending += items

    def _fade(self, now: float) -> None:
        dt, self._at = now - self._at, now
        if dt > 0:
            kept = exp(-dt / _MEMORY)
            self._gaps *= kept
            self._weight *= kept
            self._company *= kept
            kept = exp(-dt / _LINE_MEMORY)
            self._line.fade(kept)
            if self.flow.ahead <= 0:  # what is learned seldom is also forgotten seldom
                self._pure.fade(kept)
        # Two chunks at one moment have a mean of 0: without the least, no later gap would ever count.
        self._most = max(_CLIP_LEAST, _CLIP * self._gaps / self._weight) if self._weight > 0 else inf

    def _take_in(self) -> None:
        """What came since the last time, while neither the number inside nor the prompts on their way changed."""
        items = self._pending
        if not items:
            return
        gaps, n = self._pending_gaps, self._n
        self._pending = self._pending_gaps = 0.0
        self._gaps += gaps
        self._weight += items
        self._company += n * items
        each = gaps / items
        self._line.add(n, each, items)
        if self._free:
            self._pure.add(n, each, items)

    def now(self) -> float:
        """Seconds per output token at present; 0 before any is known."""
        self._take_in()
        return self._gaps / self._weight / self.flow.chunk if self._weight > 0 else 0.0

    def with_one_more(self) -> float:
        """Seconds per output token that one more call would make of it."""
        self._take_in()
        if self._weight <= 0:
            return 0.0
        itl, seen = self.now(), self._company / self._weight
        fair = itl / seen if seen > 0 else itl
        slope = fair
        if self._slope_known():
            slope = min(fair, max(0.0, self._line.slope() / self.flow.chunk))
        return itl + slope * (self.flow.inside + 1 - seen)

    def company_pays(self) -> bool:
        """Whether one more would still buy throughput, as far as is known."""
        self._take_in()
        pure = self._pure
        if pure.w <= _EVIDENCE or not pure.varies():
            return True
        slope, n = pure.slope(), self.flow.inside
        return slope <= 0 or slope * n <= _COMPANY * (pure.mean_y() + slope * (n - pure.mean_x()))

    def room(self, entry: Entry, now: float) -> bool:
        goal = self.goal
        if goal == inf:
            return True
        goal *= by_rank(GAPS, entry.rank)
        if self._weight + self._pending <= 0:  # no gap was ever seen: no evidence, no crowd
            return self.flow.inside < _COLD + self._ended / 2
        if now < self._hold or not self.company_pays():
            return False
        return self.with_one_more() <= goal or (self._may_probe(now) and self.now() <= goal)

    def _slope_known(self) -> bool:
        return self._line.w > _EVIDENCE and self._line.varies()

    def _may_probe(self, now: float) -> bool:
        """Whether one more may come only to show what one more does: where hardly any are inside, the fair share says
        too much (a large model is slow for one and hardly slower for ten), and nothing else would ever tell."""
        return self.flow.inside <= _FEW and now - self._probed >= _BETWEEN_PROBES and not self._slope_known()

    def shut(self, now: float) -> None:
        self._goal.refused_at = now

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        self._take_in()
        if self.flow.inside > 1 and not self._slope_known():
            self._before, self._probed = self._probed, now

    def undone(self, stream: Stream, now: float) -> None:
        if self._probed == now:
            self._probed = self._before

    def first(self, stream: Stream, now: float) -> None:
        self._take_in()

    def gone(self, entry: Entry, stream: Stream, now: float) -> None:
        self._take_in()

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        self._ended += 1
        items, took, first = outcome.items or 0.0, outcome.seconds or 0.0, outcome.ttft
        gap = (took - first) / (items - 1) / self.flow.chunk if items > 1 and first is not None else None
        self._goal.learn(stream.rank, gap, took, now)
        if self._weight > 0 and now - self._dipped >= _BETWEEN_DIPS and self._line.w > _EVIDENCE:
            seen = self._company / self._weight
            if seen > self.flow.inside + 0.5 and not self._line.varies():
                self._dipped, self._hold = now, now + _DIP

    def headroom(self, now: float) -> float:
        return 1 - self.with_one_more() / self.goal

    def snapshot(self, now: float) -> dict[str, Any]:
        """`itl` now, `one_more`, `goal` (s per output token), `share`, `pays` (whether company pays)."""
        return {
            "itl": self.now(),
            "one_more": self.with_one_more(),
            "goal": None if self.goal == inf else self.goal,
            "share": self.share.value,
            "pays": self.company_pays(),
        }


class IntertokenGate(PartsGate):
    """Open while one more call would keep the gap between tokens under the classes' itl objectives.

    Args:
        name: what metrics and errors call it. Default "intertoken_gate".
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.company = Company()
        super().__init__(self.company, name=name)
