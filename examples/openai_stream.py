"""Pace the streams of an OpenAI client: whoever asks waits here for its turn, and holds it until its stream has ended.

    python examples/openai_stream.py --base-url http://127.0.0.1:8081/v1 --within 20 "Who are you?" "What is a pace?"

Works with every server that speaks this protocol (vLLM, SGLang, llama.cpp, Ollama, a hosted API). The address is taken
from OPENAI_BASE_URL and the key from OPENAI_API_KEY where they are set. All questions are asked at once; with one place
their answers come one after another, and a question that could not be answered in time is refused before it costs
anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI

from andante import Admission, Concurrency, Cost, Rejected, guard, request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openai.types.chat import ChatCompletionChunk


def reserved(*, messages: list[dict[str, str]], max_tokens: int, **_: object) -> Cost:
    """What a call may cost, known before it: a token for every four letters, and as long an answer as is allowed."""
    letters = sum(len(message["content"]) for message in messages)
    return Cost(input_tokens=letters / 4, output_tokens=max_tokens)


def tokens(chunk: ChatCompletionChunk) -> int:
    """Output tokens in a chunk. The first chunk brings only a role: time to first token must not end there."""
    return 1 if chunk.choices and chunk.choices[0].delta.content else 0


def settled(last: ChatCompletionChunk) -> Cost | None:
    """What the call has cost, known after it: the last chunk says so when `include_usage` asks for it."""
    usage = last.usage
    return None if usage is None else Cost(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)


async def answer(create: Any, model: str, question: str, max_tokens: int, within: float | None) -> None:
    """Print the answer as it comes, then what became of the call."""
    with request(within=within) as this:
        try:
            async with await create(
                model=model,
                messages=[{"role": "user", "content": question}],
                max_tokens=max_tokens,
                stream=True,
                stream_options={"include_usage": True},
            ) as stream:
                print(f"\n{question}")
                async for chunk in stream:
                    if tokens(chunk):
                        print(chunk.choices[0].delta.content, end="", flush=True)
        except Rejected as refused:
            print(f"\n{question}\n[refused: {refused.reason}]")
            return
    (account,) = this.accounts
    first = account.first or 0.0
    print(f"\n[waited {account.waited:.2f} s, first token after {first:.2f} s, {account.seconds:.2f} s in all]")


async def main(arguments: argparse.Namespace) -> None:
    admission = Admission(Concurrency(arguments.places), name="openai")
    pace = guard(admission, cost=reserved, items=tokens, settle=settled)
    key = os.environ.get("OPENAI_API_KEY", "none")
    async with AsyncOpenAI(base_url=arguments.base_url, api_key=key, max_retries=0) as client:
        create = pace(client.chat.completions.create)
        questions: Sequence[str] = arguments.question
        asked = [answer(create, arguments.model, text, arguments.max_tokens, arguments.within) for text in questions]
        await asyncio.gather(*asked)
    counts = admission.snapshot()
    print(f"\n{counts.offered} asked, {counts.done} answered, {counts.refused} refused")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stream answers, paced by andante.")
    parser.add_argument("question", nargs="+")
    parser.add_argument("--base-url", default=os.environ.get("OPENAI_BASE_URL"), help="for example http://host:8000/v1")
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--places", type=int, default=1, help="streams at once")
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--within", type=float, help="seconds in which an answer must be complete")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parsed()))
