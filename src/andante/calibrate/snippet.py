"""The Python that uses what was measured: an admission with its gates and objectives around the very call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andante.calibrate.drive import Calibration
    from andante.calibrate.level import Level

_ROOM = 2.0
"""An objective that nobody gave is so many times what nine calls in ten kept at the pace."""


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """How an endpoint is called: `key` is the name of the variable that holds its key."""

    url: str
    model: str
    max_tokens: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """How a function is called: `path` inside `module`, with `arguments` as Python source. `generator`: it is an async
    generator function."""

    module: str
    path: str
    arguments: str = ""
    generator: bool = False


def snippet(calibration: Calibration, use: EndpointUse | FunctionUse) -> str | None:
    """A program that calls the target at its natural pace, or None where none was found.

    Streams are paced by `NaturalPace`, which goes on learning, under a cap at what was tried and held; whole calls by
    a `Concurrency` at the pace.
    """
    pace = calibration.pace
    if pace is None:
        return None
    streams = bool(pace.ttft)
    gates = _gates(calibration, pace, streams)
    objectives, why = _objectives(calibration, pace, streams)
    names = sorted({"Admission", "ServiceClass", "guard", *(gate.partition("(")[0] for gate, _ in gates)})
    admission = ["admission = Admission("]
    admission += [f"    {gate},  # {comment}" for gate, comment in gates]
    admission += [f"    # {why}", f'    classes=[ServiceClass("default", {objectives})],', ")"]
    if isinstance(use, EndpointUse):
        return _endpoint(use, names, admission, streams)
    return _function(use, names, admission, streams)


def _gates(calibration: Calibration, pace: Level, streams: bool) -> list[tuple[str, str]]:
    if streams:
        held = _held(calibration, pace)
        gates = [("NaturalPace()", "finds the pace from the streams, whatever their sizes")]
        gates += [(f"Concurrency({held})", "never more than was tried and held")]
    else:
        gates = [(f"Concurrency({pace.n})", "the natural pace of calls like those that were measured")]
    if any(visit.pushback is not None for visit in calibration.visits):
        gates += [("Cooldown()", "after the server's own no, nobody calls for a while")]
    return gates


def _held(calibration: Calibration, pace: Level) -> int:
    """The most that kept the objectives, where there are any, and the pace where only the knee was looked for."""
    if calibration.bounds.ttft is None and calibration.bounds.itl is None:
        return pace.n
    bounds = calibration.bounds
    held = pace.n
    for level in calibration.levels:
        late = any(
            goal is not None and (tail := level.share(values, 0.9)) is not None and tail > goal
            for goal, values in ((bounds.ttft, level.ttft), (bounds.itl, level.itl))
        )
        if late or level.failed:
            break
        held = max(held, level.n)
    return held


def _objectives(calibration: Calibration, pace: Level, streams: bool) -> tuple[str, str]:
    bounds = calibration.bounds
    wanted = [("ttft", bounds.ttft, pace.ttft), ("itl", bounds.itl, pace.itl)]
    if not streams:
        wanted = [("e2e", None, pace.seconds)]
    given, found = [], []
    for name, goal, values in wanted:
        tail = pace.share(values, 0.9)
        if goal is not None:
            given.append(f"{name}={goal:g}")
        elif tail is not None and tail > 0:
            given.append(f"{name}={_up(_ROOM * tail):g}")
            found.append(f"{name} {tail:.2g} s")
    why = "seconds; your own goals"
    if found:
        why = f"seconds; put your own goals here (measured: nine in ten within {', '.join(found)})"
    return ", ".join(given) or "max_wait=30", why


def _up(value: float) -> float:
    """`value`, above 0, rounded up to two digits; at least a millisecond."""
    value = max(value, 0.001)
    places = 1 - floor(log10(value))
    power: float = 10.0**places
    return round(ceil(round(value * power, 6)) / power, 9)


def _endpoint(use: EndpointUse, names: list[str], admission: list[str], streams: bool) -> str:
    key = '"none"' if use.key is None else f"os.environ[{_quoted(use.key)}]"
    names = sorted({*names, "Cost"})
    ask = f"model={_quoted(use.model)}, messages=messages, max_tokens={use.max_tokens}"
    lines = ["import asyncio", *(["import os"] if use.key else []), "", "from openai import AsyncOpenAI", ""]
    lines += [f"from andante import {', '.join(names)}", "", *admission, "", ""]
    lines += [
        "def cost(*, messages, max_tokens, **_):",
        '    letters = sum(len(message["content"]) for message in messages)',
        "    return Cost(input_tokens=letters / 4, output_tokens=max_tokens)",
        "",
        "",
    ]
    if streams:
        lines += [
            "def tokens(chunk):",
            "    return 1 if chunk.choices and chunk.choices[0].delta.content else 0",
            "",
            "",
        ]
    guarded = f"guard(admission, cost=cost{', items=tokens' if streams else ''})(client.chat.completions.create)"
    lines += [
        "async def main():",
        f"    async with AsyncOpenAI(base_url={_quoted(use.url)}, api_key={key}, max_retries=0) as client:",
        f"        create = {guarded}",
        '        messages = [{"role": "user", "content": "What is a pace?"}]',
    ]
    if streams:
        lines += [
            f"        async with await create({ask}, stream=True) as stream:",
            "            async for chunk in stream:",
            "                if tokens(chunk):",
            '                    print(chunk.choices[0].delta.content, end="", flush=True)',
        ]
    else:
        lines += [f"        answer = await create({ask})", "        print(answer.choices[0].message.content)"]
    return "\n".join([*lines, "", "", "asyncio.run(main())"])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _function(use: FunctionUse, names: list[str], admission: list[str], streams: bool) -> str:
    lines = ["import asyncio", "", f"from {use.module} import {use.path.partition('.')[0]}", ""]
    lines += [f"from andante import {', '.join(names)}", "", *admission]
    lines += [
        f"paced = guard(admission)({use.path})  # cost=: input and output tokens of a call, where you know them",
        "",
        "",
        "async def main():",
    ]
    call = f"paced({use.arguments})"
    if streams:
        lines += [f"    async for item in {call if use.generator else f'await {call}'}:", "        print(item)"]
    else:
        lines += [f"    print(await {call})"]
    return "\n".join([*lines, "", "", "asyncio.run(main())"])
