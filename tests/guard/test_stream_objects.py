"""Stream objects and managers of SDKs, in a proxy that holds their place."""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

from andante import (
    Admission,
    Concurrency,
    Cost,
    Ending,
    guard,
)
from andante.events import Left
from andante.testing import Recorder, ScriptedStream, Stream, balanced
from tests.guard.world import World, exhausted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

LARGE = Cost(input_tokens=100, output_tokens=500)


# How it ends. ---------------------------------------------------------------------------------------------------------


async def _close(world: World) -> None:
    stream = await world.create()
    await anext(stream)
    await stream.close()


async def _aclose(world: World) -> None:
    stream = await world.create()
    await anext(stream)
    await stream.aclose()


async def _exit(world: World) -> None:
    async with await world.create() as stream:
        await anext(stream)


async def _manager_exit(world: World) -> None:
    async with world.open() as stream:
        await anext(stream)


async def _cancelled_in_a_pull(world: World) -> None:
    with anyio.move_on_after(1.5):
        async for _ in await world.create():
            pass


async def _cancelled_in_the_manager(world: World) -> None:
    with anyio.move_on_after(1.5):
        async with world.open() as stream:
            async for _ in stream:
                await anyio.sleep(100)


async def _error_in_the_body(world: World) -> None:
    for opened in (await world.create(), world.open()):
        with pytest.raises(ValueError, match="mine"):
            async with opened as stream:
                await anext(stream)
                raise ValueError("mine")


@pytest.mark.parametrize(
    "ends",
    [
        exhausted,
        _close,
        _aclose,
        _exit,
        _manager_exit,
        _cancelled_in_a_pull,
        _cancelled_in_the_manager,
        _error_in_the_body,
    ],
)
async def test_every_ending_releases_once(ends: Any) -> None:
    """FC-15: promptly, exactly once, with the upstream closed, and without any collector."""
    world = World(Stream("abcd", first=1, gap=1))
    gc.disable()
    try:
        if ends is _error_in_the_body:
            world.admission.controller.plan.gates[0].limit = 2  # type: ignore[attr-defined]
        await ends(world)
        assert world.inside == 0
        with anyio.fail_after(10):
            await exhausted(world)
    finally:
        gc.enable()
    world.check()


async def test_place_is_held_to_the_end() -> None:
    """Law 7: not only until the stream object is there."""
    world = World(Stream("abcd", gap=1))
    stream = await world.create()
    assert world.inside == 1
    async for item in stream:
        assert world.inside == 1, item
    assert world.inside == 0
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    world.check()


async def test_manager_takes_its_place_when_entered() -> None:
    """Calling gives a manager that has taken nothing; leaving gives the place back."""
    world = World(Stream("abcd"))
    manager = world.open()
    assert world.admission.snapshot().offered == 0
    async with manager as stream:
        assert world.inside == 1
        assert [item async for item in stream] == list("abcd")
        assert world.inside == 0, "the stream is over"
    assert world.left[0].ending is Ending.DONE
    world.check()


async def test_manager_is_for_one_time() -> None:
    """Entered twice it says so, and the place of the first time is not forgotten."""
    world = World(Stream("abcd"))
    manager = world.open()
    async with manager as stream:
        await anext(stream)
        with pytest.raises(RuntimeError, match="again"):
            await manager.__aenter__()
        assert world.inside == 1
    assert world.inside == 0
    world.check()


@pytest.mark.parametrize("by", ["stream", "manager"])
async def test_early_end_is_charged_what_was_seen(by: str) -> None:
    """Reserved input and items seen, IGNORED; the same for both forms."""
    world = World(Stream("abcd"), cost=LARGE)
    async with world.open() if by == "manager" else await world.create() as stream:
        async for _ in stream:
            break
    assert world.left[0].ending is Ending.IGNORED
    assert world.charged == 101
    world.check()


async def test_manager_read_by_other_means_is_complete() -> None:
    """A helper that reads inside the object (`get_final_message()`) goes past the proxy: then leaving means done."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])

    class Helper:
        async def final(self) -> str:
            return "all"

        def __aiter__(self) -> Helper:
            return self

        async def __anext__(self) -> str:
            raise AssertionError

    @guard(admission)
    @asynccontextmanager
    async def opened() -> AsyncIterator[Helper]:
        yield Helper()

    async with opened() as stream:
        assert await stream.final() == "all"
    assert recorder.of(Left)[0].outcome.ending is Ending.DONE
    balanced(admission)


async def test_response_objects_are_complete_when_left() -> None:
    """What is entered and no stream (a response to be read) was used in full when its body ends without an error."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])

    class Response:
        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *error: object) -> None:
            pass

        async def read(self) -> str:
            return "body"

    @guard(admission)
    async def get() -> Response:
        return Response()

    async with await get() as response:
        assert await response.read() == "body"
        assert admission.snapshot().inside == 1
    assert recorder.of(Left)[0].outcome.ending is Ending.DONE
    balanced(admission)


# What it looks like. --------------------------------------------------------------------------------------------------


async def test_the_proxy_looks_like_the_stream() -> None:
    """FC-52: attributes, isinstance, repr; an unknown attribute is the stream's own AttributeError."""
    world = World(Stream("ab", attributes={"request_id": "r-1"}))
    stream = await world.create("prompt")
    assert stream.request_id == "r-1"
    assert isinstance(stream, ScriptedStream)
    assert "ScriptedStream" in repr(stream)
    assert "guarded" in repr(stream)
    with pytest.raises(AttributeError, match="nope"):
        _ = stream.nope
    assert aiter(stream) is stream
    assert [item async for item in stream] == ["a", "b"]
    async with world.open() as opened:
        assert isinstance(opened, ScriptedStream)
    world.check()


async def test_plain_results_are_left_alone() -> None:
    """Only what is still going on is wrapped."""
    admission = Admission(Concurrency(1))

    async def give(value: Any) -> Any:
        return value

    class Answer:
        def __iter__(self) -> Any:
            return iter("ab")

    for value in (None, 1, "x", b"y", [1], {"a": 1}, Answer(), (1, 2), ValueError("as a value")):
        assert await guard(admission)(give)(value) is value
    balanced(admission)


class Both:
    def __init__(self) -> None:
        self.items = list("ab")
        self.entered = 0

    async def __aenter__(self) -> Self:
        self.entered += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        self.entered -= 1

    def __aiter__(self) -> Both:
        return self

    async def __anext__(self) -> str:
        if not self.items:
            raise StopAsyncIteration
        return self.items.pop(0)


async def test_a_stream_object_that_comes_without_await() -> None:
    """A plain function that gives a stream object with `async with` and `async for`: both work, from one place."""

    admission = Admission(Concurrency(1))

    @guard(admission)
    def create() -> Both:
        return Both()

    assert [item async for item in create()] == ["a", "b"]
    async with create() as stream:
        assert admission.snapshot().inside == 1
        assert [item async for item in stream] == ["a", "b"]
    manager = create()
    async with manager:
        assert [item async for item in manager] == ["a", "b"]
    assert admission.snapshot().started == 3
    balanced(admission)
