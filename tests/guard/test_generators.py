"""Guarded async generators hold their place from the first pull to the end (law 7), and close what they wrap."""

from __future__ import annotations

import gc
import logging
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from andante import (
    Admission,
    Concurrency,
    Cost,
    DeadlineExpired,
    DeadlineOverrun,
    Ending,
    TokenBucket,
    guard,
)
from andante.events import First, Left
from andante.testing import Recorder, ScriptedBackend, Stream, balanced

pytestmark = pytest.mark.anyio

LARGE = Cost(input_tokens=100, output_tokens=500)


class World:
    """One backend that streams, one admission that watches."""

    def __init__(self, step: Stream, places: int = 1, **terms: Any) -> None:
        self.recorder = Recorder()
        self.bucket = TokenBucket(1e-6, "day", unit="tokens", burst=10_000)
        self.admission = Admission(Concurrency(places), self.bucket, listeners=[self.recorder])
        self.backend = ScriptedBackend(default=step)
        self.generate = guard(self.admission, **terms)(self.backend.generate)

    @property
    def left(self) -> Any:
        return [event.outcome for event in self.recorder.of(Left)]

    @property
    def charged(self) -> float:
        return round(10_000 - float(self.admission.snapshot().gates["token_bucket"]["level"]), 3)

    def check(self) -> None:
        balanced(self.admission)
        self.backend.assert_balanced()
        self.recorder.conserved()


async def _exhausted(world: World) -> None:
    assert [item async for item in world.generate()] == list("abcd")


async def _aclose(world: World) -> None:
    stream = world.generate()
    await anext(stream)
    await stream.aclose()
    await stream.aclose()


async def _cancelled_while_waiting(world: World) -> None:
    with anyio.move_on_after(1.5):
        async for _ in world.generate():
            pass


async def _cancelled_between(world: World) -> None:
    with anyio.move_on_after(1.5):
        async with aclosing(world.generate()) as stream:
            async for _ in stream:
                await anyio.sleep(100)


async def _thrown(world: World) -> None:
    stream = world.generate()
    await anext(stream)
    with pytest.raises(ValueError, match="thrown"):
        await stream.athrow(ValueError("thrown"))


async def _left_early(world: World) -> None:
    async with aclosing(world.generate()) as stream:
        async for _ in stream:
            break


@pytest.mark.parametrize(
    "ends", [_exhausted, _aclose, _cancelled_while_waiting, _cancelled_between, _thrown, _left_early]
)
async def test_every_ending_releases_once(ends: Any) -> None:
    """FC-15: the place comes back promptly, once, without the collector, and the upstream is closed by then."""
    world = World(Stream("abcd", first=1, gap=1))
    gc.disable()
    try:
        await ends(world)
        assert world.admission.snapshot().inside == 0
        assert world.backend.inside == 0
        assert len(world.left) == 1
        with anyio.fail_after(10):
            await _exhausted(world)  # nothing but a free place is needed
    finally:
        gc.enable()
    world.check()


async def test_error_in_the_middle() -> None:
    """FC-15, FC-51: the error is the very object; the place is back before the consumer sees it."""
    error = ConnectionError("cut")
    world = World(Stream("abcd", fail_after=2, error=error))
    got = []
    with pytest.raises(ConnectionError) as caught:
        async for item in world.generate():
            got.append(item)
    assert (got, caught.value) == (["a", "b"], error)
    assert world.left[0].ending is Ending.IGNORED
    world.check()


async def test_overload_inside_a_stream() -> None:
    """FC-31: the stream was accepted, and its first event is an overload error: OVERLOADED; after content as well."""

    class Overloaded(Exception):
        status_code = 529
        retry_after = 3.0

    for after, charged in ((0, 0), (2, 102)):
        world = World(Stream("abcd", fail_after=after, error=Overloaded), cost=LARGE)
        got = []
        with pytest.raises(Overloaded):
            async for item in world.generate():
                got.append(item)
        assert len(got) == after, "nothing is replayed"
        outcome = world.left[0]
        assert (outcome.ending, outcome.retry_after) == (Ending.OVERLOADED, 3)
        assert world.charged == charged  # before the first result the tokens come back; after it, what was seen counts
        world.check()


