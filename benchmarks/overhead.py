"""What one call pays when nothing waits: `guard` and `admit` next to aiolimiter and asyncio.Semaphore nested."""

from __future__ import annotations

import asyncio
import importlib
from time import thread_time
from typing import TYPE_CHECKING, Any

from aiolimiter import AsyncLimiter

from andante import Admission, Call, Concurrency, TokenBucket, guard
from benchmarks.harness import Bound, Group, Result, Size, by_least, interleave_async, less, micro, ratio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from benchmarks.harness import Figures

RATE = 1e9  # a second, with a burst as large: nobody ever waits
PLACES = 1000
FIRST_BOUND = 1.4

ROWS = {
    "call": "a guarded call, nothing waiting, no listener",
    "admit": "the same by async with admission.admit(...)",
    "prometheus": "the same with the Prometheus listener",
    "call-more": "guarded calls with a deadline, a cost function, peers written inline (extra)",
    "call-uvloop": "a guarded call on uvloop (extra)",
    "call-trio": "a guarded call on trio, next to trio's Semaphore (extra)",
}


async def work() -> None:
    """The call itself."""


def admission(**settings: Any) -> Admission:
    return Admission(TokenBucket(RATE, burst=RATE), Concurrency(PLACES), **settings)


def guarded() -> Callable[[], Awaitable[None]]:
    return guard(admission())(work)


def guarded_with_prometheus() -> Callable[[], Awaitable[None]]:
    from prometheus_client import CollectorRegistry

    from andante.telemetry.prometheus import PrometheusListener

    return guard(admission(listeners=[PrometheusListener(CollectorRegistry())]))(work)


def admitted() -> Callable[[], Awaitable[None]]:
    mine, call = admission(), Call()

    async def inside() -> None:
        async with mine.admit(call):
            await work()

    return inside


def nested_peers() -> Callable[[], Awaitable[None]]:
    limiter, semaphore = AsyncLimiter(RATE, 1), asyncio.Semaphore(PLACES)

    async def inside() -> None:
        async with limiter, semaphore:
            await work()

    return inside


def chunk_of(call: Callable[[], Awaitable[None]], calls: int) -> Callable[[], Awaitable[float]]:
    async def chunk() -> float:
        start = thread_time()
        for _ in range(calls):
            await call()
        return (thread_time() - start) / calls

    return chunk


def inline_peers(calls: int) -> Callable[[], Awaitable[float]]:
    """The peers without a function of their own around the call: a Python frame less."""
    limiter, semaphore = AsyncLimiter(RATE, 1), asyncio.Semaphore(PLACES)

    async def chunk() -> float:
        start = thread_time()
        for _ in range(calls):
            async with limiter, semaphore:
                await work()
        return (thread_time() - start) / calls

    return chunk


async def on_asyncio(size: Size, names: set[str]) -> Figures:
    calls = size.of(1000, 300)
    makers: dict[str, Callable[[], Callable[[], Awaitable[None]]]] = {
        "bare": lambda: work,
        "peers": nested_peers,
        "guard": guarded,
        "admit": admitted,
        "prometheus": guarded_with_prometheus,
        "deadline": lambda: guard(admission(), deadline=60.0)(work),
        "cost": lambda: guard(admission(), cost=lambda: COST)(work),
    }
    cases = {name: chunk_of(make(), calls) for name, make in makers.items() if name in names}
    if "inline" in names:
        cases["inline"] = inline_peers(calls)
    return await interleave_async(cases, size.times(151, 9), warm_up=2)


COST = Call().cost


def measure(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    names = {"bare", "peers", "guard"}
    names |= {"admit"} if wanted("admit") else set()
    names |= {"prometheus"} if wanted("prometheus") else set()
    names |= {"deadline", "cost", "inline"} if wanted("call-more") else set()
    if wanted("call") or len(names) > 3:
        yield from _asyncio_results(asyncio.run(on_asyncio(size, names)))
    if wanted("call-uvloop"):
        yield from _on_uvloop(size)
    if wanted("call-trio"):
        yield from _on_trio(size)


def _asyncio_results(figures: Figures) -> Iterable[Result]:
    mine, peers = less(figures, "guard", "bare"), less(figures, "peers", "bare")
    nested = f"aiolimiter + Semaphore {micro(peers)}"
    yield Result(
        "call", "guarded call, added", micro(mine), nested, ratio(mine, peers),
        bound=Bound(FIRST_BOUND, aim=1), by_least=by_least(figures, "guard", "peers", "bare"),
    )  # fmt: skip
    if "admit" in figures:
        added = less(figures, "admit", "bare")
        yield Result(
            "admit", "async with admit(), added", micro(added), f"guarded call {micro(mine)}", ratio(added, mine),
            bound=Bound(1.4), by_least=by_least(figures, "admit", "guard", "bare"),
        )  # fmt: skip
    if "prometheus" in figures:
        added = less(figures, "prometheus", "bare")
        yield Result(
            "prometheus", "guarded, Prometheus listening, added", micro(added),
            f"{FIRST_BOUND:g} x the peers of row call", ratio(added, peers, FIRST_BOUND),
            bound=Bound(2.5), by_least=by_least(figures, "prometheus", "peers", "bare", FIRST_BOUND),
        )  # fmt: skip
    for case, what in (
        ("deadline", "guarded with a deadline, added"),
        ("cost", "guarded with a cost function, added"),
        ("inline", "the peers written inline, added"),
    ):
        if case in figures:
            added = less(figures, case, "bare")
            yield Result(
                "call-more", what, micro(added), nested, ratio(added, peers),
                by_least=by_least(figures, case, "peers", "bare"),
            )  # fmt: skip


def _on_uvloop(size: Size) -> Iterable[Result]:
    try:
        uvloop = importlib.import_module("uvloop")
    except ModuleNotFoundError:
        size.notes.append("call-uvloop: uvloop is not installed here")
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(on_asyncio(size, {"bare", "peers", "guard"}))
    mine, peers = less(figures, "guard", "bare"), less(figures, "peers", "bare")
    yield Result(
        "call-uvloop", "guarded call on uvloop, added", micro(mine), f"aiolimiter + Semaphore {micro(peers)}",
        ratio(mine, peers), by_least=by_least(figures, "guard", "peers", "bare"),
    )  # fmt: skip


def _on_trio(size: Size) -> Iterable[Result]:
    try:
        import trio
    except ModuleNotFoundError:
        size.notes.append("call-trio: trio is not installed here")
        return

    async def run() -> Figures:
        semaphore = trio.Semaphore(PLACES)

        async def limited() -> None:
            async with semaphore:
                await work()

        calls = size.of(1000, 300)
        cases = {"bare": work, "peers": limited, "guard": guarded()}
        return await interleave_async(
            {name: chunk_of(call, calls) for name, call in cases.items()}, size.times(31, 5), warm_up=2
        )

    figures = trio.run(run)
    mine, peers = less(figures, "guard", "bare"), less(figures, "peers", "bare")
    yield Result(
        "call-trio", "guarded call on trio, added", micro(mine), f"trio.Semaphore alone {micro(peers)}",
        ratio(mine, peers), by_least=by_least(figures, "guard", "peers", "bare"),
    )  # fmt: skip


GROUP = Group("overhead", ROWS, measure)
