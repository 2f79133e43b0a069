"""Virtual time: on asyncio an event loop whose selector jumps instead of waiting, on trio its own `MockClock`."""

from __future__ import annotations

import asyncio
import selectors
from contextlib import contextmanager
from heapq import heappush
from inspect import iscoroutine
from itertools import count
from math import inf, isfinite, nextafter, ulp
from threading import active_count
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from andante.errors import AndanteError, ConfigurationError
from andante.testing.outside import Outside, waiting_tasks
from andante.values import Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from concurrent.futures import Executor
    from contextvars import Context

T = TypeVar("T")
Args = TypeVarTuple("Args")

_NAP = 0.02  # real seconds: how often to look whether there is still something real to wait for


class DeadlockError(AndanteError, RuntimeError):
    """Virtual time cannot pass: no timer is set, nothing is ready, and nothing from outside can come any more.

    On the real clock the program would hang for ever. The message names every waiting task and where it waits.
    """


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on which time passes only by jumping to the next timer, and passes at once.

    `loop.time()` begins at `start` and moves to exactly the time of a timer, never a rounding error beside it; timers
    of the same instant run in the order in which they were set. All code that takes its time from the event loop
    follows: `asyncio.sleep`, `asyncio.timeout`, anyio's cancel scopes, andante's admissions. `time.monotonic` does not.

    The class is its own loop factory: `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    What is real stays real, and time waits for it:

    - A job in an executor (`asyncio.to_thread`, `loop.run_in_executor`) or in anyio's worker threads: time stands
      still while it runs, except that a timer due in t seconds fires after t seconds of real waiting. Under `hold()`
      time does the same.
    - Open sockets, pipes and threads started since the loop was made: before every jump they get `grace` real seconds
      to say something. Sockets between tasks of the same process need no more; for a server elsewhere raise `grace`.
    - Nothing is scheduled and nothing of this kind is there: `DeadlockError`, at once. With open sockets or threads
      only after `patience` real seconds of silence.

    Args:
        start: the time at which the loop begins, in seconds.
        grace: real seconds that sockets and threads get before a jump.
        patience: real seconds of silence, while no timer is set, that are taken for a deadlock; `math.inf` for never.

    Raises:
        ConfigurationError: a parameter is not a number of seconds, or `start` is not finite.
    """

    def __init__(self, *, start: Seconds = 0.0, grace: Seconds = 0.02, patience: Seconds = 10.0) -> None:
        self._selects = _JumpingSelector()
        super().__init__(self._selects)
        self._selects.loop = self
        self._held = 0
        self._order = count()
        self._outside = Outside()
        try:
            self._now = seconds(start, "start")
            if not isfinite(self._now):
                raise ConfigurationError(f"start must be finite, not {start!r}", path="start")
            self._grace = seconds(grace, "grace")
            self._patience = seconds(patience, "patience")
        except ConfigurationError:
            self.close()  # asyncio complains about loops that are forgotten open
            raise
        # asyncio runs timers up to one clock resolution early; with one step of the float it runs none early, and
        # still runs those that are due exactly now.
        self._clock_resolution = ulp(self._now)

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._now

    virtual_clock = time
    """The clock of this loop; its presence is how andante knows that time is virtual here."""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While this is open, time passes as if a job ran in an executor: for real work that the loop cannot see."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    # What asyncio asks of a loop. -----------------------------------------------------------------------------------

    def call_later(  # type: ignore[override]  # typeshed says it with a ParamSpec-like tuple
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self._set(self.time() + delay, callback, args, context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, but a time that is not to come yet is the next that the clock can tell.

        aiolimiter counts on a clock that moves: an atom short of its capacity, it sets a timer by less than the clock
        can tell, and on a clock that stands still would do so for ever.
        """
        if when is None:
            raise TypeError("when cannot be None")
        return self._set(max(when, nextafter(self.time(), inf)), callback, args, context)

    def _set(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        """Timers of the same instant keep their order: asyncio's heap does not."""
        self._check_closed()  # type: ignore[attr-defined]
        if self._debug:  # type: ignore[attr-defined]
            self._check_thread()  # type: ignore[attr-defined]
            self._check_callback(callback, "call_at")  # type: ignore[attr-defined]
        timer = _Timer(when, callback, args, self, context)
        timer.order = next(self._order)
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args) -> asyncio.Future[T]:
        """As asyncio's; time stands still until the job is done or nobody waits for it any more."""
        with self._outside.recruiting():
            job: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._held += 1
        job.add_done_callback(self._job_done)
        return job

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._held -= 1

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """As asyncio's; its time-out does not jump."""
        with self.hold():
            await super().shutdown_default_executor(*args, **kwargs)

    # How time passes. -----------------------------------------------------------------------------------------------

    def _next_timer(self) -> float:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0]._when if scheduled else inf

    def _real_wait(self, sockets: bool) -> float:
        """How many real seconds what comes from outside gets before time passes."""
        until = self._next_timer() - self._now
        if self._held:
            return until
        busy, strange = self._outside.threads()
        if busy:
            return until
        if until == inf:
            return self._patience if sockets or strange or self._outside.elsewhere() else 0.0
        return min(until, self._grace) if sockets or strange else 0.0

    def _jump(self, waited: float) -> None:
        """Time passes: to the next timer, whose exact time it takes."""
        when = self._next_timer()
        if when == inf:
            raise DeadlockError(_deadlock(self, waited))
        if when > self._now:
            self._now = float(when)
            self._clock_resolution = ulp(when)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed() else "running" if self.is_running() else "idle"
        return f"<{type(self).__name__} {state} at {self._now:g} s>"


class _Timer(asyncio.TimerHandle):
    """A timer that knows how many were set before it."""

    __slots__ = ("order",)
    order: int

    def __lt__(self, other: _Timer) -> bool:  # type: ignore[override]
        mine, its = self._when, other._when  # type: ignore[attr-defined]
        return mine < its or (mine == its and self.order < other.order)


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, it is there already. Real input and output always come first."""

    loop: VirtualTimeLoop

    def __init__(self) -> None:
        super().__init__()
        self._files = -1  # the one that wakes the loop is always there, and does not count
        self._skipped = 0

    def register(self, *args: Any, **kwargs: Any) -> selectors.SelectorKey:
        key = super().register(*args, **kwargs)
        self._files += 1
        return key

    def unregister(self, *args: Any, **kwargs: Any) -> selectors.SelectorKey:
        key = super().unregister(*args, **kwargs)
        self._files -= 1
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self.loop
        if timeout is not None and timeout <= 0:
            # There is work. Without sockets only signals can come here; what other threads want stands in line already.
            self._skipped += 1
            return super().select(0) if self._files or not self._skipped % 16 else []
        if self._files or loop._held or active_count() > 1:
            return self._wait_for_others()
        ready = super().select(0)
        if not ready:
            loop._jump(0.0)
        return ready

    def _wait_for_others(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Time passes only when those outside have nothing to say."""
        waited = 0.0
        while True:
            # First ask, then look: a thread may speak and be gone in between. In naps, since threads go idle unheard.
            left = self.loop._real_wait(bool(self._files)) - waited
            nap = min(left, _NAP) if left > 0 else 0.0
            ready = super().select(nap)
            if ready:
                return ready
            if left <= 0:
                self.loop._jump(waited)
                return ready
            waited += nap


def _deadlock(loop: VirtualTimeLoop, waited: float) -> str:
    silence = f" Open sockets and other threads said nothing for {waited:g} real seconds." if waited else ""
    tasks = waiting_tasks(loop)
    who = "\n".join(("These tasks wait for ever:", *tasks)) if tasks else "No task is left that could end it."
    return f"virtual time stands at {loop.time():g} s and cannot pass: no timer is set.{silence} {who}"


def run(
    main: Callable[[*Args], Awaitable[T]] | Coroutine[Any, Any, T],
    *args: *Args,
    start: Seconds = 0.0,
    debug: bool | None = None,
) -> T:
    """Run `main` (an async function with its arguments, or a coroutine) in virtual time and return its result.

    Like `asyncio.run`: at the end it cancels the tasks that are left, closes async generators and the executor, and
    closes the loop.

    Args:
        main: what to run.
        args: its arguments, where it is a function.
        start: the time at which the loop begins, in seconds.
        debug: asyncio's debug mode.

    Raises:
        ConfigurationError: `main` is neither, or a coroutine that was given arguments.
        DeadlockError: everything waits, and nothing can happen any more.
    """
    if iscoroutine(main):
        if args:
            main.close()
            raise ConfigurationError(f"main is a coroutine already, so it takes no arguments: {args!r}", path="main")
    elif not callable(main):
        raise ConfigurationError(f"main must be an async function or a coroutine, not {main!r}", path="main")

    async def _main() -> T:
        if iscoroutine(main):
            return await main  # type: ignore[no-any-return]
        return await main(*args)

    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(start=start), debug=debug) as runner:
        return runner.run(_main())


def virtual_backend(name: str) -> tuple[str, dict[str, Any]]:
    """What an `anyio_backend` fixture returns to run on `name` in virtual time.

    The options are also those of the loops' own entrances: `asyncio.Runner(**options)`, `trio.run(main, **options)`.

    Args:
        name: `"asyncio"`, or `"trio"` (which has to be installed).

    Returns:
        the name and the backend's options; on trio with a clock of its own that begins at 0.

    Raises:
        ConfigurationError: another name, or trio is not installed.
    """
    if name == "asyncio":
        return "asyncio", {"loop_factory": VirtualTimeLoop}
    if name != "trio":
        raise ConfigurationError(f"name must be 'asyncio' or 'trio', not {name!r}", path="name")
    try:
        from trio.testing import MockClock
    except ImportError as missing:
        raise ConfigurationError("virtual time on trio needs trio: install andante[trio]", path="name") from missing
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def virtual_backends() -> list[tuple[str, dict[str, Any]]]:
    """`virtual_backend` for asyncio and for trio, in this order: one test, both event loops."""
    return [virtual_backend("asyncio"), virtual_backend("trio")]
