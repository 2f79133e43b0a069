"""A scripted backend: a provider inside the process that does as it is told and remembers what came of every call."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

from andante.clock import Clock, current_clock
from andante.errors import ConfigurationError
from andante.testing.script import Answer, Reader, Script, Step, Stream
from andante.testing.stream import END, Ended, Play, ServedCall, StreamManager
from andante.values import Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

_OK = Answer()


class ScriptedBackend:
    """A backend that follows a script. It can be called in every form that model clients have:

    - `await backend(...)` or `await backend.call(...)`: a coroutine function. A `Stream` step gives a `ScriptedStream`.
    - `async for item in backend.generate(...)`: an async generator function.
    - `async with backend.stream(...) as stream`: an async context manager around a `ScriptedStream`.

    It works on asyncio and on trio; every call and every item yields to the event loop at least once.

    Args:
        script: steps (`Answer`, `Fail`, `Stall`, `Stream`), one for each call in order of arrival; or a function that
            is given the `ServedCall` and returns its step, and may look at `backend.inside` (the call counts already).
        default: the step for every call after the script's end.
        clock: tells the time; None: the clock of the event loop, virtual or not.

    Attributes:
        calls: every call so far, in order of arrival.
        inside: how many calls are in flight.
        max_inside: the most there ever were.

    Raises:
        ConfigurationError: the script gives something that is no step; a function or iterator, only when it is called.
    """

    def __init__(self, script: Script = (), *, default: Step = _OK, clock: Clock | None = None) -> None:
        self._reader = Reader(script, default)
        self._clock = clock
        self.calls: list[ServedCall] = []
        self.inside = 0
        self.max_inside = 0

    # How it is called. ----------------------------------------------------------------------------------------------

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `call`."""
        return await self.call(*args, **kwargs)

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """One call: the value of an `Answer`, a `ScriptedStream` for a `Stream`, or the error of a `Fail`."""
        play = self._arrive(args, kwargs)
        if isinstance(play.call.step, Stream):
            return await play.open()
        value = await play.next()
        play.finish("answered")
        return value

    async def generate(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """One call as an async generator. It arrives when the first item is asked for."""
        play = self._arrive(args, kwargs, streamed=True)
        try:
            while (item := await play.next()) is not END:
                yield item
        finally:
            play.finish("closed")  # where nothing else has ended it

    def stream(self, *args: Any, **kwargs: Any) -> StreamManager:
        """One call as an async context manager that gives a `ScriptedStream`. It arrives when that is entered."""
        return StreamManager(lambda: self._arrive(args, kwargs, streamed=True))

    # What it remembers. ---------------------------------------------------------------------------------------------

    @property
    def arrivals(self) -> list[float]:
        """When each call came, in order."""
        return [call.arrived for call in self.calls]

    def ended(self, ending: Ended) -> list[ServedCall]:
        """The calls that ended in this way, in order of arrival; see `ServedCall.ending`."""
        return [call for call in self.calls if call.ending == ending]

    def assert_balanced(self) -> None:
        """AssertionError, naming the calls, unless nothing is in flight and every stream was closed exactly once.

        A stream closes itself at its end, at its error and when its reader is cancelled; closing it once more is
        harmless then. To close one explicitly twice is a fault, and so is dropping one that was never closed.
        """
        faults = [f"call {call.number} is still in flight: {call.step!r}" for call in self.calls if call.ending is None]
        faults += [f"the stream of call {call.number} was dropped, never closed" for call in self.ended("abandoned")]
        twice = [call for call in self.calls if call.closes > 1]
        faults += [f"the stream of call {call.number} was closed {call.closes} times" for call in twice]
        if faults or self.inside:
            raise AssertionError("\n  ".join((f"{self!r} is not balanced:", *faults)))

    def __repr__(self) -> str:
        endings = Counter(call.ending for call in self.calls if call.ending is not None)
        ended = "".join(f", {count} {ending}" for ending, count in sorted(endings.items()))
        inside = f"{self.inside} inside (at most {self.max_inside})"
        return f"<{type(self).__name__} {len(self.calls)} calls, {inside}{ended}>"

    # How calls come and go. -----------------------------------------------------------------------------------------

    def _now(self) -> float:
        return (self._clock or current_clock())()

    def _arrive(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, streamed: bool = False) -> Play:
        call = ServedCall(len(self.calls), args, kwargs, self._now(), streamed=streamed)
        self.calls.append(call)
        self.inside += 1
        self.max_inside = max(self.max_inside, self.inside)
        try:
            call.step = self._reader.step(call)
        except BaseException:
            self._end(call, "failed")
            raise
        call.streamed = streamed or isinstance(call.step, Stream)
        return Play(call, self._now, self._end)

    def _end(self, call: ServedCall, ending: Ended) -> None:
        call.ending = ending
        if ending != "abandoned":  # that is told by the garbage collector, at no particular time
            call.ended = self._now()
        self.inside -= 1


def any_window_count(times: Iterable[float], window: Seconds, *, slack: Seconds = 1e-6) -> int:
    """The largest number of `times` in any half-open window [t, t + window): what a provider's limit counts.

    Args:
        times: arrival times in seconds, in any order.
        window: its length in seconds, above 0.
        slack: by how much windows are shortened, so that the rounding of floats does not look like a burst: two
            arrivals exactly one window apart never share one. At most half the window.

    Raises:
        ConfigurationError: a window that is not above 0, a slack too large, a time that is not finite.
    """
    length = seconds(window, "window", positive=True) - seconds(slack, "slack")
    if not length >= seconds(window, "window") / 2:
        raise ConfigurationError(f"slack must be at most half the window, {window!r}, not {slack!r}", path="slack")
    ordered = sorted(times)
    for time in ordered[:1] + ordered[-1:]:
        if not isfinite(time):
            raise ConfigurationError(f"times must be finite, not {time!r}", path="times")
    most = begin = 0
    for end, time in enumerate(ordered):
        while time - ordered[begin] >= length:
            begin += 1
        most = max(most, end - begin + 1)
    return most
