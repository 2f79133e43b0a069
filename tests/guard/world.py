"""A client and its backend, for tests of guarded stream objects."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from andante import (
    Admission,
    Concurrency,
    TokenBucket,
    guard,
)
from andante.events import Left
from andante.testing import Recorder, ScriptedBackend, ScriptedStream, Stream, balanced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class World:
    """A client with a coroutine that gives a stream object, and a manager that gives one when entered."""

    def __init__(self, step: Stream, **terms: Any) -> None:
        self.recorder = Recorder()
        self.admission = Admission(
            Concurrency(1), TokenBucket(1e-6, "day", unit="tokens", burst=10_000), listeners=[self.recorder]
        )
        self.backend = ScriptedBackend(default=step)
        self.create = guard(self.admission, **terms)(self.backend.call)

        @asynccontextmanager
        async def opened(*args: Any) -> AsyncIterator[ScriptedStream]:
            async with self.backend.stream(*args) as stream:
                yield stream

        self.open = guard(self.admission, **terms)(opened)

    @property
    def left(self) -> Any:
        return [event.outcome for event in self.recorder.of(Left)]

    @property
    def inside(self) -> int:
        return self.admission.snapshot().inside

    @property
    def charged(self) -> float:
        return round(10_000 - float(self.admission.snapshot().gates["token_bucket"]["level"]), 3)

    def check(self) -> None:
        balanced(self.admission)
        assert self.backend.inside == 0
        assert all(call.closes <= 1 for call in self.backend.calls)
        self.recorder.conserved()


async def exhausted(world: World) -> None:
    assert [item async for item in await world.create()] == list("abcd")
