"""Tests of your own: an hour in a moment, a backend that does as it is told, and the laws at the end.

Run it: python examples/testing_with_virtual_time.py   (or: pytest examples/testing_with_virtual_time.py)
"""

# --8<-- [start:setup]
from typing import Any

import anyio
import pytest

from andante import Admission, Call, Concurrency, LineFull, ServiceClass, TokenBucket, guard
from andante.testing import (
    Answer,
    Recorder,
    ScriptedBackend,
    Stall,
    Stream,
    any_window_count,
    balanced,
    virtual_backend,
)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Every test marked `anyio` runs on both event loops, in virtual time that begins at 0."""
    return virtual_backend(request.param)


# --8<-- [end:setup]


# --8<-- [start:pace]
@pytest.mark.anyio
async def test_an_hour_of_calls() -> None:
    backend = ScriptedBackend(default=Answer("hello", after=2.0))
    admission = Admission(TokenBucket(20, "minute", strict_window=True))
    ask = guard(admission)(backend.call)

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(ask, f"prompt {number}")

    assert 48 * 60 < backend.arrivals[-1] < 52 * 60  # seconds, which took none
    assert any_window_count(backend.arrivals, 60) <= 20
    balanced(admission)  # nothing inside, nothing waits, nothing lost
    backend.assert_balanced()  # nothing in flight, every stream closed once


# --8<-- [end:pace]


# --8<-- [start:story]
@pytest.mark.anyio
async def test_who_gets_in() -> None:
    recorder = Recorder()
    backend = ScriptedBackend([Stream("abc", first=0.5, gap=0.1), Stall()])
    chat = ServiceClass("chat", max_waiting=1)
    admission = Admission(Concurrency(1), classes=[chat], name="door", listeners=[recorder])

    @guard(admission)
    async def read(prompt: str) -> list[str]:
        async with backend.stream(prompt) as stream:
            return [item async for item in stream]

    async with anyio.create_task_group() as group:
        group.start_soon(read, "first")
        await anyio.sleep(0.2)
        group.start_soon(read, "second")
        await anyio.sleep(0.2)
        with pytest.raises(LineFull):
            await read("third")
        await anyio.sleep(2)
        group.cancel_scope.cancel()  # the second stalls; its caller gives up

    assert [call.ending for call in backend.calls] == ["answered", "cancelled"]
    assert recorder.counts()["Refused"] == 1
    assert recorder.conserved()
    balanced(admission)
    print(recorder.story())


# --8<-- [end:story]


# --8<-- [start:pure]
def test_without_an_event_loop() -> None:
    from andante import Controller
    from andante.testing import ManualClock

    clock = ManualClock()
    controller = Controller(TokenBucket(1, "minute"))
    controller.offer(Call(), clock())
    waiting = controller.offer(Call(), clock())
    clock.advance_to(controller.next_look(clock()))
    assert controller.step(clock()) == [waiting]
    assert clock() == 60.0


# --8<-- [end:pure]


# --8<-- [start:run]
async def measure() -> float:
    """Not a test, but a program: how long do 100 calls take through 8 places?"""
    backend = ScriptedBackend(default=Answer(after=1.5))
    ask = guard(Admission(Concurrency(8)))(backend.call)
    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(ask)
    return anyio.current_time()


def test_measure() -> None:
    from andante.testing import run

    assert run(measure) == 13 * 1.5  # of virtual time


# --8<-- [end:run]


if __name__ == "__main__":
    import subprocess
    import sys

    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", __file__]
    raise SystemExit(subprocess.call(command))
