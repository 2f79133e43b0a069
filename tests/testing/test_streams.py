"""Streams of the scripted backend, in every form that clients have."""

from __future__ import annotations

import gc
import itertools
from contextlib import aclosing
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import Admission, Concurrency, guard
from andante.events import Left
from andante.testing import (
    Answer,
    Fail,
    Recorder,
    ScriptedBackend,
    ScriptedStream,
    Stall,
    Stream,
    balanced,
    virtual_backend,
)
from andante.testing.stream import END

pytestmark = pytest.mark.anyio


class TooManyError(Exception):
    pass


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)


async def items_of(stream: Any) -> list[Any]:
    return [item async for item in stream]


def test_its_forms_look_like_those_of_clients() -> None:
    """`call` is a coroutine function, `generate` an async generator function, the backend itself a callable object."""
    backend = ScriptedBackend()
    assert iscoroutinefunction(backend.call)
    assert isasyncgenfunction(backend.generate)
    assert not iscoroutinefunction(backend)
    assert iscoroutinefunction(type(backend).__call__)


@pytest.mark.parametrize("form", ["call", "generate", "stream"])
async def test_items_come_at_their_times(form: str) -> None:
    """A stream sends its items at `first` and then every `gap`, in every form, and ends by itself."""
    backend = ScriptedBackend([Stream("abc", first=0.5, gap=0.25)])
    times: list[float] = []
    got: list[Any] = []

    async def read(stream: Any) -> None:
        async for item in stream:
            got.append(item)
            times.append(backend._now())

    if form == "call":
        await read(await backend.call())
    elif form == "generate":
        await read(backend.generate())
    else:
        async with backend.stream() as stream:
            await read(stream)
    assert got == ["a", "b", "c"]
    assert times == pytest.approx([0.5, 0.75, 1.0])
    (call,) = backend.calls
    assert (call.items, call.ending, call.streamed, call.closes) == (3, "answered", True, int(form == "stream"))
    assert (call.first, call.ended) == pytest.approx((0.5, 1.0))
    backend.assert_balanced()


async def test_a_slow_consumer_finds_items_ready() -> None:
    """A server sends on its own schedule; a model in the own process works only while it is asked."""
    for ahead, expected in ((True, [1.0, 11.0, 21.0]), (False, [1.0, 12.0, 23.0])):
        backend = ScriptedBackend([Stream(range(3), first=1, gap=1, ahead=ahead)])
        times, begin = [], backend._now()
        async for _ in backend.generate():
            times.append(backend._now() - begin)
            await anyio.sleep(10)
        assert times == pytest.approx(expected)


@pytest.mark.parametrize("form", ["call", "generate", "stream"])
async def test_a_stream_fails_after_some_items(form: str) -> None:
    """`fail_after` breaks a stream inside a good answer, and that ends the call: 0 before the first item."""
    for sent in (0, 2):
        backend = ScriptedBackend([Stream("abcd", first=1, gap=1, fail_after=sent, error=TooManyError)])
        got: list[Any] = []
        with pytest.raises(TooManyError):
            if form == "call":
                async for item in await backend.call():
                    got.append(item)
            elif form == "generate":
                async for item in backend.generate():
                    got.append(item)
            else:
                async with backend.stream() as stream:
                    async for item in stream:
                        got.append(item)
        assert got == list("abcd"[:sent])
        assert backend.calls[0].ending == "failed"
        assert backend.calls[0].ended == pytest.approx((sent + 1) + (backend.calls[0].arrived))
        backend.assert_balanced()


async def test_a_stream_stalls_after_some_items() -> None:
    """`stall_after` falls silent in the middle; the reader's cancelling ends the call."""
    backend = ScriptedBackend([Stream(range(9), gap=1, stall_after=3)])
    got: list[Any] = []
    with anyio.move_on_after(100) as scope:
        async for item in await backend():
            got.append(item)
    assert scope.cancelled_caught
    assert (got, backend.calls[0].ending) == ([0, 1, 2], "cancelled")
    backend.assert_balanced()


async def test_an_endless_stream_closed_early() -> None:
    """Endless items are fine; leaving early is `closed`, in every form."""
    backend = ScriptedBackend(default=Stream(itertools.count(), gap=1))
    async with await backend() as stream:
        assert [await anext(stream), await anext(stream)] == [0, 1]
    async with backend.stream() as stream:
        await anext(stream)
    generator = backend.generate()
    await anext(generator)
    assert backend.inside == 1
    await generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert [call.ending for call in backend.calls] == ["closed"] * 3
    assert [call.closes for call in backend.calls] == [1, 1, 0]
    backend.assert_balanced()


async def test_closing_twice_is_seen() -> None:
    """Closing after the end is harmless; closing explicitly twice is a fault that `assert_balanced` names."""
    backend = ScriptedBackend(default=Stream("ab"))
    stream = await backend()
    assert await items_of(stream) == ["a", "b"]
    await stream.close()
    backend.assert_balanced()
    await stream.aclose()
    with pytest.raises(AssertionError, match="the stream of call 0 was closed 2 times"):
        backend.assert_balanced()
    assert backend.inside == 0