async def test_close_during_the_first_read_and_twice() -> None:
    """FC-16: quiet and repeatable; what another task reads cannot be closed under it, and loses nothing by trying."""
    world = World(Stream("abcd", first=5))
    stream = world.generate()
    got: list[str] = []

    async def read() -> None:
        got.extend([item async for item in stream])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.sleep(1)
        with pytest.raises(RuntimeError, match="running"):
            await stream.aclose()
    assert got == list("abcd")
    await stream.aclose()
    world.check()


async def test_closed_by_another_task() -> None:
    """Law 2: between two pulls any task may close it."""
    world = World(Stream("abcd", gap=1))
    stream = world.generate()
    assert await anext(stream) == "a"
    async with anyio.create_task_group() as group:
        group.start_soon(stream.aclose)
    assert world.admission.snapshot().inside == 0
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    world.check()


async def test_never_iterated() -> None:
    """Law 2: one that is never pulled takes nothing, and goes without a word."""
    world = World(Stream("abcd"))
    stream = world.generate()
    assert world.admission.snapshot().offered == 0
    del stream
    gc.collect()
    unused = world.generate()
    await unused.aclose()
    assert world.admission.snapshot().offered == 0
    assert world.backend.calls == []
    world.check()


async def test_cancelled_while_it_waits_for_its_place() -> None:
    """It has not started: nothing arrives at the backend, and the stream is over."""
    world = World(Stream("abcd"))
    held = world.admission.try_enter()
    stream = world.generate()
    with anyio.move_on_after(1):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    held.close()
    assert world.backend.calls == []
    world.check()


async def test_no_scope_is_open_across_a_yield() -> None:
    """FC-17, law 8: the deadline counts only while the source is awaited; the consumer is never cancelled by it."""
    world = World(Stream("abc", gap=0.1), deadline=5)
    stream = world.generate()
    assert await anext(stream) == "a"
    await anyio.sleep(10)  # far past the deadline, in the consumer's own time
    with anyio.move_on_after(3) as mine:
        with pytest.raises(DeadlineOverrun):  # between items
            await anext(stream)
        await anyio.sleep(1)
    assert not mine.cancelled_caught
    assert world.left[0].ending is Ending.OVERLOADED
    world.check()


async def test_consumers_own_timeouts() -> None:
    """FC-17: a scope of the consumer's around a read cuts that read, on both event loops, and nothing else."""
    world = World(Stream("abc", first=1, gap=1), deadline=50)
    with anyio.move_on_after(2.5) as scope:
        async for _ in world.generate():
            with anyio.move_on_after(20):
                await anyio.sleep(0.1)
    assert scope.cancelled_caught
    assert world.admission.now() == pytest.approx(2.5)
    world.check()


async def test_deadline_in_the_middle_of_a_stalled_pull() -> None:
    """Law 6: a provider that falls silent is cut at the deadline: DeadlineOverrun, OVERLOADED, the place is back."""
    world = World(Stream("abc", stall_after=1), deadline=5, cost=LARGE)
    got = []
    with pytest.raises(DeadlineOverrun):
        async for item in world.generate():
            got.append(item)
    assert got == ["a"]
    assert world.admission.now() == pytest.approx(5)
    assert world.left[0].ending is Ending.OVERLOADED
    assert world.charged == 101
    world.check()


async def test_deadline_counts_from_the_call() -> None:
    """A generator made early and pulled late has used its time up; it is refused, not started."""
    world = World(Stream("abc"), deadline=5)
    stream = world.generate()
    await anyio.sleep(6)
    with pytest.raises(Exception) as caught:
        await anext(stream)
    assert isinstance(caught.value, DeadlineExpired) or "deadline" in caught.value.reason  # type: ignore[attr-defined]
    assert world.backend.calls == []
    world.check()


@pytest.mark.parametrize("busy", [0.0, 10.0])
async def test_the_consumers_own_time_is_not_sampled(busy: float) -> None:
    """Law 7: a consumer that thinks for 10 s after each item makes the stream neither slower nor its gaps longer."""
    gaps: list[float] = []

    class Gaps(Concurrency):
        def progress(self, entry: Any, items: float, now: float) -> None:
            if entry.last is not None:
                gaps.append(now - entry.last)

    recorder = Recorder()
    admission = Admission(Gaps(1), listeners=[recorder])
    backend = ScriptedBackend(default=Stream("abcd", first=2, gap=1, ahead=False))
    async for _ in guard(admission)(backend.generate)():
        await anyio.sleep(busy)
    outcome = recorder.of(Left)[0].outcome
    assert (outcome.ttft, outcome.seconds, outcome.items) == (pytest.approx(2), pytest.approx(5), 4)
    assert gaps == pytest.approx([1, 1, 1])
    balanced(admission)


