"""Many tasks and few places: 10,000 through 100, and 100,000 parked. The peer is asyncio.Semaphore."""

from __future__ import annotations

import asyncio
import gc
from math import inf
from statistics import median
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from andante import Admission, Call, Concurrency, ServiceClass, guard
from benchmarks.harness import Bound, Group, Result, Size, by_least, interleave, less, ratio, turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

PHASES = ("park", "drain", "cancel")

ROWS = {
    "through": "10,000 tasks through 100 places, classes and deadlines on",
    "through-more": "the same by guard, and without classes or deadlines (extra)",
    "parked": "100,000 parked: park, drain, cancel all",
    "linear": "100,000 parked next to 10,000",
    "linear-more": "the same of asyncio.Semaphore, and without the garbage collector, which is not linear (extra)",
}


def classes() -> tuple[ServiceClass, ...]:
    """Three, with objectives that nobody misses here."""
    return tuple(ServiceClass(name, ttft=600.0 * rank, max_waiting=inf) for rank, name in enumerate("abc", 1))


def planned_calls(number: int) -> list[Call]:
    """Calls of the three classes in turn, each with a deadline of its own."""
    now = monotonic()
    return [Call(service="abc"[one % 3], deadline=now + 3600 + one * 1e-3) for one in range(number)]


# 10,000 through 100. --------------------------------------------------------------------------------------------------


def through(make: Callable[[int], list[Callable[[], Awaitable[None]]]], tasks: int) -> Callable[[], float]:
    """Seconds of CPU per run of `tasks` tasks."""

    async def run() -> float:
        jobs = make(tasks)
        start = thread_time()
        await asyncio.gather(*(job() for job in jobs))
        return thread_time() - start

    return lambda: asyncio.run(run())


def no_gate(tasks: int) -> list[Callable[[], Awaitable[None]]]:
    async def job() -> None:
        await asyncio.sleep(0)

    return [job] * tasks


def by_semaphore(tasks: int) -> list[Callable[[], Awaitable[None]]]:
    semaphore = asyncio.Semaphore(100)

    async def job() -> None:
        async with semaphore:
            await asyncio.sleep(0)

    return [job] * tasks


def by_admission(tasks: int) -> list[Callable[[], Awaitable[None]]]:
    admission = Admission(Concurrency(100), classes=classes())

    def job_of(call: Call) -> Callable[[], Awaitable[None]]:
        async def job() -> None:
            async with admission.admit(call):
                await asyncio.sleep(0)

        return job

    return [job_of(call) for call in planned_calls(tasks)]


def by_plain_admission(tasks: int) -> list[Callable[[], Awaitable[None]]]:
    admission = Admission(Concurrency(100), classes=(ServiceClass("default", max_waiting=inf),))
    call = Call()

    async def job() -> None:
        async with admission.admit(call):
            await asyncio.sleep(0)

    return [job] * tasks


def by_guard(tasks: int) -> list[Callable[[], Awaitable[None]]]:
    admission = Admission(Concurrency(100), classes=classes())

    @guard(admission, service=lambda number: "abc"[number % 3])
    async def guarded(_: int) -> None:
        await asyncio.sleep(0)

    def job_of(number: int) -> Callable[[], Awaitable[None]]:
        return lambda: guarded(number)

    return [job_of(number) for number in range(tasks)]


