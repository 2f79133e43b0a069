"""What the parts of a natural pace have in common, and how each becomes a gate of its own."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.gate import Gate
from andante.gates.natural_pace.flow import Flow
from andante.values import Call, Cost, Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.service import ServiceClass
    from andante.values import Outcome

TICK = 0.1  # seconds: how often a shut part is asked again


class _Smallest:
    """A call of the most urgent class that asks for nothing."""

    call = Call(Cost(requests=0))
    cost = call.cost
    service = call.service
    rank = 0
    deadline = inf
    arrived = 0.0
    started = first = last = None
    items = 0.0


_SMALLEST = _Smallest()


class Part:
    """One reason why a call should not start yet. It looks at a `Flow`, and is told what happens there."""

    name = "part"

    def __init__(self) -> None:
        self.flow = Flow()

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        """The service classes, in rank order: where the goals come from."""

    def room(self, entry: Entry, now: float) -> bool:
        """Whether `entry` may start, as far as this part is concerned. Something is inside already."""
        return True

    def shut(self, now: float) -> None:
        """It has just kept a call from starting."""

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        """`entry` has started, and is inside already."""

    def first(self, stream: Stream, now: float) -> None:
        """The first result of `stream` has come."""

    def gap(self, stream: Stream, gap: float, items: float, now: float) -> None:
        """`items` more output tokens of `stream`, `gap` seconds after the one before."""

    def gone(self, entry: Entry, stream: Stream, now: float) -> None:
        """`entry` is not inside any more, however it ended, undone included. `finish` follows if it tells something."""

    def undone(self, stream: Stream, now: float) -> None:
        """`stream` never ran: as if it had not come. `gone` was called just before."""

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        """`stream` has ended, DONE or OVERLOADED, and is not inside any more."""

    def headroom(self, now: float) -> float:
        """How much of what it guards is left, 1 to 0 (or below)."""
        return 1.0

    def snapshot(self, now: float) -> dict[str, Any]:
        """What people see of it."""
        return {}


class PartsGate(Gate):
    """A gate that is open while every part sees room, or nothing is inside."""

    def __init__(self, *parts: Part, name: str | None = None) -> None:
        super().__init__(name=name)
        self.flow = Flow()
        self._before: float | None = None
        self._opened: float | None = None  # when the last call started
        self._every = parts
        for part in parts:
            part.flow = self.flow
        self.use(*parts)

    def use(self, *parts: Part) -> None:
        """These of its parts are in force from now on: they hear and are asked. All hear who is gone, since who heard a
        start must hear the end."""
        self.parts = parts
        self._entering = tuple(part.enter for part in parts if type(part).enter is not Part.enter)
        self._gapping = tuple(part.gap for part in parts if type(part).gap is not Part.gap)
        self._going = tuple(part.gone for part in self._every if type(part).gone is not Part.gone)

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        self.flow.bind(classes)
        for part in self._every:
            part.bind(classes)

    def delay(self, entry: Entry, now: float) -> float:
        if self.flow.streams:
            for part in self.parts:
                if not part.room(entry, now):
                    part.shut(now)
                    return inf
        return 0.0

    def binds(self, now: float) -> str | None:
        """The part that would hold the smallest and most urgent call; None while the gate is open to it."""
        if not self.flow.streams:
            return None
        return next((part.name for part in self.parts if not part.room(_SMALLEST, now)), None)

    def look(self, now: float) -> float:
        return now + TICK if self.flow.streams else inf

    def enter(self, entry: Entry, now: float) -> None:
        flow = self.flow
        self._before, self._opened = self._opened, now
        stream = flow.enter(entry, now)
        if flow.silent(entry):
            flow.unseen(entry, now + self.haunts(now))
        for enter in self._entering:
            enter(entry, stream, now)

    def progress(self, entry: Entry, items: float, now: float) -> None:
        flow = self.flow
        last = entry.last
        stream = flow.streams.get(entry)
        if stream is None:
            return
        if last is None:
            self.streams()
            if flow.first(entry, now) is not None:
                for part in self.parts:
                    part.first(stream, now)
        else:
            last = now - last
            for gap in self._gapping:
                gap(stream, last, items, now)
        stream.tokens += items
        _, before, latest = stream.trail
        stream.trail = (before, latest, now)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        sampled = outcome.ending is not Ending.IGNORED
        stream = self.flow.leave(entry, outcome if sampled else None, now, self.haunts(now))
        if stream is None:
            return
        for gone in self._going:
            gone(entry, stream, now)
        if sampled:
            for part in self.parts:
                part.finish(entry, stream, outcome, now)

    def undo(self, entry: Entry, now: float) -> None:
        stream = self.flow.leave(entry, None, now)
        if self._opened == now:
            self._opened = self._before
        if stream is not None:
            for gone in self._going:
                gone(entry, stream, now)
            for part in self.parts:
                part.undone(stream, now)

    def streams(self) -> None:
        """Some call has told its first result."""

    def haunts(self, now: float) -> float:
        """Seconds for which the prompt of a call that leaves without a first result stays in the way."""
        return 0.0

    def headroom(self, now: float) -> float:
        """How much of the tightest part is left, 1 (nothing inside) to 0 (shut)."""
        return max(0.0, min((part.headroom(now) for part in self.parts), default=1.0)) if self.flow.streams else 1.0

    def snapshot(self, now: float) -> dict[str, Any]:
        """`inside`, `ahead` (prompt tokens on their way), `size` (tokens inside), `calls_per_s` and `tokens_per_s` (the
        pace: what ended in the last 10 s or so), `headroom` (0 to 1), `binds` (the part that shuts; None while it is
        open), `since` (when the last call got in; None while it is open), and what the parts say."""
        binds = self.binds(now)
        calls, tokens = self.flow.done.per_second(now)
        state: dict[str, Any] = {
            "inside": self.flow.inside,
            "ahead": self.flow.ahead_at(now),
            "size": self.flow.size,
            "calls_per_s": calls,
            "tokens_per_s": tokens,
            "headroom": 0.0 if binds else self.headroom(now),
            "binds": binds,
            "since": self._opened if binds else None,
        }
        for part in self.parts:
            state[part.name] = part.snapshot(now)
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.flow.inside} inside, {self.flow.ahead:g} tokens ahead>"