@pytest.mark.parametrize("busy", [0.0, 10.0])
async def test_items_without_content(busy: float) -> None:
    """`items` gives 0: no first result, no output; but the time until it came is the engine's, not the consumer's."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    backend = ScriptedBackend(default=Stream(["", "a", "", "", "bcd"], first=1, gap=1, ahead=False))
    async for _ in guard(admission, items=len)(backend.generate)():
        await anyio.sleep(busy)
    outcome = recorder.of(Left)[0].outcome
    assert outcome.items == 4
    assert outcome.seconds == pytest.approx(5)
    assert len(recorder.of(First)) == 1
    assert recorder.of(First)[0].ttft == outcome.ttft == pytest.approx(2)
    balanced(admission)


async def test_early_close_is_charged_what_was_seen() -> None:
    """FC-06: reserved input and the items seen; with `settle`, what that makes of the last item."""
    world = World(Stream("abcd"), cost=LARGE)
    async with aclosing(world.generate()) as stream:
        await anext(stream)
        await anext(stream)
    assert world.charged == 102
    assert world.left[0].ending is Ending.IGNORED
    await _exhausted(world)
    assert world.charged == 102 + 600, "to the end without settlement: the reservation"
    world.check()


async def test_settled_by_the_last_item() -> None:
    """FC-06: for streams as for answers; None keeps the reservation, and an early close falls back to what was seen."""
    usage = {"b": None, "d": Cost(input_tokens=90, output_tokens=7)}
    world = World(Stream("abcd"), cost=LARGE, settle=usage.get)
    await _exhausted(world)
    assert world.charged == 97
    async with aclosing(world.generate()) as stream:
        await anext(stream)
        await anext(stream)
    assert world.charged == 97 + 102
    world.check()


@pytest.mark.parametrize("name", ["items", "settle"])
@pytest.mark.parametrize("nonsense", [None, "x", -1, float("nan"), float("inf"), ValueError("no")], ids=repr)
async def test_nonsense_from_items_and_settle(name: str, nonsense: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What raises, or returns nonsense, is reported once, counts 1 or keeps the reservation, and breaks nothing."""

    def fn(item: Any) -> Any:
        if isinstance(nonsense, Exception):
            raise nonsense
        return nonsense

    world = World(Stream("abcd"), cost=LARGE, **{name: fn})
    with caplog.at_level(logging.ERROR, "andante"):
        await _exhausted(world)
        await _exhausted(world)
    fine = name == "settle" and nonsense is None
    assert len(caplog.records) == (0 if fine else 1)
    assert world.charged == 1_200
    assert world.left[0].items == 4
    world.check()


async def test_generator_that_awaits_while_closing() -> None:
    """FC-16: a source whose cleanup awaits is closed in the consumer's task, once, and may take its time."""
    closed: list[Any] = []
    admission = Admission(Concurrency(1))

    @guard(admission)
    async def source() -> Any:
        try:
            yield 1
            yield 2
        finally:
            closed.append(anyio.get_current_task().id)
            await anyio.sleep(1)

    stream = source()
    await anext(stream)
    await stream.aclose()
    assert closed == [anyio.get_current_task().id]
    balanced(admission)


async def test_closing_fails_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """FC-29: the consumer hears of the failure itself, not of the trouble in closing what failed."""
    admission = Admission(Concurrency(1))

    class Brittle:
        def __aiter__(self) -> Brittle:
            return self

        async def __anext__(self) -> int:
            raise ConnectionError("first")

        async def aclose(self) -> None:
            raise RuntimeError("second")

    @guard(admission)
    async def create() -> Brittle:
        return Brittle()

    with pytest.raises(ConnectionError, match="first"):
        async for _ in await create():
            pass
    assert "closing" in caplog.text
    balanced(admission)


class Stubborn:
    def __aiter__(self) -> Any:
        raise ValueError("no")


async def test_source_that_cannot_be_iterated() -> None:
    """Law 2: `__aiter__` raises after the place was taken; it comes back."""
    admission = Admission(Concurrency(1))

    @guard(admission)
    def create() -> Stubborn:
        return Stubborn()

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            async for _ in create():
                pass
    balanced(admission)