async def test_a_dropped_stream_is_seen() -> None:
    """A stream object that nobody reads or closes leaves the flight when it is collected, and is named."""
    backend = ScriptedBackend(default=Stream("ab"))
    stream = await backend()
    assert repr(stream) == "<ScriptedStream of call 0: 0 items, open>"
    with pytest.raises(AssertionError, match="still in flight"):
        backend.assert_balanced()
    del stream
    gc.collect()
    assert backend.inside == 0
    with pytest.raises(AssertionError, match="the stream of call 0 was dropped, never closed"):
        backend.assert_balanced()
    assert backend.calls[0].ended is None


async def test_closed_by_another_task() -> None:
    """A reader whose stream another task closes gets the end at once, even if nothing more would ever come."""
    backend = ScriptedBackend([Stream(range(9), stall_after=1), Stream("a", first=60, fail_after=0)])
    for _ in range(2):
        stream = await backend()
        got: list[Any] = []

        async def read(stream: Any = stream, got: list[Any] = got) -> None:
            got.extend(await items_of(stream))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.sleep(5)
            with pytest.raises(RuntimeError, match="by another task already"):
                await anext(stream)
            await stream.close()
    assert [call.ending for call in backend.calls] == ["closed", "closed"]
    assert [call.items for call in backend.calls] == [1, 0]
    assert backend.calls[1].ended == pytest.approx(10)
    backend.assert_balanced()


async def test_steps_that_do_not_fit_the_form() -> None:
    """An `Answer` played as a stream is one item; a `Fail` and a `Stall` come before any stream object."""
    backend = ScriptedBackend([Answer("whole", after=1), Answer("whole", after=1)])
    assert await items_of(backend.generate()) == ["whole"]
    async with backend.stream() as stream:
        assert await items_of(stream) == ["whole"]
    backend = ScriptedBackend([Fail(TooManyError), Fail(TooManyError), Stall()])
    with pytest.raises(TooManyError):
        async with backend.stream():
            pytest.fail("there is no stream")
    with pytest.raises(TooManyError):
        await anext(backend.generate())
    with anyio.move_on_after(1) as scope:
        async with backend.stream():
            pytest.fail("there is no stream")
    assert scope.cancelled_caught
    assert [call.ending for call in backend.calls] == ["failed", "failed", "cancelled"]
    backend.assert_balanced()


async def test_a_stream_has_the_attributes_it_is_given() -> None:
    """SDK streams carry more than items; unknown attributes are unknown."""
    backend = ScriptedBackend([Stream("a", attributes={"request_id": "r-1"})])
    async with await backend() as stream:
        assert isinstance(stream, ScriptedStream)
        assert stream.request_id == "r-1"
        with pytest.raises(AttributeError, match="no attribute 'model'"):
            _ = stream.model


@pytest.mark.parametrize("early", [False, True])
async def test_every_form_can_be_guarded(early: bool) -> None:
    """`guard` takes the backend in every form; a stream's place and its connection are given back together."""
    recorder = Recorder()
    backend = ScriptedBackend(default=Stream(range(5), first=1, gap=1, attributes={"request_id": "r-1"}))
    admission = Admission(Concurrency(1), listeners=[recorder])
    through = guard(admission)

    async def read(stream: Any) -> None:
        async for item in stream:
            assert backend.inside == admission.snapshot().inside == 1
            if early and item == 2:
                break

    for call in (through(backend), through(backend.call)):
        async with await call("prompt") as stream:
            assert stream.request_id == "r-1"
            await read(stream)
    async with through(backend.stream)("prompt") as stream:
        await read(stream)
    async with aclosing(through(backend.generate)("prompt")) as items:
        await read(items)
    assert [call.ending for call in backend.calls] == ["closed" if early else "answered"] * 4
    assert {left.outcome.items for left in recorder.of(Left)} == {3.0 if early else 5.0}
    assert recorder.conserved()
    balanced(admission)
    backend.assert_balanced()


async def test_a_manager_is_entered_once() -> None:
    """The call is made on entering; a second entering would be a second call."""
    backend = ScriptedBackend(default=Stream("a"))
    manager = backend.stream()
    assert backend.calls == []
    async with manager:
        with pytest.raises(RuntimeError, match="entered already"):
            await manager.__aenter__()
    await backend.stream().__aexit__(None, None, None)  # never entered: nothing to close
    assert len(backend.calls) == 1
    backend.assert_balanced()


async def test_cancelled_while_the_stream_opens() -> None:
    """A caller cancelled before it has the stream object cannot close it: the call is over."""
    backend = ScriptedBackend(default=Stream("a"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await backend()
    assert [call.ending for call in backend.calls] == ["cancelled"]
    backend.assert_balanced()


async def test_every_result_yields_to_the_loop() -> None:
    """Even an answer at once gives other tasks a turn, as every real backend does."""
    backend = ScriptedBackend([Answer()] * 10 + [Stream(range(10))])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        while not turns:
            await anyio.lowlevel.checkpoint()
        before = turns
        for _ in range(10):
            await backend()
        assert turns >= before + 9  # trio shuffles: the first of our turns may come before the other's
        before = turns
        await items_of(await backend())
        assert turns >= before + 9
        group.cancel_scope.cancel()


async def test_nothing_comes_after_the_end() -> None:
    """Asked again after its end, a play stays at its end."""
    backend = ScriptedBackend()
    play = backend._arrive((), {})
    assert [await play.next() for _ in range(3)] == ["ok", END, END]
    assert backend.inside == 0
