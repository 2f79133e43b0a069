"""Stream objects that nobody ends, and the time that streams take."""

from __future__ import annotations

import gc
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    DeadlineOverrun,
    Ending,
    ServiceClass,
    guard,
)
from andante.testing import ScriptedBackend, Stream, balanced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
from tests.guard.world import World, exhausted

pytestmark = pytest.mark.anyio


async def test_never_closed_is_found_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Law 2: forgotten, it is reported, and the place comes back with the object."""
    world = World(Stream("abcd"))
    with caplog.at_level(logging.WARNING, "andante"):
        stream = await world.create()
        await anext(stream)
        del stream
        gc.collect()
        await anyio.sleep(0.01)
    assert world.inside == 0
    assert "neither ended nor closed" in caplog.text
    assert world.left[0].ending is Ending.IGNORED
    await exhausted(world)
    assert len(caplog.records) == 1


async def test_a_manager_that_is_never_left(caplog: pytest.LogCaptureFixture) -> None:
    """Entered by hand and forgotten: the same. And a stream that one drops inside a manager's body is not lost."""
    world = World(Stream("abcd"))
    with caplog.at_level(logging.WARNING, "andante"):
        async with world.open():
            gc.collect()
            await anyio.sleep(0.01)
            assert world.inside == 1, "the manager still holds it"
        assert not caplog.records
        manager = guard(world.admission)(world.backend.stream)()
        stream = await manager.__aenter__()
        del manager
        gc.collect()
        assert await anext(stream) == "a"
        del stream
        gc.collect()
        await anyio.sleep(0.01)
    assert world.inside == 0
    assert len(caplog.records) == 1


async def test_forgotten_stream_is_covered_by_its_deadline() -> None:
    """Held, never read: at its deadline who waits gets the place, whoever came first; a late read is an overrun."""
    for early in (True, False):
        world = World(Stream("abcd", first=0.5), deadline=5)
        started: list[float] = []
        begin = world.admission.now()

        async def waits(world: World = world, started: list[float] = started, begin: float = begin) -> None:
            async with world.admission.admit():
                started.append(world.admission.now() - begin)

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                if early:  # somebody waits before the stream is out of our hands

                    async def slow(world: World = world) -> Any:
                        await anyio.sleep(1)
                        return await world.backend.call()

                    streams: list[Any] = []

                    async def create(world: World = world, streams: list[Any] = streams, slow: Any = slow) -> None:
                        streams.append(await guard(world.admission, deadline=5)(slow)())

                    group.start_soon(create)
                    while not world.inside:
                        await anyio.sleep(0.1)
                else:
                    streams = [await world.create()]
                group.start_soon(waits)
        assert started == [pytest.approx(5, abs=0.01)]
        with pytest.raises(DeadlineOverrun):
            await anext(streams[0])
        with pytest.raises(StopAsyncIteration):
            await anext(streams[0])
        await streams[0].aclose()
        balanced(world.admission)


async def test_many_forgotten_streams_at_once() -> None:
    """Four hundred streams reach their deadline in one step, and four hundred callers get their places."""
    number = 400
    admission = Admission(Concurrency(number), classes=[ServiceClass("default", max_waiting=1e9)])
    backend = ScriptedBackend(default=Stream("abcd"))
    create = guard(admission, deadline=5)(backend.call)
    streams = [await create() for _ in range(number)]

    async def caller() -> None:
        (await admission.enter()).close()

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            for _ in range(number):
                group.start_soon(caller)
    for stream in streams:
        await stream.aclose()
    balanced(admission)


async def test_an_overdue_stream_gives_way_to_a_try() -> None:
    """Nobody waited when its deadline came; the next try finds the place free, not only the try after it."""
    world = World(Stream("abcd"), deadline=5)
    stream = await world.create()
    await anyio.sleep(6)
    world.admission.try_enter().close()
    await stream.aclose()
    world.check()


async def test_iterating_again_after_the_end() -> None:
    """A stream that ended in time has ended; asking again, even after its deadline, is no overrun."""
    world = World(Stream("ab"), deadline=5)
    stream = await world.create()
    assert [item async for item in stream] == ["a", "b"]
    await anyio.sleep(10)
    assert [item async for item in stream] == []
    closed = await world.create()
    await closed.aclose()
    await anyio.sleep(10)
    assert [item async for item in closed] == []
    world.check()


# Time. ----------------------------------------------------------------------------------------------------------------


async def test_deadline_while_it_opens() -> None:
    """Law 6: a manager whose entering stalls is cut at the deadline, as a coroutine is."""
    admission = Admission(Concurrency(1))

    @asynccontextmanager
    async def stalls() -> AsyncIterator[None]:
        await anyio.sleep_forever()
        yield

    with pytest.raises(DeadlineOverrun):
        async with guard(admission, deadline=5)(stalls)():
            raise AssertionError
    assert admission.now() == pytest.approx(5)
    assert admission.snapshot().overloaded == 1
    balanced(admission)


async def test_deadline_in_a_stalled_pull() -> None:
    world = World(Stream("abcd", stall_after=2), deadline=5)
    got = []
    with pytest.raises(DeadlineOverrun):
        async for item in await world.create():
            got.append(item)
    assert got == ["a", "b"]
    world.check()


async def test_time_before_the_first_pull_is_the_consumers() -> None:
    """Law 7: the stream object is there after 0 s and is first asked for an item after 10 s, which comes in 2 s."""
    world = World(Stream("ab", first=2, gap=1, ahead=False))
    stream = await world.create()
    await anyio.sleep(10)
    async for _ in stream:
        pass
    outcome = world.left[0]
    assert outcome.seconds == pytest.approx(3)
    assert outcome.ttft == pytest.approx(2)
    world.check()


async def test_refused_manager_starts_nothing() -> None:
    """A refusal comes out of entering, and nothing was entered or awaited by halves (warnings are errors here)."""
    world = World(Stream("ab"))
    held = world.admission.try_enter()
    world.admission.reconfigure(classes=[ServiceClass("default", max_wait=0)])
    for make in (world.open, world.create):
        with pytest.raises(Exception, match="cannot start") as caught:
            opened = make()
            await (opened.__aenter__() if hasattr(opened, "__aenter__") else opened)
        assert caught.value.reason == "deadline_unreachable"  # type: ignore[attr-defined]
    held.close()
    gc.collect()
    assert world.backend.calls == []
    assert world.admission.try_enter(Call()).cost.requests == 1
