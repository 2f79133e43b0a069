"""Single answers of a real engine, through the real client: what comes back, what is counted, what a cancel leaves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from andante import Admission, Call, Ending, guard
from andante.events import First, Left
from tests.real.guarded import Events, content, gates, put_guard, reserved, used
from tests.real.nothing_left import assert_as_new

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.real.conftest import Connect
    from tests.real.engine import Engine

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    # At the end of a stream the client leaves generators of its own unfinished; trio, unlike asyncio, says so.
    pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2?|httpcore2?):ResourceWarning"),
]


def ask(engine: Engine, *, prompt: int = 30, output: int = 8, **more: Any) -> dict[str, Any]:
    """Arguments for `create`: a new prompt of `prompt` tokens, an answer of exactly `output`."""
    text = engine.model.prompt(random.Random(), prompt)
    return {
        "model": "random-llama",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": output,
        "extra_body": {"ignore_eos": True},
        **more,
    }


async def test_a_call_returns_the_clients_own_answer(engine: Engine, connect: Connect) -> None:
    """A guarded call gives what the bare one gives, and is settled with what the server says it cost."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        answer = await create(**ask(engine))
    assert type(answer).__name__ == "ChatCompletion"
    assert answer.usage.completion_tokens == 8
    assert answer.choices[0].message.content
    left = events.only(Left)
    assert left.outcome.ending is Ending.DONE
    assert left.outcome.cost == used(answer)
    assert admission.snapshot().done == 1
    assert_as_new(admission, gates(1))


async def test_admit_around_a_call(engine: Engine, connect: Connect) -> None:
    """`async with admission.admit(call)` is the same without a decorator."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        question = ask(engine)
        call = Call(reserved(**question))
        async with admission.admit(call) as permit:
            answer = await client.chat.completions.create(**question)
            cost = used(answer)
            assert cost is not None
            permit.settle(cost)
    assert events.only(Left).outcome.cost == cost != call.cost
    assert admission.snapshot().done == 1
    assert_as_new(admission, gates(1))


async def test_an_async_generator_of_ones_own(engine: Engine, connect: Connect) -> None:
    """A guarded generator function holds its place to its end; its time to first token is that of the first text."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:

        @guard(admission, cost=reserved)
        async def text(**question: Any) -> AsyncGenerator[str, None]:
            async with await client.chat.completions.create(stream=True, **question) as stream:
                async for chunk in stream:
                    if content(chunk):
                        assert admission.snapshot().inside == 1
                        yield chunk.choices[0].delta.content

        heard = [word async for word in text(**ask(engine, output=12))]
    assert len(heard) == 12
    outcome = events.only(Left).outcome
    assert outcome.items == 12
    assert outcome.ttft == events.only(First).ttft > 0
    assert_as_new(admission, gates(1))


async def test_an_async_generator_closed_early_frees_its_slot(engine: Engine, connect: Connect) -> None:
    """`aclose` reaches the engine through the generator's own `async with`."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:

        @guard(admission, cost=reserved)
        async def text(**question: Any) -> AsyncGenerator[str, None]:
            async with await client.chat.completions.create(stream=True, **question) as stream:
                async for chunk in stream:
                    if content(chunk):
                        yield chunk.choices[0].delta.content

        words = text(**ask(engine, output=3500))
        assert await anext(words)
        await engine.becomes(1, within=2)
        await words.aclose()
        assert admission.snapshot().inside == 0
        await engine.idle(within=2)
    assert_as_new(admission, gates(1))


async def test_a_mistake_of_the_caller_passes_through(engine: Engine, connect: Connect) -> None:
    """The server's 400 arrives as the client's own error, untouched, and says nothing about capacity."""
    import openai

    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        with pytest.raises(openai.BadRequestError) as raised:
            await create(**ask(engine, prompt=5000))
        with pytest.raises(openai.BadRequestError):
            await create(**ask(engine, prompt=5000), stream=True)
    assert raised.value.status_code == 400
    assert [event.outcome.ending for event in events.heard if isinstance(event, Left)] == [Ending.IGNORED] * 2
    assert_as_new(admission, gates(1))


async def test_an_engine_that_is_not_there_passes_through(engine: Engine, connect: Connect) -> None:
    """A refused connection arrives as the client's own error, and the place is free again."""
    import openai

    from tests.real.engine import free_port

    admission = Admission(*gates(1))
    async with connect(engine) as client:
        client.base_url = f"http://127.0.0.1:{free_port()}/v1"
        create = put_guard(admission, client.chat.completions.create)
        with pytest.raises(openai.APIConnectionError):
            await create(**ask(engine))
    assert_as_new(admission, gates(1))


async def test_a_cancelled_call_gives_its_place_back(engine: Engine, connect: Connect) -> None:
    """The caller leaves while the engine writes its answer: the place is free at once. The slot is not: this server
    notices that a caller has gone only when it writes to a stream, so it writes an unstreamed answer to the end."""
    events = Events()
    admission = Admission(*gates(1), listeners=[events])
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: create(**ask(engine, output=300)))
            await engine.becomes(1, within=2)
            group.cancel_scope.cancel()
        assert admission.snapshot().inside == 0
        await engine.idle(within=20)
    assert events.only(Left).outcome.ending is Ending.IGNORED
    assert_as_new(admission, gates(1))


async def test_who_leaves_the_line_never_reaches_the_engine(engine: Engine, connect: Connect) -> None:
    """Waiting happens here, where leaving is free; a server that queues would start the work before it sees that."""
    admission = Admission(*gates(1))
    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)
        async with await create(**ask(engine, output=3500), stream=True) as held:
            await anext(aiter(held))
            with anyio.move_on_after(0.2):
                async with anyio.create_task_group() as group:
                    for _ in range(5):
                        group.start_soon(lambda: create(**ask(engine)))
            assert admission.snapshot().withdrawn == 5
            assert engine.busy() == 1
        await engine.idle(within=2)
    assert admission.snapshot().started == 1
    assert_as_new(admission, gates(1))


async def test_the_engine_never_holds_more_than_the_limit(engine: Engine, connect: Connect) -> None:
    """What `Concurrency(2)` says is what the engine's slots show, with twelve callers at once, streamed and not."""
    admission = Admission(*gates(2))
    seen: list[int] = []

    async with connect(engine) as client:
        create = put_guard(admission, client.chat.completions.create)

        async def call(number: int) -> None:
            if number % 2:
                await create(**ask(engine, output=60))
            else:
                async with await create(**ask(engine, output=60), stream=True) as stream:
                    assert sum([content(chunk) async for chunk in stream]) == 60

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(call, number)
            while admission.snapshot().done < 12:
                seen.append(await anyio.to_thread.run_sync(engine.busy))
                await anyio.sleep(0.02)
    # A slot is released a little after its last chunk is sent, when the next request may already be there.
    assert 2 in seen
    assert max(seen) <= 3
    await engine.idle(within=2)
    assert_as_new(admission, gates(2))
