"""CoDel with newest first: the queue discipline of services that answer in milliseconds, as a comparator."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError, Shed
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from andante.simulate.policies import Policy, Way
    from andante.simulate.workload import Request


def codel_lifo(places: int, *, target: float = 0.25, interval: float = 1.0) -> Policy:
    """`places` at once and a queue that is oldest first while it is calm, newest first and shedding while it is not.

    The queue is *overloaded* while the least wait seen in the last `interval` is above `target` (Nichols, Jacobson:
    Controlling Delay, 2012). While it is overloaded the newest goes first and whoever has waited for more than
    2 * `target` is refused (B. Maurer: Fail at Scale, 2015; folly's Codel). Those services use 5 ms and 100 ms; calls
    here take seconds, so the defaults are 50 and 10 times as long. It knows no classes.

    Args:
        places: calls at once, 1 or more.
        target: seconds that a queue may stand.
        interval: seconds over which the least wait is taken.

    Raises ConfigurationError for a number that makes no sense.
    """
    if isinstance(places, bool) or not isinstance(places, int) or places < 1:
        raise ConfigurationError(f"places must be a whole number above 0, not {places!r}", path="places")
    for name, value in (("target", target), ("interval", interval)):
        if not is_number(value) or not 0 < value < inf:
            raise ConfigurationError(f"{name} must be a finite number of seconds above 0, not {value!r}", path=name)

    def make() -> Way:
        return _Queue(places, target, interval).enter

    return make


class _Queue:
    """Who is inside, who waits since when, and the least wait of this interval and the one before."""

    def __init__(self, places: int, target: float, interval: float) -> None:
        self._free = places
        self._target = target
        self._interval = interval
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._overloaded = False
        self._least = inf
        self._ends = 0.0
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def enter(self, request: Request) -> AsyncIterator[None]:
        now = self._loop.time()
        if self._free and not self._waiting:
            self._free -= 1
            self._waited(0.0, now)
        else:
            await self._wait(now)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, now: float) -> None:
        granted = self._loop.create_future()
        self._waiting.append((now, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._leave()  # granted, and gone before it could use it
            raise

    def _leave(self) -> None:
        now = self._loop.time()
        self._free += 1
        if self._overloaded:
            self._shed(now)
        while self._free and self._waiting:
            since, granted = self._waiting.pop() if self._overloaded else self._waiting.popleft()
            if granted.done():  # its client left
                continue
            self._waited(now - since, now)
            self._free -= 1
            granted.set_result(None)

    def _shed(self, now: float) -> None:
        while self._waiting and now - self._waiting[0][0] > 2 * self._target:
            _, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_exception(Shed(f"waited for more than {2 * self._target:g} s", gate="codel"))

    def _waited(self, seconds: float, now: float) -> None:
        self._least = min(self._least, seconds)
        if now >= self._ends:
            self._overloaded = self._least > self._target
            self._least, self._ends = inf, now + self._interval
