"""FC-08, FC-11 and FC-67: thousands of waiters leave the loop alone, and nobody leaves anything behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from andante import Admission, Call, Concurrency, Permit, ServiceClass, TokenBucket, guard
from andante.testing import Recorder, ScriptedBackend, Stream, balanced, run

if TYPE_CHECKING:
    from andante.events import Event

pytestmark = pytest.mark.anyio

MANY = ServiceClass("default", max_waiting=1e9)


def test_ten_thousand_waiters_and_a_heartbeat() -> None:
    """FC-08: 10,000 wait at 10 a second; in 5 s of heartbeats, what runs besides them is a few callbacks a grant."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        admission = Admission(TokenBucket(10, burst=1), classes=[MANY])
        tasks = [asyncio.ensure_future(admission.enter()) for _ in range(10_000)]
        while admission.controller.waiting < 9_999:
            await asyncio.sleep(0)
        ran = 0
        soon = loop.call_soon

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal ran
            ran += 1
            return soon(*args, **kwargs)

        loop.call_soon = counted
        beats, late = 0, 0.0
        while loop.time() < 5:
            due = loop.time() + 0.01
            await asyncio.sleep(0.01)
            beats, late = beats + 1, max(late, loop.time() - due)
        del loop.call_soon
        started = sum(task.done() for task in tasks)
        assert started == pytest.approx(51, abs=1)
        assert late < 1e-6
        assert ran - beats <= 4 * started, f"{ran} callbacks for {beats} beats and {started} grants"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result().close()
        balanced(admission)

    run(main)


async def test_nothing_blocks_the_loop() -> None:
    """FC-11: while every asynchronous entry point waits, a heartbeat beats on time."""
    admission = Admission(Concurrency(1))
    backend = ScriptedBackend(default=Stream("abc", first=1, gap=1))
    call, generate = guard(admission)(backend.call), guard(admission)(backend.generate)
    late: list[float] = []

    async def heartbeat() -> None:
        while True:
            due = admission.now() + 0.01
            await anyio.sleep(0.01)
            late.append(admission.now() - due)

    async def enter() -> None:
        async with admission.admit():
            await anyio.sleep(2)

    async def stream() -> None:
        async for _ in generate():
            pass

    async def create() -> None:
        async with await call() as answer:
            async for _ in answer:
                pass

    async with anyio.create_task_group() as beats:
        beats.start_soon(heartbeat)
        async with anyio.create_task_group() as group:
            for body in (enter, stream, create, enter):
                group.start_soon(body)
            await anyio.sleep(0.5)
            assert await admission.drain() == 0
        beats.cancel_scope.cancel()
    assert len(late) > 500
    assert max(late) < 0.002
    balanced(admission)


async def test_nothing_is_left_behind() -> None:
    """FC-67: the collector runs at every step, warnings are errors: no task, timer, generator or permit remains."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), TokenBucket(100, burst=1), listeners=[recorder])
    backend = ScriptedBackend(default=Stream("ab", first=0.01))

    class Collecting:
        def on(self, event: Event) -> None:
            gc.collect()

    collecting = Admission(Concurrency(1), listeners=[Collecting()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with anyio.create_task_group() as group:
            for number in range(4):

                async def caller(number: int = number) -> None:
                    with anyio.move_on_after(0.02 * number):
                        async with collecting.admit(), admission.admit():
                            await anyio.sleep(0.01)
                        async with aclosing(guard(admission)(backend.generate)()) as stream:
                            await anext(stream)
                            gc.collect()

                group.start_soon(caller)
        recorder.clear()
        gc.collect()
    assert not [str(warning.message) for warning in caught]
    balanced(admission)
    balanced(collecting)
    assert not [thing for thing in gc.get_objects() if isinstance(thing, Permit)]


def test_nothing_starts_by_itself() -> None:
    """FC-67: making, and using without waiting, starts no task and no timer."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        tasks = asyncio.all_tasks()
        admission = Admission(Concurrency(1), TokenBucket(1), listeners=[Recorder()])
        async with admission.admit():
            pass
        assert asyncio.all_tasks() == tasks
        assert not loop._scheduled

    run(main)


async def test_listeners_are_heard_and_never_obeyed(caplog: pytest.LogCaptureFixture) -> None:
    """A listener that raises is reported once, each for itself, and the others still hear everything."""

    class Angry:
        heard = 0

        def on(self, event: Event) -> None:
            self.heard += 1
            raise RuntimeError("no")

    one, two, recorder = Angry(), Angry(), Recorder()
    admission = Admission(Concurrency(1), listeners=[one, two, recorder])

    async def caller() -> None:
        async with admission.admit():
            await anyio.sleep(1)

    with caplog.at_level(logging.ERROR, "andante"):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(caller)
        with anyio.move_on_after(0.5):
            async with admission.admit():
                await anyio.sleep(1)
    assert len(caplog.records) == 2
    assert one.heard == two.heard == len(recorder.events)
    recorder.conserved()
    balanced(admission)


async def test_a_listener_may_use_the_admission() -> None:
    """It may look, try, and change limits in the middle of a step."""
    gate = Concurrency(1)

    class Busy:
        def on(self, event: Event) -> None:
            repr(admission)
            admission.snapshot()
            admission.explain()
            if admission.snapshot().waiting > 2:
                gate.limit = 4

    admission = Admission(gate, listeners=[Busy()])

    async def caller() -> None:
        async with admission.admit(Call()):
            await anyio.sleep(1)

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(caller)
    assert admission.now() <= 3
    balanced(admission)


async def test_who_is_parked_costs_little_to_cancel() -> None:
    """FC-08: cancelling one of many does not look at the others: a thousand of ten thousand, at every place."""
    asked = 0

    class Asked(Concurrency):
        def delay(self, entry: Any, now: float) -> float:
            nonlocal asked
            asked += 1
            return super().delay(entry, now)

    admission = Admission(Asked(1), classes=[MANY])
    held = admission.try_enter()
    scopes: list[anyio.CancelScope] = []

    async def caller() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            async with admission.admit():
                pass

    async with anyio.create_task_group() as group:
        for _ in range(2_000):
            group.start_soon(caller)
        while admission.controller.waiting < 2_000:
            await anyio.lowlevel.checkpoint()
        before = asked
        for scope in scopes[::2]:
            scope.cancel()
        while admission.controller.waiting > 1_000:
            await anyio.lowlevel.checkpoint()
        assert asked - before <= 3_000
        held.close()
    balanced(admission)
