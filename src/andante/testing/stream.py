"""How a scripted call is played: its record, and the stream objects that a client would hand out."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import anyio.lowlevel

from andante.testing.script import Answer, Fail, Stall, Step, Stream
from andante.values import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

Ended = Literal["answered", "failed", "cancelled", "closed", "abandoned"]
"""How a call ended, as the backend saw it; see `ServedCall.ending`."""

END = object()
"""What `Play.next` returns after the last item."""


@dataclass(eq=False, slots=True)
class ServedCall:
    """One call, as the backend saw it. Times are in seconds on the backend's clock.

    Attributes:
        number: 0 for the first call.
        args, kwargs: what it was called with.
        arrived: when it came.
        step: what the script said to do.
        streamed: whether it was answered with a stream.
        first, ended: when its first result and its end came; None until then.
        items: how many results it has sent.
        ending: None while it is in flight; then `"answered"`, `"failed"` (as the script said, or because the script
            itself failed), `"cancelled"`, `"closed"` (a stream ended early by its consumer) or `"abandoned"` (a
            stream object dropped without closing it; `ended` stays None).
        closes: how often its stream object was closed explicitly.
    """

    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrived: float
    step: Step = field(default_factory=Stall)
    streamed: bool = False
    first: float | None = None
    ended: float | None = None
    items: int = 0
    ending: Ended | None = None
    closes: int = 0


class Play:
    """One call's step, played result by result.

    Args:
        call: the call.
        clock: tells the time.
        finish: is told once when the call ends, and how.
    """

    def __init__(
        self, call: ServedCall, clock: Callable[[], float], finish: Callable[[ServedCall, Ended], None]
    ) -> None:
        self.call = call
        self._clock = clock
        self._finish = finish
        self._due = call.arrived
        self._items: Iterator[Any] = iter(call.step.items) if isinstance(call.step, Stream) else iter(())
        self._closed: anyio.Event | None = None

    async def open(self) -> ScriptedStream:
        """The head of the answer: a stream object whose items are still to come, or the scripted error instead."""
        if isinstance(self.call.step, (Answer, Stream)):
            await self._guarded(self._pause(0.0))
        else:
            await self.next()
        self._closed = anyio.Event()
        return ScriptedStream(self)

    async def next(self) -> Any:
        """The next result, or END. The call ends with whatever is raised."""
        if self.over:
            return END
        item = await self._guarded(self._next())
        if item is END:
            self.finish("answered")
        else:
            if self.call.first is None:
                self.call.first = self._clock()
            self.call.items += 1
        return item

    @property
    def over(self) -> bool:
        """Whether the call has ended."""
        return self.call.ending is not None

    def finish(self, ending: Ended) -> None:
        """The call is over; only the first ending counts. Whoever waits for a result gets END."""
        if not self.over:
            self._finish(self.call, ending)
            if self._closed is not None and ending == "closed":
                self._closed.set()

    async def _guarded(self, work: Any) -> Any:
        try:
            return await work
        except Exception:
            self.finish("failed")
            raise
        except BaseException:
            self.finish("cancelled")
            raise

    async def _next(self) -> Any:
        after, item, error = self._upcoming()
        if isinstance(self.call.step, Stream) and not self.call.step.ahead:
            self._due = self._clock()
        self._due += after
        await self._pause(max(0.0, self._due - self._clock()))
        if self.over:
            return END  # closed meanwhile
        if error is not None:
            raise error() if isinstance(error, type) else error.with_traceback(None)
        return item

    def _upcoming(self) -> tuple[float, Any, BaseException | type[BaseException] | None]:
        """Seconds (inf: for ever) from what came last, or should have come, to what comes next; the item; the error."""
        step, sent = self.call.step, self.call.items
        if isinstance(step, Fail):
            return seconds(step.after, "after"), END, step.error
        if isinstance(step, Answer):
            return (0.0, END, None) if sent else (seconds(step.after, "after"), step.value, None)
        if isinstance(step, Stall) or step.stall_after == sent:
            return inf, END, None
        after = seconds(step.gap if sent else step.first, "gap")
        if step.fail_after == sent:
            return after, END, step.error
        item = next(self._items, END)
        return 0.0 if item is END else after, item, None

    async def _pause(self, delay: float) -> None:
        """Wait for `delay` seconds, or until somebody closes the stream. Yields to the event loop at least once."""
        if delay == 0:
            await anyio.lowlevel.checkpoint()
        elif self._closed is None:
            await (anyio.sleep_forever() if delay == inf else anyio.sleep(delay))
        else:
            with anyio.move_on_after(delay):
                await self._closed.wait()


class ScriptedStream:
    """What a client hands out for a streamed answer: an async iterator that wants to be closed.

    It has `close()` and `aclose()`, is an async context manager that closes it, and has the attributes that the
    script gave it. Like a connection, it is closed by its end, by an error and by the cancelling of its reader too.
    After that, and after it was closed by somebody else while it was read, iteration is over.
    """

    def __init__(self, play: Play) -> None:
        self._play = play
        self._reading = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._reading:
            raise RuntimeError("this stream is being read by another task already")
        self._reading = True
        try:
            item = await self._play.next()
        finally:
            self._reading = False
        if item is END:
            raise StopAsyncIteration
        return item

    async def close(self) -> None:
        """End it early. Harmless after its end."""
        self._play.call.closes += 1
        self._play.finish("closed")
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """The same as `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        if name != "_play":  # which a copy, made without __init__, does not have
            step = self._play.call.step
            if isinstance(step, Stream) and name in step.attributes:
                return step.attributes[name]
        who = type(self).__name__
        raise AttributeError(f"{who!r} object has no attribute {name!r}; Stream(attributes=...) adds some")

    def __del__(self) -> None:
        self._play.finish("abandoned")

    def __repr__(self) -> str:
        call = self._play.call
        return f"<{type(self).__name__} of call {call.number}: {call.items} items, {call.ending or 'open'}>"


class StreamManager:
    """An async context manager: entering it makes the call and gives its `ScriptedStream`, leaving it closes that."""

    def __init__(self, arrive: Callable[[], Play]) -> None:
        self._arrive = arrive
        self._stream: ScriptedStream | None = None

    async def __aenter__(self) -> ScriptedStream:
        if self._stream is not None:
            raise RuntimeError("this stream was entered already; make a new call")
        self._stream = await self._arrive().open()
        return self._stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stream is not None:
            await self._stream.close()
