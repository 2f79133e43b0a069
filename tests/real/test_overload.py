"""Twice what a real engine can do, by callers of three kinds: nothing leaks, and what is worth most is served in time.

`ANDANTE_REAL_SECONDS` (default 60) says for how long callers come; below 60 only leaks and slots are looked at.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

from andante import Admission
from tests.real.engine import Engine, serving
from tests.real.guarded import classes, gates, put_guard
from tests.real.load import KINDS, Record, Request, capacity, plan, run
from tests.real.nothing_left import assert_as_new, assert_books_balance, assert_loop_is_empty
from tests.real.score import goodput, table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.real.conftest import Connect
    from tests.real.engine import Model

    Lane = tuple[Engine, Any]
    """An engine, and a client of it."""

pytestmark = pytest.mark.real

SECONDS = float(os.environ.get("ANDANTE_REAL_SECONDS", "60"))
OVERLOAD = 2.0
"""Arrivals, as a multiple of what the engine was measured to serve just before."""
SEED = 1
TIMES_BETTER = 3.0
"""By how much the goodput of `Concurrency(1)` with classes must exceed that of no control."""


@asynccontextmanager
async def lanes(number: int, model: Model, folder: Path, connect: Connect) -> AsyncIterator[list[Lane]]:
    """So many engines of their own, each with a client."""
    async with AsyncExitStack() as stack:
        engines = [stack.enter_context(serving(model, folder / f"engine-{lane}.txt")) for lane in range(number)]
        yield [(engine, await stack.enter_async_context(connect(engine))) for engine in engines]
    await assert_loop_is_empty()


async def callers(model: Model, over: list[Lane]) -> list[Request]:
    """Callers at `OVERLOAD` times what one lane can do while all are busy."""
    tries = [capacity(client.chat.completions.create, model, SEED) for _, client in over]
    served = mean(await asyncio.gather(*tries))
    print(f"\ncapacity {served:.2f} requests/s; callers for {SECONDS:g} s at {OVERLOAD * served:.2f} a second")
    return plan(model, OVERLOAD * served, SECONDS, SEED)


async def without_control(lane: Lane, requests: list[Request], drain: float) -> list[Record]:
    """Every caller straight to the engine."""
    _, client = lane
    return await run({kind.name: client.chat.completions.create for kind in KINDS}, requests, drain=drain)


async def with_andante(lane: Lane, requests: list[Request], drain: float) -> list[Record]:
    """Every caller through one admission: one place, three classes. Then everything must be as if nobody had come."""
    engine, client = lane
    admission = Admission(*gates(1), classes=classes(), name="llama")
    creates = {kind.name: put_guard(admission, client.chat.completions.create, kind.name) for kind in KINDS}
    records = await run(creates, requests, drain=drain)
    assert_books_balance(admission.snapshot())
    # The server writes an unstreamed answer to its end, whoever has left; a stream it ends at once.
    unstreamed = any(record.cut and not record.request.kind.streamed for record in records)
    took = await engine.idle(within=20 if unstreamed else 2)
    print(f"{took:.2f} s after the last caller the engine's slots were all free; {admission!r}")
    assert_as_new(admission, gates(1))
    for kind in KINDS:
        mine = [record for record in records if record.request.kind is kind]
        counts = admission.snapshot().classes[kind.name]
        assert counts.offered == len(mine)
        assert counts.done == sum(record.answered for record in mine)
        assert counts.refused == sum(record.refused is not None for record in mine)
        assert counts.withdrawn + counts.ignored == sum(record.left or record.cut for record in mine)
    return records


def assert_sound(records: list[Record]) -> None:
    """Nobody got an error, and every answer is as long as was asked for."""
    assert not [record.failed for record in records if record.failed is not None]
    short = [record for record in records if record.answered and record.tokens != record.request.output_tokens]
    assert not short


def test_nothing_leaks_at_twice_the_capacity(
    model: Model, tmp_path: Path, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    """Laws 1, 2 and 4 against a real engine, with a cut-off while calls are inside and waiting."""

    async def main() -> list[Record]:
        async with lanes(1, model, tmp_path, connect) as (lane,):
            return await with_andante(lane, await callers(model, [lane]), drain=0.0)

    with capsys.disabled():
        records = asyncio.run(main())
        print(table("andante, cut off at the end", records))
    assert_sound(records)
    assert any(record.answered for record in records)
    assert any(record.cut for record in records)


@pytest.mark.skipif(SECONDS < 60, reason="a comparison needs 60 s (ANDANTE_REAL_SECONDS)")
def test_goodput_at_twice_the_capacity(
    model: Model, tmp_path: Path, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Concurrency(1)` with classes brings at least three times the value of no control, over all that was offered.

    The same callers come to both in the same minute, each on an engine of its own, so that whatever else this machine
    does slows both. After the last of them there are 15 s more, by when the objectives of the two upper classes have
    decided; whoever is still there is then cut off."""

    async def main() -> tuple[list[Record], list[Record]]:
        async with lanes(2, model, tmp_path, connect) as (one, other):
            requests = await callers(model, [one, other])
            return await asyncio.gather(
                without_control(one, requests, drain=15.0), with_andante(other, requests, drain=15.0)
            )

    with capsys.disabled():
        bare, paced = asyncio.run(main())
        print(table("no control", bare))
        print(table("andante, Concurrency(1) and classes", paced))
        print(f"andante / no control: {goodput(paced) / goodput(bare):.2f}")
    assert_sound(bare)
    assert_sound(paced)
    assert goodput(paced) >= TIMES_BETTER * goodput(bare)
