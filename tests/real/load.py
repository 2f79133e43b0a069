"""An open load: three kinds of callers who come at random, want an answer in time, and leave when it takes too long.

Open means that arrivals do not wait for answers: an engine that falls behind gets no mercy. Only loopback, bounded in
number and time; the same seed brings the same callers.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

from andante import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from tests.real.engine import Model

    Create = Callable[..., Coroutine[Any, Any, Any]]
    """`client.chat.completions.create`, bare or guarded."""

SIGMA = 0.6
"""The spread of lengths: the standard deviation of the logarithm of a lognormal."""
MOST = 2000
"""No run has more callers than this."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of caller. Lengths are medians in tokens, times are seconds; an answer within every objective is good."""

    name: str
    share: float
    prompt: float
    output: float
    value: float
    """What a good answer is worth."""
    patience: float
    """How long it waits for the first token (for the answer, where it does not stream) before it leaves."""
    ttft: float = inf
    itl: float = inf
    """The mean time between tokens."""
    e2e: float = inf
    streamed: bool = True


KINDS = (
    Kind("interactive", 0.5, 50, 40, value=3, patience=10, ttft=1.0, itl=0.012),
    Kind("standard", 0.3, 110, 60, value=2, patience=30, e2e=15.0),
    Kind("batch", 0.2, 200, 90, value=1, patience=240, e2e=120.0, streamed=False),
)


@dataclass(frozen=True, slots=True)
class Request:
    """One caller: when it comes (seconds after the start), and what it asks for."""

    at: float
    kind: Kind
    prompt: str
    prompt_tokens: int
    output_tokens: int

    @property
    def arguments(self) -> dict[str, Any]:
        """What is given to `create`. The answer is exactly as long as asked: random weights know no end."""
        arguments: dict[str, Any] = {
            "model": "random-llama",
            "messages": [{"role": "user", "content": self.prompt}],
            "max_tokens": self.output_tokens,
            "temperature": 0,
            "extra_body": {"ignore_eos": True},
        }
        if self.kind.streamed:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        return arguments


@dataclass(slots=True)
class Record:
    """What one caller saw. Times are seconds after its planned arrival; inf where it did not come to that."""

    request: Request
    first: float = inf
    last: float = inf
    end: float = inf
    """When it was over for this caller: answered, refused, left, failed or cut off."""
    tokens: int = 0
    answered: bool = False
    refused: Rejected | None = None
    left: bool = False
    cut: bool = False
    """The run was over before it."""
    failed: BaseException | None = field(default=None)

    @property
    def itl(self) -> float:
        """The mean time between tokens, in seconds; 0 where there is only one."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else 0.0

    @property
    def good(self) -> bool:
        """Answered within every objective of its kind."""
        kind = self.request.kind
        if not self.answered or self.end > kind.e2e:
            return False
        return not kind.streamed or (self.first <= kind.ttft and self.itl <= kind.itl)


def plan(model: Model, rate: float, seconds: float, seed: int) -> list[Request]:
    """Poisson arrivals at `rate` a second for `seconds`, each with its own lengths and words."""
    draw = random.Random(seed)
    requests: list[Request] = []
    at = draw.expovariate(rate)
    while at < seconds and len(requests) < MOST:
        kind = draw.choices(KINDS, [kind.share for kind in KINDS])[0]
        prompt = _length(draw, kind.prompt, 8, 600)
        output = _length(draw, kind.output, 4, 300)
        requests.append(Request(at, kind, model.prompt(draw, prompt), prompt, output))
        at += draw.expovariate(rate)
    return requests


def _length(draw: random.Random, median: float, low: int, high: int) -> int:
    return min(high, max(low, round(draw.lognormvariate(log(median), SIGMA))))


async def capacity(create: Create, model: Model, seed: int) -> float:
    """Requests of the mix a second that the engine serves, two at once so that it never waits for its caller. The best
    of three tries: what else runs on this machine can only slow it down."""
    draw = random.Random(seed)
    return max([await _served(create, _average_mix(model, draw)) for _ in range(3)])


def _average_mix(model: Model, draw: random.Random) -> list[Request]:
    """Ten callers in the shares of the mix, each with the *mean* lengths of its kind: they cost what it costs."""
    requests = []
    for kind in KINDS:
        prompt, output = (round(median * exp(SIGMA**2 / 2)) for median in (kind.prompt, kind.output))
        for _ in range(round(10 * kind.share)):
            requests.append(Request(0.0, kind, model.prompt(draw, prompt), prompt, output))
    draw.shuffle(requests)
    return requests


async def _served(create: Create, requests: list[Request]) -> float:
    async def one_after_the_other(turn: Iterator[Request]) -> None:
        for request in turn:
            record = Record(request)
            await attend(create, record, time.monotonic())
            assert record.answered, record.failed

    began, turn = time.monotonic(), iter(requests)
    await asyncio.gather(one_after_the_other(turn), one_after_the_other(turn))
    return len(requests) / (time.monotonic() - began)


async def run(creates: Mapping[str, Create], requests: list[Request], *, drain: float) -> list[Record]:
    """Let every caller come at its time, to its kind's `create`; `drain` seconds after the last arrival cut off who is
    still there: not good, wherever it stood. Returns one record per caller, none left out."""
    records = [Record(request) for request in requests]
    tasks = []
    start = time.monotonic()
    for record in records:
        await asyncio.sleep(max(0.0, start + record.request.at - time.monotonic()))
        work = attend(creates[record.request.kind.name], record, start + record.request.at)
        tasks.append(asyncio.create_task(work))
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=drain)
        for task in late:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                raise ended
    return records


async def attend(create: Create, record: Record, arrival: float) -> None:
    """One caller, from its planned arrival (so that a late start counts against whoever caused it) to its end."""
    kind = record.request.kind
    try:
        async with asyncio.timeout_at(_loop_time(arrival + kind.patience)) as leaving:
            answer = await create(**record.request.arguments)
            if kind.streamed:
                await _read(answer, record, arrival, leaving)
            else:
                record.tokens = answer.usage.completion_tokens
                record.answered = True
    except Rejected as refused:
        record.refused = refused
    except TimeoutError:
        record.left = True
    except asyncio.CancelledError:
        record.cut = not record.answered
        raise
    except Exception as failed:
        record.failed = failed
    finally:
        record.end = time.monotonic() - arrival


async def _read(stream: Any, record: Record, arrival: float, leaving: asyncio.Timeout) -> None:
    async with stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                record.last = time.monotonic() - arrival
                if record.first == inf:
                    record.first = record.last
                    leaving.reschedule(None)  # whoever reads an answer stays
            if chunk.usage is not None:
                record.tokens = chunk.usage.completion_tokens
        record.answered = True  # at once: the next await may be the one that is cut off


def _loop_time(monotonic: float) -> float:
    return asyncio.get_running_loop().time() + monotonic - time.monotonic()
