"""Waking: the one place where the library meets an event loop. Bare futures on asyncio, events elsewhere.

A *host* is one event loop as an admission sees it: it parks a permit until `wake`, keeps at most one alarm, and takes
calls from other threads. On asyncio the alarm is a timer of the loop. Elsewhere one of the parked waiters sleeps for
all and hands the role on when it is granted *and* when it is cancelled; forgetting either would hang the line.
"""

from __future__ import annotations

import sys
import threading
from asyncio import AbstractEventLoop, Future, TimerHandle, _get_running_loop
from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from andante.clock import current_clock
from andante.ticket import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from andante.clock import Clock

_WAITING = State.WAITING

SHORTEST = 0.001  # seconds: some loops round shorter timers down to nothing and spin


class Parked(Protocol):
    """What can be parked: it waits while its state is WAITING."""

    @property
    def state(self) -> State: ...

    waiter: Any


class Host(Protocol):
    """One event loop, or the absence of one."""

    here: object
    clock: Clock
    at: float
    """When the alarm rings, absolute; inf: never."""

    def alive(self) -> bool:
        """Whether what is parked here can ever resume."""

    def park(self, parked: Parked) -> Awaitable[None]:
        """What ends soon after `wake(parked)`."""

    def wake(self, parked: Parked) -> None: ...

    def alarm(self, at: float, now: float) -> None:
        """Call `look` at `at` (absolute; inf: never). Replaces the alarm before."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run `function` in the loop's thread, from any thread."""


def running() -> object:
    """What identifies the running event loop: the asyncio loop, trio's token, or the thread where there is none."""
    loop = _get_running_loop()
    if loop is not None:
        return loop
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return trio.lowlevel.current_trio_token()
        except RuntimeError:
            pass
    return threading.get_ident()


def host(look: Callable[[], None], clock: Clock | None = None) -> Host:
    """The host for where we are. `look` is what the alarm calls; `clock` replaces the host's own."""
    here, clock = running(), clock or current_clock()
    if isinstance(here, AbstractEventLoop):
        return AsyncioHost(here, clock, look)
    if isinstance(here, int):
        return NoHost(here, clock)
    return EventHost(here, clock, look)


class AsyncioHost:
    """A future per waiter, one timer."""

    def __init__(self, loop: AbstractEventLoop, clock: Clock, look: Callable[[], None]) -> None:
        self.here: object = loop
        self.clock = clock
        self._loop = loop
        self._look = look
        self._timer: TimerHandle | None = None
        self.at = inf

    def alive(self) -> bool:
        return not self._loop.is_closed()

    def park(self, parked: Parked) -> Future[None]:
        future: Future[None] = self._loop.create_future()
        parked.waiter = future
        return future

    def wake(self, parked: Parked) -> None:
        future: Future[None] | None = parked.waiter
        if future is not None and not future.done():
            try:
                future.set_result(None)
            except RuntimeError:
                pass  # the loop was closed under those who waited; nobody is there to be woken

    def alarm(self, at: float, now: float) -> None:
        timer = self._timer
        if timer is not None:
            if self.at <= at < inf:
                return  # it rings early enough; the look then sets the next one
            timer.cancel()
            self._timer = None
            self.at = inf
        if at < inf and not self._loop.is_closed():
            self.at = at
            self._timer = self._loop.call_later(max(SHORTEST, at - now), self._ring)

    def call_soon(self, function: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _ring(self) -> None:
        self._timer = None
        self.at = inf
        self._look()


class EventHost:
    """An event per waiter; the first of them sleeps until the alarm, for all."""

    def __init__(self, token: Any, clock: Clock, look: Callable[[], None]) -> None:
        self.here: object = token
        self.clock = clock
        self._token = token
        self._look = look
        # trio's own event: anyio's around it is an object and a coroutine more for each who waits.
        self._event: Callable[[], Any] = sys.modules["trio"].Event
        self.at = inf
        self._asleep_until = inf
        self._sleeper: Parked | None = None
        # Ordered: a plain dict finds its first key ever more slowly while keys are taken out at its front.
        self._parked: OrderedDict[Parked, None] = OrderedDict()

    def alive(self) -> bool:
        try:
            self._token.run_sync_soon(_nothing)
        except RuntimeError:  # trio.RunFinishedError
            return False
        return True

    async def park(self, parked: Parked) -> None:
        parked.waiter = self._event()
        self._parked[parked] = None
        try:
            while parked.state is _WAITING:
                if self._sleeper is None or self._sleeper is parked:
                    self._sleeper = parked
                    await self._sleep(parked)
                else:
                    await parked.waiter.wait()
                if parked.state is _WAITING and parked.waiter.is_set():
                    parked.waiter = self._event()
        finally:
            del self._parked[parked]
            if self._sleeper is parked:
                self._sleeper = None
            if self._sleeper is None and self._parked:
                next(iter(self._parked)).waiter.set()

    async def _sleep(self, parked: Parked) -> None:
        self._asleep_until = self.at
        with anyio.move_on_after(max(SHORTEST, self.at - self.clock())):
            await parked.waiter.wait()
            return
        self.at = inf
        self._look()

    def wake(self, parked: Parked) -> None:
        if parked.waiter is not None:
            parked.waiter.set()

    def alarm(self, at: float, now: float) -> None:
        self.at = at
        if self._sleeper is not None and at < self._asleep_until:
            self._sleeper.waiter.set()  # it must not oversleep

    def call_soon(self, function: Callable[[], None]) -> None:
        self._token.run_sync_soon(function)


class NoHost:
    """No event loop: calls may be tried (`try_enter`), but nobody can wait."""

    def __init__(self, thread: int, clock: Clock) -> None:
        self.here: object = thread
        self.clock = clock
        self.at = inf

    def alive(self) -> bool:
        return True

    async def park(self, parked: Parked) -> None:
        raise RuntimeError("waiting for an admission needs a running event loop (asyncio or trio)")

    def wake(self, parked: Parked) -> None:
        pass

    def alarm(self, at: float, now: float) -> None:
        pass

    def call_soon(self, function: Callable[[], None]) -> None:
        function()


def _nothing() -> None:
    pass
