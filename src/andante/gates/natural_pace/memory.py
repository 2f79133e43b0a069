"""The memory ceiling: a stream that stands still while the others go on was put aside for want of memory."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import DeadlineOverrun
from andante.gates.natural_pace.part import TICK, Part, PartsGate
from andante.values import Ending

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.values import Outcome

_SILENT = 0.5  # seconds
_BETWEEN = 5.0  # seconds between two cuts
_CUT = 0.9
_GROW = 1.0002  # per tick, while the ceiling is nearly reached
_FORGOTTEN = 600.0  # seconds without any sign: what was learned is forgotten
_BY_RANK, _BY_RANK_MOST = 0.03, 0.3  # the ceiling is lower by this for each rank, in all at most


def turned_away(outcome: Outcome) -> bool:
    """Whether the backend itself said that it was too much. A caller's own deadline says nothing of the kind."""
    return outcome.ending is Ending.OVERLOADED and not isinstance(outcome.error, DeadlineOverrun)


class Ceiling(Part):
    """AIMD on stalls: prompts and expected answers inside stay under a ceiling that is cut by a tenth at a stall, or
    when the backend turns a call away."""

    name = "memory_ceiling"

    def __init__(self) -> None:
        super().__init__()
        self.ceiling = inf
        self.stalls = 0
        self._cut = self._ticked = -inf

    def room(self, entry: Entry, now: float) -> bool:
        if self.ceiling == inf or self._forgotten(now):
            return True
        flow = self.flow
        left = 1 - min(_BY_RANK * entry.rank, _BY_RANK_MOST)
        return flow.size + flow.prompt(entry) + flow.expects(entry) <= self.ceiling * left

    def gap(self, stream: Stream, gap: float, items: float, now: float) -> None:
        if now - self._ticked >= TICK:
            self._tick(now)

    def _tick(self, now: float) -> None:
        if now - self._ticked < TICK:
            return
        if self._forgotten(now):
            self.ceiling = inf
        ticks = min(10.0, (now - self._ticked) / TICK)
        self._ticked = now
        size = self.flow.size
        if size > 0.9 * self.ceiling:
            self.ceiling *= _GROW**ticks
        if now - self._cut >= _BETWEEN and self._stalled(now):
            self.stall(now)

    def _forgotten(self, now: float) -> bool:
        return -inf < self._ticked < now - _FORGOTTEN

    def stall(self, now: float) -> None:
        """Memory ran out, as somebody has seen: at most each 5 s the ceiling becomes nine tenths of what is inside."""
        if now - self._cut >= _BETWEEN and self.flow.size > 0:
            self.stalls += 1
            self._cut = now
            self.ceiling = _CUT * min(self.ceiling, self.flow.size)

    def _stalled(self, now: float) -> bool:
        running = [stream for stream in self.flow.streams.values() if stream.tokens > 0]
        if len(running) < 2:
            return False
        silent = min(running, key=lambda stream: stream.trail[2])
        since = silent.trail[2]
        return now - since >= _SILENT and all(s is silent or s.trail[0] > since for s in running)

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        self._tick(now)  # whole calls have no gaps
        if turned_away(outcome):
            self.stall(now)

    def headroom(self, now: float) -> float:
        return 1 - self.flow.size / self.ceiling

    def snapshot(self, now: float) -> dict[str, Any]:
        """`ceiling` (tokens; None while none is known), `stalls`."""
        return {"ceiling": None if self.ceiling == inf else self.ceiling, "stalls": self.stalls}


class MemoryCeiling(PartsGate):
    """Keeps what is inside (prompts and expected answers, in tokens) under what the backend's memory bears.

    Nothing has to be told: a stream that stands still for half a second while every other one gets on was put aside
    (preempted). Such a stall cuts the ceiling to nine tenths of what is inside, at most each 5 s; it grows by 0.2 % a
    second while it is nearly reached.

    Args:
        name: what metrics and errors call it. Default "memory_ceiling".
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(Ceiling(), name=name)
