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

    def first(self, stream: Stream, now: float) -> None:
        """The first result of `stream` has come."""

    def gap(self, stream: Stream, gap: float, items: float, now: float) -> None:
        """`items` more output tokens of `stream`, `gap` seconds after the one before."""

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        """`stream` has ended, DONE or OVERLOADED, and is not inside any more."""

    def snapshot(self, now: float) -> dict[str, Any]:
        """What people see of it."""
        return {}


class PartsGate(Gate):
    """A gate that is open while every part sees room, or nothing is inside."""

    def __init__(self, *parts: Part, name: str | None = None) -> None:
        super().__init__(name=name)
        self.flow = Flow()
        self.parts = parts
        for part in parts:
            part.flow = self.flow

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        self.flow.bind(classes)
        for part in self.parts:
            part.bind(classes)

    def delay(self, entry: Entry, now: float) -> float:
        if not self.flow.streams or all(part.room(entry, now) for part in self.parts):
            return 0.0
        return inf

    def binds(self, now: float) -> str | None:
        """The part that would hold the smallest and most urgent call; None while the gate is open to it."""
        if not self.flow.streams:
            return None
        return next((part.name for part in self.parts if not part.room(_SMALLEST, now)), None)

    def look(self, now: float) -> float:
        return now + TICK if self.flow.streams else inf

    def enter(self, entry: Entry, now: float) -> None:
        self.flow.enter(entry, now)

    def progress(self, entry: Entry, items: float, now: float) -> None:
        flow = self.flow
        last = entry.last
        if last is None:
            stream = flow.first(entry, now)
            if stream is not None:
                for part in self.parts:
                    part.first(stream, now)
        else:
            stream = flow.streams.get(entry)
            if stream is not None:
                gap = now - last
                for part in self.parts:
                    part.gap(stream, gap, items, now)
        if stream is not None:
            stream.tokens += items
            stream.trail = (stream.trail[1], stream.trail[2], now)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        sampled = outcome.ending is not Ending.IGNORED
        stream = self.flow.leave(entry, outcome if sampled else None, now, self.haunts(now))
        if stream is not None and sampled:
            for part in self.parts:
                part.finish(entry, stream, outcome, now)

    def undo(self, entry: Entry, now: float) -> None:
        self.flow.leave(entry, None, now)

    def haunts(self, now: float) -> float:
        """Seconds for which the prompt of a call that leaves without a first result stays in the way."""
        return 0.0

    def snapshot(self, now: float) -> dict[str, Any]:
        """`inside`, `ahead` (prompt tokens on their way), `size` (tokens inside), `binds` (the part that shuts), and
        what the parts say."""
        state: dict[str, Any] = {
            "inside": self.flow.inside,
            "ahead": self.flow.ahead_at(now),
            "size": self.flow.size,
            "binds": self.binds(now),
        }
        for part in self.parts:
            state[part.name] = part.snapshot(now)
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.flow.inside} inside, {self.flow.ahead:g} tokens ahead>"
