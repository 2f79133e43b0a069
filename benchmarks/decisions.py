"""What NaturalPace costs a request of 50 tokens, all told: next to a no-op `async with`, in the same run."""

from __future__ import annotations

import asyncio
from collections import deque
from time import thread_time
from typing import TYPE_CHECKING

from andante import Call, Controller, Cost, Ending, NaturalPace, Outcome, ServiceClass, State
from benchmarks.harness import Bound, Group, Result, interleave_async, less, micro, ratio
from benchmarks.streams import calls, calls_in_nothing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from benchmarks.harness import Figures, Size

ROWS = {"pace": "a 50-token request through a controller with NaturalPace: offer, every token, leave, step"}

TOKENS = 50
STEP = 0.02  # seconds of the backend per token, in the time that the controller is told


class Backend:
    """Fifty streams inside; at each turn each gets a token, the oldest ends and another one starts: in all, what one
    request costs. No event loop, no clock."""

    def __init__(self, *, streams: bool) -> None:
        classes = [ServiceClass("chat", ttft=5.0, itl=0.5), ServiceClass("batch", e2e=600.0)]
        self.controller = Controller(NaturalPace(), classes=classes)
        self.inside: deque[object] = deque()
        self.now = 0.0
        self.streams = streams
        for _ in range(2000):
            self.turn()

    def turn(self) -> None:
        controller = self.controller
        now = self.now = self.now + STEP
        if self.streams:
            for ticket in self.inside:
                controller.progress(ticket, 1, now)  # type: ignore[arg-type]
        if len(self.inside) >= TOKENS:
            used = Cost(input_tokens=200, output_tokens=TOKENS)
            controller.leave(self.inside.popleft(), Outcome(Ending.DONE, cost=used), now)  # type: ignore[arg-type]
        controller.step(now)
        ticket = controller.offer(Call(Cost(input_tokens=200, output_tokens=100), service="chat"), now)
        if ticket.state is State.ADMITTED:
            self.inside.append(ticket)
        elif ticket.state is State.WAITING:
            controller.withdraw(ticket, now)


def requests(backend: Backend, times: int) -> Callable[[], Awaitable[float]]:
    async def chunk() -> float:
        start = thread_time()
        for _ in range(times):
            backend.turn()
        return (thread_time() - start) / times

    return chunk


def measure(size: Size, _: Callable[[str], bool]) -> Iterable[Result]:
    figures = asyncio.run(_figures(size))
    nothing = less(figures, "with", "call")
    peer = f"no-op async with {micro(nothing)}"
    for case, what, bound in (("streams", "50-token request, streamed", Bound(110)), ("whole", "request, whole", None)):
        cost = figures[case]
        yield Result("pace", what, micro(cost), peer, ratio(cost, nothing), bound=bound)


async def _figures(size: Size) -> Figures:
    times = size.of(200, 20)
    cases = {
        "call": calls(1000),
        "with": calls_in_nothing(1000),
        "streams": requests(Backend(streams=True), times),
        "whole": requests(Backend(streams=False), times),
    }
    return await interleave_async(cases, size.times(51, 5), warm_up=2)


GROUP = Group("decisions", ROWS, measure)