def _through(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    tasks = size.of(10_000, 2_000)
    makers = {"none": no_gate, "semaphore": by_semaphore, "admission": by_admission}
    if wanted("through-more"):
        makers |= {"guard": by_guard, "plain": by_plain_admission}
    figures = interleave({name: through(make, tasks) for name, make in makers.items()}, size.times(11))
    peer = less(figures, "semaphore", "none")
    of_peer = f"asyncio.Semaphore {median(peer) / tasks * 1e6:.2f} us"
    for row, case, what, bound in (
        ("through", "admission", "through 100 places, added per task", Bound(2.0, aim=1.3)),
        ("through-more", "guard", "the same by guard, no call deadline", None),
        ("through-more", "plain", "the same, one class, no objective or deadline", None),
    ):
        if case in figures and wanted(row):
            added = less(figures, case, "none")
            yield Result(
                row, f"{tasks:,} {what}", f"{median(added) / tasks * 1e6:.2f} us", of_peer, ratio(added, peer),
                bound=bound, by_least=by_least(figures, case, "semaphore", "none"),
            )  # fmt: skip


# 100,000 parked. ------------------------------------------------------------------------------------------------------


async def _park(job: Callable[[int], Awaitable[None]], tasks: int) -> tuple[list[asyncio.Task[None]], float]:
    """All tasks, parked, and the seconds it took."""
    start = thread_time()
    parked = [asyncio.ensure_future(job(number)) for number in range(tasks)]
    for _ in range(3):
        await asyncio.sleep(0)
    return parked, thread_time() - start


async def _phases(job: Callable[[int], Awaitable[None]], release: Callable[[], None], tasks: int) -> list[float]:
    """Seconds to cancel all (of a first crowd), to park the second, and to drain it after `release`."""
    first, _ = await _park(job, tasks)
    start = thread_time()
    for task in first:
        task.cancel()
    await asyncio.gather(*first, return_exceptions=True)
    cancel = thread_time() - start
    assert all(task.cancelled() for task in first)
    del first
    gc.collect()
    second, park = await _park(job, tasks)
    assert not any(task.done() for task in second)
    start = thread_time()
    release()
    await asyncio.gather(*second)
    return [park, thread_time() - start, cancel]


def semaphore_phases(tasks: int) -> list[float]:
    async def run() -> list[float]:
        semaphore = asyncio.Semaphore(1)
        await semaphore.acquire()

        async def job(_: int) -> None:
            async with semaphore:
                pass

        return await _phases(job, semaphore.release, tasks)

    return asyncio.run(run())


def admission_phases(tasks: int) -> list[float]:
    async def run() -> list[float]:
        admission = Admission(Concurrency(1), classes=classes())
        holder = admission.try_enter(Call(service="a"))
        calls = planned_calls(tasks)

        async def job(number: int) -> None:
            async with admission.admit(calls[number]):
                pass

        return await _phases(job, holder.close, tasks)

    return asyncio.run(run())


def _parked(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    many, few = size.of(100_000, 5_000), size.of(10_000, 500)
    again = size.of(3, 1)  # small crowds are measured more often: they are soon done, and noisier
    cases: dict[str, Callable[[], list[float]]] = {
        "peer": lambda: semaphore_phases(many),
        "mine": lambda: admission_phases(many),
        "few": lambda: _mean([admission_phases(few) for _ in range(again)]),
    }
    if wanted("linear-more"):
        cases |= {
            "peer few": lambda: _mean([semaphore_phases(few) for _ in range(again)]),
            "uncollected": lambda: _uncollected(lambda: admission_phases(many)),
            "uncollected few": lambda: _uncollected(lambda: _mean([admission_phases(few) for _ in range(again)])),
        }
    figures: dict[str, list[list[float]]] = {name: [] for name in cases}
    for name in turns(list(cases), size.times(3, 1)):
        gc.collect()
        figures[name].append(cases[name]())
    for phase, what in enumerate(PHASES):
        taken = {name: [one[phase] for one in runs] for name, runs in figures.items()}

        def result(row: str, how: str, mine: str, peer: str, label: str, bound: float | None = None) -> Result:
            one, other = taken[mine], taken[peer]  # noqa: B023  # called in this turn of the loop only
            return Result(
                row, f"{many:,} parked: {what}{how}", f"{median(one):.2f} s", f"{label} {median(other):.3f} s",  # noqa: B023
                ratio(one, other), bound=None if bound is None else Bound(bound), by_least=min(one) / min(other),
            )  # fmt: skip

        yield result("parked", "", "mine", "peer", "asyncio.Semaphore", 2.0)
        yield result("linear", "", "mine", "few", f"{few:,} parked", 13.0)
        if wanted("linear-more"):
            yield result("linear-more", ", asyncio.Semaphore", "peer", "peer few", f"{few:,} parked")
            yield result("linear-more", ", collector off", "uncollected", "uncollected few", f"{few:,} parked")


def _uncollected(run: Callable[[], list[float]]) -> list[float]:
    gc.disable()
    try:
        return run()
    finally:
        gc.enable()


def _mean(runs: list[list[float]]) -> list[float]:
    return [sum(column) / len(runs) for column in zip(*runs, strict=True)]


def measure(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    if wanted("through") or wanted("through-more"):
        yield from _through(size, wanted)
    if wanted("parked") or wanted("linear") or wanted("linear-more"):
        yield from _parked(size, wanted)


GROUP = Group("contention", ROWS, measure)
