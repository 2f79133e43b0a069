"""Bytes per waiter beyond a task that is parked on nothing but a bare future. Counted in fresh processes."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from andante import Admission, Call, Concurrency, ServiceClass
from benchmarks.harness import Bound, Group, Result, Size, Spread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

ROWS = {
    "memory": "bytes per waiter, asyncio",
    "memory-trio": "bytes per waiter, trio",
    "memory-more": "the same with a Call and a deadline for each, and of asyncio.Semaphore (extra)",
}


def admission_job(*, own_calls: bool) -> Callable[[], Awaitable[None]]:
    """A waiter in an admission with an objective, so that its latest start is watched too."""
    admission = Admission(Concurrency(1), classes=[ServiceClass("default", ttft=600.0, max_waiting=inf)])
    held = admission.try_enter(Call())
    shared, deadline = Call(), monotonic() + 3600

    async def job() -> None:
        async with admission.admit(Call(deadline=deadline + 1.0) if own_calls else shared):
            held.close()

    return job


def on_asyncio(kind: str, tasks: int) -> int:
    """Bytes of `tasks` parked tasks."""

    async def run() -> int:
        loop = asyncio.get_running_loop()
        semaphore = asyncio.Semaphore(0)

        async def on_future() -> None:
            await loop.create_future()

        async def on_semaphore() -> None:
            async with semaphore:
                pass

        job = {"bare": on_future, "semaphore": on_semaphore}.get(kind) or admission_job(own_calls=kind == "own")
        gc.collect()
        tracemalloc.start()
        parked: list[asyncio.Task[None]] = [loop.create_task(job()) for _ in range(tasks)]  # type: ignore[arg-type]
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        for task in parked:
            task.cancel()
        await asyncio.gather(*parked, return_exceptions=True)
        return taken

    return asyncio.run(run())


def on_trio(kind: str, tasks: int) -> int:
    """The same; what corresponds to a bare future there is a task that waits to be rescheduled."""
    import trio

    async def run() -> int:
        async def on_nothing() -> None:
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)

        job = on_nothing if kind == "bare" else admission_job(own_calls=kind == "own")
        async with trio.open_nursery() as nursery:
            gc.collect()
            tracemalloc.start()
            for _ in range(tasks):
                nursery.start_soon(job)
            await trio.testing.wait_all_tasks_blocked()
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            nursery.cancel_scope.cancel()
        return taken

    import trio.testing

    return trio.run(run)


def child(loop: str, kind: str, tasks: int) -> int:
    """Bytes, counted in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", loop, kind, str(tasks)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def beyond(loop: str, kind: str, tasks: int, rounds: int) -> Spread:
    """Bytes per waiter more than on a bare future."""
    return Spread(tuple((child(loop, kind, tasks) - child(loop, "bare", tasks)) / tasks for _ in range(rounds)))


def measure(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    tasks, rounds = size.of(20_000, 2_000), size.times(3, 1)

    def result(row: str, what: str, loop: str, kind: str, bound: Bound | None = None) -> Result:
        value = beyond(loop, kind, tasks, rounds)
        return Result(row, what, f"{value.median:,.0f} B", "a bare future 0", value, "B", bound)

    if wanted("memory"):
        yield result("memory", "memory per waiter, asyncio", "asyncio", "shared", Bound(1300, aim=1000))
    if wanted("memory-trio"):
        try:
            import trio  # noqa: F401  # only to see whether it is here
        except ModuleNotFoundError:
            size.notes.append("memory-trio: trio is not installed here")
        else:
            yield result("memory-trio", "memory per waiter, trio", "trio", "shared", Bound(2500))
    if wanted("memory-more"):
        yield result("memory-more", "a Call with a deadline for each, asyncio", "asyncio", "own")
        yield result("memory-more", "asyncio.Semaphore", "asyncio", "semaphore")


GROUP = Group("memory", ROWS, measure)

if __name__ == "__main__":
    loop_name, case, number = sys.argv[1:]
    print({"asyncio": on_asyncio, "trio": on_trio}[loop_name](case, int(number)))
