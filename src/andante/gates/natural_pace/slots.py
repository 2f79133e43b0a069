"""Slots that nobody told of: first results that come only when another call ends."""

from __future__ import annotations

from collections import deque
from math import exp, inf
from typing import TYPE_CHECKING, Any

from andante.gates.natural_pace.part import Part

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.values import Outcome

_SLACK = 0.1  # seconds beyond twice the prefill that a first result may take without having waited for a slot
_CHANCE = 0.5  # a first result that soon after an end, by chance alone: above, it proves nothing
_OF_LAST, _ENOUGH = 6, 3
_SHORTEST, _LONGEST = 20.0, 160.0  # seconds a limit that was found is kept: doubled each time it is found again


class Slots(Part):
    """A backend with few slots takes every call and lets it wait inside, where its place in our line is lost.

    A first result is a *slot wait* when it took longer than twice the prefill of all that was ahead of it, and came
    within its own prefill after another call had ended. When three of the last six were, no more than were being served
    then are let in, for 20 s, then 40, up to 160. Where ends come so often that one just before is no news (batching
    engines under load), nothing is concluded.
    """

    name = "slots"

    def __init__(self) -> None:
        super().__init__()
        self.limit = inf
        self._until = -inf
        self._keep = _SHORTEST
        self._least = inf  # seconds per prompt token: the best that was seen, slowly forgotten
        self._ended = -inf
        self._ends = self._span = 0.0  # ends and seconds, forgotten over 10 s
        self._waits: deque[bool] = deque(maxlen=_OF_LAST)

    def room(self, entry: Entry, now: float) -> bool:
        return now >= self._until or self.flow.inside < self.limit

    def first(self, stream: Stream, now: float) -> None:
        took = now - stream.started
        if stream.ahead <= 0 or took <= 0:
            return
        self._least = min(self._least * 1.005, took / stream.ahead)
        soon = 2 * self._least * stream.prompt + _SLACK / 2
        after_end = stream.started < self._ended and now - self._ended <= soon
        proves = self._span > 0 and 1 - exp(-soon * self._ends / self._span) < _CHANCE
        self._waits.append(after_end and proves and took > 2 * self._least * stream.ahead + _SLACK)
        if sum(self._waits) >= _ENOUGH:
            served = sum(1 for one in self.flow.streams.values() if one.tokens > 0) + 1
            self._keep = min(_LONGEST, 2 * self._keep) if now < self._until + self._keep else _SHORTEST
            self.limit, self._until = float(served), now + self._keep
            self._waits.clear()

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        passed = min(max(0.0, now - self._ended), 60.0)
        kept = exp(-passed / 10.0)
        self._ends, self._span = self._ends * kept + 1, self._span * kept + passed
        self._ended = now

    def snapshot(self, now: float) -> dict[str, Any]:
        """`limit` (calls inside; None while none was found)."""
        return {"limit": None if self.limit == inf or now >= self._until else self.limit}
