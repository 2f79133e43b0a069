"""What one item of a guarded stream pays: next to a no-op `async with`, in the same run."""

from __future__ import annotations

import asyncio
from time import thread_time
from typing import TYPE_CHECKING

from andante import guard
from benchmarks.harness import Bound, Group, Result, Size, interleave_async, less, micro, ratio
from benchmarks.overhead import admission, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from benchmarks.harness import Figures

ROWS = {
    "item": "an item of a guarded async generator",
    "item-more": "an item of a stream object in its proxy, of a generator with a deadline (extra)",
}


class Nothing:
    """An async context manager that does nothing."""

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...


class StreamObject:
    """A stream as SDKs return it."""

    def __init__(self, items: int) -> None:
        self._left = items

    def __aiter__(self) -> StreamObject:
        return self

    async def __anext__(self) -> int:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return self._left

    async def aclose(self) -> None: ...


async def generate(items: int) -> AsyncIterator[int]:
    for number in range(items):
        yield number


async def opened(items: int) -> StreamObject:
    return StreamObject(items)


def streamed(make: Callable[[int], AsyncIterator[int]], items: int) -> Callable[[], Awaitable[float]]:
    async def chunk() -> float:
        stream = make(items)
        start = thread_time()
        async for _ in stream:
            pass
        return (thread_time() - start) / items

    return chunk


def from_object(make: Callable[[int], Awaitable[AsyncIterator[int]]], items: int) -> Callable[[], Awaitable[float]]:
    async def chunk() -> float:
        stream = await make(items)
        start = thread_time()
        async for _ in stream:
            pass
        return (thread_time() - start) / items

    return chunk


def calls(times: int) -> Callable[[], Awaitable[float]]:
    async def chunk() -> float:
        start = thread_time()
        for _ in range(times):
            await work()
        return (thread_time() - start) / times

    return chunk


def calls_in_nothing(times: int) -> Callable[[], Awaitable[float]]:
    nothing = Nothing()

    async def chunk() -> float:
        start = thread_time()
        for _ in range(times):
            async with nothing:
                await work()
        return (thread_time() - start) / times

    return chunk


def measure(size: Size, wanted: Callable[[str], bool]) -> Iterable[Result]:
    figures = asyncio.run(_figures(size, more=wanted("item-more")))
    nothing = less(figures, "with", "call")
    peer = f"no-op async with {micro(nothing)}"

    def result(row: str, what: str, case: str, floor: str, bound: Bound | None = None) -> Result:
        added = less(figures, case, floor)
        least = (min(figures[case]) - min(figures[floor])) / (min(figures["with"]) - min(figures["call"]))
        return Result(row, what, micro(added), peer, ratio(added, nothing), bound=bound, by_least=least)

    if wanted("item"):
        yield result("item", "item of a guarded generator, added", "guarded", "bare", Bound(1.3))
    if wanted("item-more"):
        yield result("item-more", "item through the stream proxy, added", "proxy", "object")
        yield result("item-more", "item of a generator with a deadline, added", "deadline", "bare")


async def _figures(size: Size, *, more: bool) -> Figures:
    items = size.of(1000, 300)
    cases = {
        "call": calls(items),
        "with": calls_in_nothing(items),
        "bare": streamed(generate, items),
        "guarded": streamed(guard(admission())(generate), items),
    }
    if more:
        cases |= {
            "object": from_object(opened, items),
            "proxy": from_object(guard(admission())(opened), items),
            "deadline": streamed(guard(admission(), deadline=60.0)(generate), items),
        }
    return await interleave_async(cases, size.times(101, 9), warm_up=2)


GROUP = Group("streams", ROWS, measure)
