"""How well a rate is held with 1,000 waiting, and what a paced grant costs."""

from __future__ import annotations

import asyncio
import importlib
from bisect import bisect_left
from itertools import pairwise
from math import inf
from statistics import median
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from aiolimiter import AsyncLimiter

from andante import Admission, Call, ServiceClass, TokenBucket
from benchmarks.harness import Bound, Group, Result, Size, Spread, by_least, interleave, ratio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

WAITERS = 1000
WINDOW = 0.010  # seconds
BURST = 1

ROWS = {
    "rate-200": "TokenBucket at 200/s, 1,000 waiting: share of the rate, first 10 ms, worst 10 ms",
    "rate-2000": "the same at 2,000/s",
    "grant": "CPU per paced grant, 1,000 queued at 10,000/s",
    "grant-more": "the same on asynciolimiter (extra)",
}


def _admission(rate: float) -> Admission:
    return Admission(TokenBucket(rate, burst=BURST), classes=[ServiceClass("default", max_waiting=inf)])


# Accuracy. ------------------------------------------------------------------------------------------------------------


async def _grants(rate: float, seconds: float) -> list[float]:
    """When grants came, in seconds since the first, with 1,000 waiting all the time."""
    admission, call = _admission(rate), Call()
    times: list[float] = []
    times_append = times.append

    async def wait_again() -> None:
        while True:
            async with admission.admit(call):
                times_append(monotonic())

    waiters = []
    for number in range(WAITERS):
        waiters.append(asyncio.ensure_future(wait_again()))
        if number % 10 == 0:
            await asyncio.sleep(0)  # in one go they would hold the loop up, and with it whoever is let in meanwhile
    await asyncio.sleep(seconds)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    return [time - times[0] for time in times]


def _accuracy(rate: float, times: list[float]) -> tuple[float, float, float, float]:
    """Share of the rate held, grants in the first 10 ms, in the worst 10 ms over their share, and the longest gap."""
    first = bisect_left(times, WINDOW)
    worst = max(bisect_left(times, time + WINDOW) - number for number, time in enumerate(times))
    gap = max(after - before for before, after in pairwise(times))
    # Between two grants there is one interval fewer than grants; the burst came at once.
    return (len(times) - BURST) / (times[-1] * rate), first, worst / (rate * WINDOW), gap


def _pacing(size: Size, rate: float, row: str) -> Iterable[Result]:
    runs = [_accuracy(rate, asyncio.run(_grants(rate, size.of(20, 5) / 10))) for _ in range(size.times(5, 1))]
    share, first, worst, gap = (Spread(tuple(column)) for column in zip(*runs, strict=True))
    most = BURST + 1 + rate * WINDOW
    own = f"{rate:,.0f}/s"
    yield Result(
        row, f"share of {own} held, {WAITERS:,} waiting", f"{share.median * rate:,.1f}/s",
        f"its own rate; longest gap {gap.median * 1e3:.1f} ms", share, bound=Bound(1.01, 0.98),
    )  # fmt: skip
    yield Result(
        row, f"grants in the first 10 ms at {own}", f"{first.median:g}", f"burst + 1 + rate x 10 ms = {most:g}",
        Spread(tuple(one / most for one in first.values)), bound=Bound(1.0),
    )  # fmt: skip
    yield Result(
        row, f"worst 10 ms at {own}", f"{worst.median * rate * WINDOW:g}", f"its share {rate * WINDOW:g}", worst,
        bound=Bound(2.5),
    )  # fmt: skip


# CPU per grant. -------------------------------------------------------------------------------------------------------


def _cpu(make: Callable[[], Callable[[], Awaitable[None]]], tasks: int) -> Callable[[], float]:
    """Seconds of CPU per grant while `tasks` queued tasks are let in; queueing them is not counted."""

    async def run() -> float:
        job = make()
        queued = [asyncio.ensure_future(job()) for _ in range(tasks)]
        await asyncio.sleep(0)
        start, before = thread_time(), sum(task.done() for task in queued)
        await asyncio.gather(*queued)
        return (thread_time() - start) / (tasks - before)

    return lambda: asyncio.run(run())


def _mine(rate: float) -> Callable[[], Callable[[], Awaitable[None]]]:
    def make() -> Callable[[], Awaitable[None]]:
        admission, call = _admission(rate), Call()

        async def job() -> None:
            async with admission.admit(call):
                pass

        return job

    return make


def _aiolimiter(rate: float) -> Callable[[], Callable[[], Awaitable[None]]]:
    def make() -> Callable[[], Awaitable[None]]:
        limiter = AsyncLimiter(BURST, BURST / rate)  # the only way to give it a rate and a burst of their own

        async def job() -> None:
            async with limiter:
                pass

        return job

    return make


def _asynciolimiter(rate: float) -> Callable[[], Callable[[], Awaitable[None]]] | None:
    try:
        asynciolimiter = importlib.import_module("asynciolimiter")
    except ModuleNotFoundError:
        return None

    def make() -> Callable[[], Awaitable[None]]:
        wait: Any = asynciolimiter.Limiter(rate).wait
        return wait  # type: ignore[no-any-return]

    return make


def _grant(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    rate, tasks = 10_000.0, size.of(1000, 300)
    makers = {"mine": _mine(rate), "aiolimiter": _aiolimiter(rate)}
    extra = _asynciolimiter(rate) if wanted("grant-more") else None
    if extra is not None:
        makers["asynciolimiter"] = extra
    elif wanted("grant-more"):
        size.notes.append("grant-more: asynciolimiter is not installed here")
    figures = interleave({name: _cpu(make, tasks) for name, make in makers.items()}, size.times(7, 2))
    mine, peer = figures["mine"], figures["aiolimiter"]
    if wanted("grant"):
        yield Result(
            "grant", f"CPU per paced grant, {tasks:,} queued at {rate:,.0f}/s", f"{median(mine) * 1e6:.1f} us",
            f"aiolimiter {median(peer) * 1e6:.1f} us", ratio(mine, peer), bound=Bound(0.4),
            by_least=by_least(figures, "mine", "aiolimiter"),
        )  # fmt: skip
    if extra is not None:
        other = figures["asynciolimiter"]
        yield Result(
            "grant-more", "the same next to asynciolimiter", f"{median(mine) * 1e6:.1f} us",
            f"asynciolimiter {median(other) * 1e6:.1f} us", ratio(mine, other),
            by_least=by_least(figures, "mine", "asynciolimiter"),
        )  # fmt: skip


def measure(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    if wanted("rate-200"):
        yield from _pacing(size, 200.0, "rate-200")
    if wanted("rate-2000"):
        yield from _pacing(size, 2000.0, "rate-2000")
    if wanted("grant") or wanted("grant-more"):
        yield from _grant(size, wanted)


GROUP = Group("pacing", ROWS, measure)
