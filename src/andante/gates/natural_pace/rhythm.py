"""The rhythm: what was held back is let go at a walking pace, not all at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from andante.gates.natural_pace.part import Part

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream

_BEAT = 0.1  # seconds
_TIMES = 2.0  # the pace


class Rhythm(Part):
    """In any 100 ms no more starts than twice the pace (what ended in the last 10 s or so), and one.

    After a stall, a step or an idle time the other parts know least and a crowd waits: so it comes in a few at a time,
    and each few are seen before the next.
    """

    name = "rhythm"

    def __init__(self) -> None:
        super().__init__()
        self._starts: deque[float] = deque()

    def most(self, now: float) -> float:
        """Starts in 100 ms."""
        return _TIMES * self.flow.done.per_second(now)[0] * _BEAT + 1

    def _lately(self, now: float) -> int:
        since = now - _BEAT
        return sum(1 for start in self._starts if start > since)

    def room(self, entry: Entry, now: float) -> bool:
        starts = self._starts
        return not starts or starts[-1] <= now - _BEAT or self._lately(now) + 1 <= self.most(now)

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        starts = self._starts
        while starts and starts[0] <= now - _BEAT:
            starts.popleft()
        starts.append(now)

    def undone(self, stream: Stream, now: float) -> None:
        if stream.started in self._starts:
            self._starts.remove(stream.started)

    def snapshot(self, now: float) -> dict[str, Any]:
        """`most` (starts in 100 ms), `lately` (of the last 100 ms)."""
        return {"most": self.most(now), "lately": self._lately(now)}
