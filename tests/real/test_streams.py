"""Streams of a real engine, through the real client: however one ends, its place and its slot are free again."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from andante import Admission, Cost, DeadlineOverrun, Ending, request
from andante.events import First, Left
from tests.real.guarded import Events, content, gates, put_guard, used
from tests.real.nothing_left import assert_as_new
from tests.real.test_calls import ask, pytestmark

if TYPE_CHECKING:
    from tests.real.conftest import Connect
    from tests.real.engine import Engine

__all__ = ["pytestmark"]  # the same marks as there

LONG = 3500
"""Tokens in an answer that no machine finishes in the two seconds in which a slot has to become free."""


def whole(engine: Engine, output: int = 12) -> dict[str, Any]:
    return ask(engine, output=output, stream=True, stream_options={"include_usage": True})


async def test_a_stream_read_to_its_end(engine: Engine, connect: Connect) -> None:
    """`async for` over what `create` returns: the client's own chunks; first token, tokens and cost are measured."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        stream = await create(**whole(engine))
        chunks = []
        async for chunk in stream:
            assert admission.snapshot().inside == 1
            chunks.append(chunk)
            # The first chunk has a role and no text: it is not the first token.
            assert any(isinstance(event, First) for event in events.heard) == any(map(content, chunks))
        assert admission.snapshot().done == 1
    assert {type(chunk).__name__ for chunk in chunks} == {"ChatCompletionChunk"}
    assert not content(chunks[0])
    outcome = events.only(Left).outcome
    assert outcome.items == sum(map(content, chunks)) == 12
    assert outcome.cost == used(chunks[-1])
    assert outcome.ttft == events.only(First).ttft > 0
    assert_as_new(admission, gates(1))


async def test_a_stream_as_a_context_manager(engine: Engine, connect: Connect) -> None:
    """`async with` works, and every other attribute is the stream's own."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        async with await create(**whole(engine)) as stream:
            assert stream.response.status_code == 200
            assert stream.response.headers["content-type"].startswith("text/event-stream")
            with pytest.raises(AttributeError, match="nonsense"):
                _ = stream.nonsense
            assert sum([content(chunk) async for chunk in stream]) == 12
    assert admission.snapshot().done == 1
    await engine.idle()
    assert_as_new(admission, gates(1))


async def test_a_stream_left_in_the_middle(engine: Engine, connect: Connect) -> None:
    """`break` inside `async with`: closed at the end of the block, charged what it took until then."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        seen = 0
        async with await create(**whole(engine, LONG)) as stream:
            async for chunk in stream:
                seen += content(chunk)
                if seen == 5:
                    break
            await engine.becomes(1, within=2)
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    cost = events.only(Left).outcome.cost
    assert cost == Cost(input_tokens=30, output_tokens=5)
    assert_as_new(admission, gates(1))


@pytest.mark.parametrize("read", [0, 3])
async def test_a_stream_closed_by_hand(engine: Engine, connect: Connect, read: int) -> None:
    """`close()` frees place and slot, also of a stream that nobody has read from; a second close is fine."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        stream = await create(**whole(engine, LONG))
        iterator = aiter(stream)
        for _ in range(read):
            await anext(iterator)
        await engine.becomes(1, within=2)
        assert admission.snapshot().inside == 1
        await stream.close()
        await stream.close()
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    assert_as_new(admission, gates(1))


async def test_a_stream_cancelled_while_it_waits_for_a_chunk(engine: Engine, connect: Connect) -> None:
    """The consumer is cancelled inside `async for`, without an `async with`: the error path closes it all the same."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        stream = await create(**whole(engine, LONG))
        seen = 0
        with anyio.move_on_after(0.3):
            async for chunk in stream:
                seen += content(chunk)
        assert 0 < seen < LONG
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    outcome = events.only(Left).outcome
    assert outcome.ending is Ending.IGNORED
    assert outcome.items == seen
    assert_as_new(admission, gates(1))


async def test_a_stream_that_runs_past_its_deadline(engine: Engine, connect: Connect) -> None:
    """`request(within=...)` ends a stream that the engine would go on with; the caller gets what came until then."""
    events = Events()
    places, tokens, _ = gates(1)  # a Cooldown rightly remembers an overrun: it is taken for a sign of overload
    admission = Admission(places, tokens, listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        seen = 0
        with request(within=1.0) as this, pytest.raises(DeadlineOverrun):
            async for chunk in await create(**whole(engine, LONG)):
                seen += content(chunk)
        assert seen > 0
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    (account,) = this.accounts
    assert account.seconds is not None
    assert 0.5 < account.seconds < 3.0
    outcome = events.only(Left).outcome
    assert outcome.ending is Ending.OVERLOADED
    assert outcome.items == seen
    assert_as_new(admission, gates(1)[:2])


async def test_a_stream_cancelled_before_its_first_chunk(engine: Engine, connect: Connect) -> None:
    """The caller leaves while a long prompt is being read, without an `async with`."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        question = ask(engine, prompt=1000, output=2500, stream=True)
        seen = 0

        async def read() -> None:
            nonlocal seen
            async for _chunk in await create(**question):
                seen += 1

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await engine.becomes(1, within=2)
            group.cancel_scope.cancel()
        assert seen == 0
        assert admission.snapshot().inside == 0
        await engine.idle(within=5)  # the engine looks up only when it has worked off a batch of the prompt
    outcome = events.only(Left).outcome
    assert outcome.ending is Ending.IGNORED
    assert outcome.ttft is None
    assert_as_new(admission, gates(1))


async def test_a_stream_cancelled_between_two_chunks(engine: Engine, connect: Connect) -> None:
    """The consumer is cancelled while it does something else with a chunk in its hand."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        with anyio.move_on_after(0.5):
            async with await create(**whole(engine, LONG)) as stream:
                async for _chunk in stream:
                    await anyio.sleep_forever()
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    assert_as_new(admission, gates(1))


async def test_a_stream_forgotten(engine: Engine, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """Never read, never closed, no longer referred to: the place is free again, and the log says so."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        stream = await create(**whole(engine, LONG))
        assert admission.snapshot().inside == 1
        response = stream.response
        with caplog.at_level("WARNING", logger="andante"):
            del stream
            gc.collect()
            await anyio.sleep(0.05)
        assert admission.snapshot().inside == 0
        assert "neither ended nor closed" in caplog.text
        await response.aclose()  # the connection is the client's; andante cannot close it without waiting
        await engine.idle(within=2)
    assert_as_new(admission, gates(1))


async def test_the_next_stream_starts_when_the_one_before_has_ended(engine: Engine, connect: Connect) -> None:
    """One place, four streams: never two at once, and nobody is forgotten."""
    admission = Admission(*gates(1))
    open_now, order = set[int](), list[int]()
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)

        async def read(number: int) -> None:
            async for _chunk in await create(**whole(engine, 30)):
                open_now.add(number)
                assert open_now == {number}
            open_now.discard(number)
            order.append(number)

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(read, number)
    assert sorted(order) == [0, 1, 2, 3]
    assert admission.snapshot().done == 4
    await engine.idle(within=2)
    assert_as_new(admission, gates(1))
