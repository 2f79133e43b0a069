"""FC-54 and FC-55: event loops that follow each other work; a second thread or loop at the same time is refused."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio

from andante import Admission, Concurrency, TokenBucket, WouldWait, WrongThread, guard
from andante.testing import ManualClock, Recorder, ScriptedBackend, Stream, balanced
from andante.testing import run as run_virtual


async def hold(admission: Admission, seconds: float = 0.001) -> None:
    async with admission.admit():
        await anyio.sleep(seconds)


async def crowd(admission: Admission, number: int = 10) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(number):
            group.start_soon(hold, admission)


def test_loops_that_follow_each_other() -> None:
    """FC-54: a module-level admission in three runs of asyncio, in trio, without a loop, and in asyncio again."""
    admission = Admission(Concurrency(2))
    guarded = guard(admission)(hold)
    assert guarded
    for _ in range(3):
        asyncio.run(crowd(admission))
        balanced(admission)
    trio.run(crowd, admission)
    balanced(admission)
    admission.try_enter().close()
    asyncio.run(crowd(admission))
    permits = [admission.try_enter() for _ in range(2)]
    assert admission.snapshot().done == 51
    for permit in permits:
        permit.close()


def test_the_rate_holds_across_loops() -> None:
    """FC-54: what was spent in one loop is spent in the next."""
    clock = ManualClock()
    admission = Admission(TokenBucket(1, "minute", burst=2), clock=clock)

    async def one() -> None:
        (await admission.enter()).close()

    asyncio.run(one())
    trio.run(one)
    with pytest.raises(WouldWait):
        admission.try_enter()
    clock.advance(60)
    asyncio.run(one())


def abort(admission: Admission, *, waiters: int = 3) -> list[Any]:
    """A run that is aborted with calls inside and waiting: the loop is closed over them, nothing is cancelled."""
    loop = asyncio.new_event_loop()
    kept = [loop.create_task(hold(admission, 1_000)) for _ in range(waiters + 2)]
    loop.run_until_complete(asyncio.sleep(0.001))
    assert (admission.snapshot().inside, admission.snapshot().waiting) == (2, waiters)
    for task in kept:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's complaint, which is the test's fault
    loop.close()
    return kept


@pytest.mark.parametrize("then", ["asyncio", "trio", "nothing"])
@pytest.mark.parametrize("collected", ["before", "during", "after"])
def test_a_loop_that_died_with_calls_inside(then: str, collected: str) -> None:
    """FC-54: places and waiters of a dead loop are forgotten, whenever the collector comes to their coroutines."""
    recorder = Recorder()
    admission = Admission(Concurrency(2), TokenBucket(1_000, burst=1_000), listeners=[recorder])
    kept = abort(admission)
    if collected == "before":
        kept.clear()
        gc.collect()

    async def next_run() -> None:
        await crowd(admission)
        if collected == "during":
            kept.clear()
            gc.collect()
        async with admission.admit(), admission.admit():
            assert admission.snapshot().inside == 2

    if then == "asyncio":
        asyncio.run(next_run())
    elif then == "trio":
        trio.run(next_run)
    else:
        permits = [admission.try_enter() for _ in range(2)]
        with pytest.raises(WouldWait):
            admission.try_enter()
        for permit in permits:
            permit.close()
    kept.clear()
    gc.collect()
    recorder.conserved()
    balanced(admission)


def test_a_limit_set_after_the_loop_died() -> None:
    """FC-54: with waiters of a dead loop in the line, a change of a limit is no error."""
    gate = Concurrency(2)
    admission = Admission(gate)
    kept = abort(admission)
    gate.limit = 10
    asyncio.run(crowd(admission))
    kept.clear()
    gc.collect()
    balanced(admission)


def test_a_stream_that_outlived_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    """A stream object left open by a run: the next run finds the place free; closing the old one is no error."""
    admission = Admission(Concurrency(1))
    backend = ScriptedBackend(default=Stream("ab"))
    streams: list[Any] = []

    async def first() -> None:
        streams.append(await guard(admission)(backend.call)())

    asyncio.run(first())
    asyncio.run(hold(admission))
    streams.clear()
    gc.collect()
    asyncio.run(hold(admission))
    balanced(admission)


def test_pressure_is_not_carried_to_another_clock() -> None:
    """A loop in virtual time ends at 100 s with early refusals; the next begins at 0 s, and is calm."""
    from andante import DeadlineUnreachable, ServiceClass

    admission = Admission(Concurrency(1), classes=[ServiceClass("default", max_wait=0)])

    async def first() -> None:
        await asyncio.sleep(100)
        permit = await admission.enter()
        with pytest.raises(DeadlineUnreachable):
            await asyncio.create_task(admission.enter())
        permit.close()
        assert admission.pressure == "saturated"

    async def second() -> None:
        admission.try_enter().close()
        assert admission.pressure == "calm"

    run_virtual(first)
    run_virtual(second)


# Threads. -------------------------------------------------------------------------------------------------------------


def in_thread(function: Any) -> list[BaseException | None]:
    """What `function` raised in a thread of its own."""
    raised: list[BaseException | None] = []

    def target() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("use", ["try_enter", "enter", "reconfigure", "drain"])
def test_second_thread_while_in_use(use: str) -> None:
    """FC-55: WrongThread at the first misuse, from sync code and from another loop; nothing is corrupted."""
    admission = Admission(Concurrency(5))

    def misuse() -> None:
        if use == "try_enter":
            admission.try_enter()
        elif use == "reconfigure":
            admission.reconfigure(size_bias=0)
        else:
            asyncio.run(admission.enter() if use == "enter" else admission.drain())  # type: ignore[arg-type]

    async def main() -> None:
        async with admission.admit():
            (error,) = in_thread(misuse)
            assert isinstance(error, WrongThread)
            assert "one admission" in str(error)
        assert not admission._closed
        await hold(admission)

    asyncio.run(main())
    balanced(admission)
    if use in {"try_enter", "enter"}:
        assert in_thread(lambda: admission.try_enter().close()) == [None], "free again: another thread may have it"


def test_four_threads_with_loops_of_their_own() -> None:
    """FC-55: all at once on one admission: each ends well or with WrongThread, and the books balance."""
    admission = Admission(Concurrency(2))
    errors: list[BaseException | None] = []

    def worker() -> None:
        for _ in range(20):
            try:
                asyncio.run(hold(admission, 0))
            except WrongThread as error:
                errors.append(error)

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(isinstance(error, WrongThread) for error in errors)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_limit_changed_from_another_thread(backend: str) -> None:
    """FC-55: `gate.changed` is safe from any thread: who waits starts, and listeners are told in the loop's thread."""
    gate = Concurrency(1)
    threads: set[int] = set()

    class Listener(Recorder):
        def on(self, event: Any) -> None:
            threads.add(threading.get_ident())
            super().on(event)

    listener = Listener()
    admission = Admission(gate, listeners=[listener])

    def raise_limit() -> None:
        gate.limit = 3

    async def main() -> None:
        async with admission.admit(), anyio.create_task_group() as group:
            ran: list[int] = []

            async def caller() -> None:
                permit = await admission.enter()
                ran.append(1)
                permit.close()

            from andante.permit import HELD

            token = HELD.set(None)
            group.start_soon(caller)
            group.start_soon(caller)
            HELD.reset(token)
            while admission.controller.waiting < 2:
                await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(raise_limit)
            with anyio.fail_after(5):
                while len(ran) < 2:
                    await anyio.sleep(0.001)

    anyio.run(main, backend=backend)
    assert threads == {threading.get_ident()}
    balanced(admission)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_permit_closed_in_another_thread(backend: str) -> None:
    """FC-55: a permit that is handed to a worker thread and closed there wakes who waits, in the loop's thread."""
    admission = Admission(Concurrency(1))

    async def main() -> None:
        permit = await admission.enter()
        async with anyio.create_task_group() as group:
            group.start_soon(hold, admission)
            while not admission.controller.waiting:
                await anyio.lowlevel.checkpoint()
            closer = threading.Thread(target=permit.close)
            closer.start()
            begin = time.monotonic()
            with anyio.fail_after(5):
                while admission.snapshot().done < 2:
                    await anyio.sleep(0.5)  # nothing else wakes the loop meanwhile
            assert time.monotonic() - begin < 2
            closer.join()

    anyio.run(main, backend=backend)
    balanced(admission)
