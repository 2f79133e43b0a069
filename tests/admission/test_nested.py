"""FC-22: a call that would have to wait for an admission its own context holds is refused at once, never hung."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import Admission, Call, Concurrency, Nested, Rejected, ServiceClass, WouldWait, guard
from andante.events import Refused
from andante.testing import Recorder, ScriptedBackend, Stream, balanced

pytestmark = pytest.mark.anyio


async def test_depth_three() -> None:
    """Two places; calls that make two calls that make two calls: within bounded time all end, or are refused."""
    admission = Admission(Concurrency(2))
    refused: list[Nested] = []

    @guard(admission)
    async def agent(depth: int) -> int:
        await anyio.sleep(0.1)
        if depth == 0:
            return 1
        total = 0
        for _ in range(2):
            try:
                total += await agent(depth - 1)
            except Nested as error:
                refused.append(error)
        return total

    async def root() -> None:
        await agent(3)

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(root)
    assert refused
    assert "holds" in str(refused[0])
    balanced(admission)


async def test_room_is_used() -> None:
    """Where there is room, a nested call enters."""
    admission = Admission(Concurrency(3))

    @guard(admission)
    async def nested(depth: int) -> int:
        return admission.snapshot().inside if depth == 0 else await nested(depth - 1)

    assert await nested(2) == 3
    with pytest.raises(Nested):
        await nested(3)
    balanced(admission)


async def test_all_ways_in() -> None:
    """Decorator, context manager and stream hold; each of them, and a bare enter, is refused inside of each."""
    admission = Admission(Concurrency(1))
    backend = ScriptedBackend(default=Stream("ab"))
    generate, create = guard(admission)(backend.generate), guard(admission)(backend.call)

    async def ways() -> None:
        with pytest.raises(Nested):
            await admission.enter()
        with pytest.raises(Nested):
            async with admission.admit():
                pass
        with pytest.raises(Nested):
            await create()
        with pytest.raises(Nested):
            await anext(generate())

    await guard(admission)(ways)()
    async with admission.admit():
        await ways()

    @guard(admission)
    async def source() -> Any:
        await ways()  # inside of the stream's own work
        yield 1

    assert [item async for item in source()] == [1]
    balanced(admission)


async def test_a_refusal_is_told_once() -> None:
    """Law 1 in events: refused at once, after standing in the line for nothing, or while waiting: one Refused each."""
    recorder = Recorder()
    classes = [ServiceClass("default"), ServiceClass("never", max_wait=0), ServiceClass("brief", max_wait=1)]
    admission = Admission(Concurrency(1), classes=classes, listeners=[recorder])
    async with admission.admit():
        with pytest.raises(Nested):
            await admission.enter()
        with pytest.raises(WouldWait):
            admission.try_enter()
    held = admission.try_enter()
    for service in ("never", "brief"):
        with pytest.raises(Rejected):
            await admission.enter(Call(service=service))
    held.close()
    assert len(recorder.of(Refused)) == admission.snapshot().refused == 4
    recorder.conserved()
    balanced(admission)


async def test_the_consumer_of_a_stream_is_not_inside_it() -> None:
    """Between two items the consumer's context is its own: its calls wait in the line, as anybody's."""
    admission = Admission(Concurrency(1))
    backend = ScriptedBackend(default=Stream("ab"))
    stream = guard(admission)(backend.generate)()
    await anext(stream)
    with anyio.move_on_after(1) as scope:
        await admission.enter()
    assert scope.cancelled_caught, "it waited"
    await stream.aclose()
    balanced(admission)


async def test_child_tasks_are_nested() -> None:
    """A task started inside holds what its parent holds; one that was started before does not."""
    admission = Admission(Concurrency(1))
    seen: list[str] = []
    go = anyio.Event()

    async def child(name: str) -> None:
        try:
            async with admission.admit():
                seen.append(f"{name} ran")
        except Nested:
            seen.append(f"{name} nested")

    async def before() -> None:
        await go.wait()
        await child("before")

    async with anyio.create_task_group() as outer:
        outer.start_soon(before)
        async with admission.admit():
            async with anyio.create_task_group() as group:
                group.start_soon(child, "child")
            go.set()
            await anyio.sleep(1)
            assert seen == ["child nested"]
    assert seen == ["child nested", "before ran"]
    balanced(admission)


async def test_a_task_that_outlives_the_call_is_free() -> None:
    """After the parent's call has ended, a child started inside waits like anybody else."""
    admission = Admission(Concurrency(1))
    ran: list[float] = []

    async def late() -> None:
        await anyio.sleep(1)
        async with admission.admit():
            ran.append(admission.now())

    async with anyio.create_task_group() as group:
        async with admission.admit():
            group.start_soon(late)
            await anyio.lowlevel.checkpoint()
        held = admission.try_enter()
        await anyio.sleep(2)
        held.close()
    assert ran == [pytest.approx(2, abs=0.01)]
    balanced(admission)


async def test_other_admissions_and_classes() -> None:
    """Another admission inside is fine, and the first one is seen through it; classes of one admission are one."""
    outer, inner = Admission(Concurrency(1), name="outer"), Admission(Concurrency(1), name="inner")
    async with outer.admit(), inner.admit():
        with pytest.raises(Nested):
            await outer.enter()
    two = Admission(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b")])
    async with two.admit(Call(service="a")):
        with pytest.raises(Nested):
            await two.enter(Call(service="b"))
    for admission in (outer, inner, two):
        balanced(admission)


async def test_reading_one_stream_inside_another() -> None:
    """What is held is found, and never searched for without end, whatever is read inside of what."""
    one, two = Admission(Concurrency(1), name="one"), Admission(Concurrency(1), name="two")
    third = Admission(Concurrency(1), name="third")
    backend = ScriptedBackend(default=Stream("abcdef"))
    inner = guard(one)(backend.generate)()

    @guard(two)
    async def source() -> Any:
        async for item in inner:
            (await third.enter()).close()
            yield item

    stream = source()
    assert [item async for item in stream] == list("abcdef")
    for admission in (one, two, third):
        balanced(admission)
