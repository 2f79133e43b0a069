"""CoDel with newest first: who goes next while the queue is calm, and while it stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from andante.errors import ConfigurationError, Shed
from andante.simulate.codel import codel_lifo
from andante.simulate.workload import ClientClass, Request
from andante.testing.virtual_time import VirtualTimeLoop

CALL = Request(0.0, 1, 1, ClientClass("all", share=1))


def serve(arrivals: list[float], seconds: float, places: int = 1, **options: float) -> dict[int, float | str]:
    """When each call started, or "shed"; each takes `seconds` inside."""
    told: dict[int, float | str] = {}

    async def one(number: int, way: Any) -> None:
        try:
            async with way(CALL):
                told[number] = round(asyncio.get_running_loop().time(), 6)
                await asyncio.sleep(seconds)
        except Shed:
            told[number] = "shed"

    async def everybody() -> None:
        way = codel_lifo(places, **options)()
        async with asyncio.TaskGroup() as tasks:
            before = 0.0
            for number, at in enumerate(arrivals):
                await asyncio.sleep(at - before)
                before = at
                tasks.create_task(one(number, way))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(everybody())
    return told


def test_first_come_first_served_while_calm() -> None:
    """A queue that empties again and again is no overload: oldest first, nobody is shed."""
    assert serve([0.0, 0.01, 0.02], seconds=0.1, target=0.25) == {0: 0.0, 1: 0.1, 2: 0.2}


def test_newest_first_and_shedding_while_it_stands() -> None:
    """A standing queue: from the second interval on those that waited longest are shed, and the newest goes first."""
    arrivals = [k * 0.5 for k in range(20)]
    told = serve(arrivals, seconds=1.0, target=0.25, interval=1.0)
    assert "shed" in told.values()
    served = [number for number, at in told.items() if at != "shed"]
    assert served[-1] == 19, "the newest is served, however many are before it"
    late = [told[number] - arrivals[number] for number in served[5:]]  # type: ignore[operator]
    assert max(late) <= 2 * 0.25 + 1.0


def test_a_client_that_leaves_the_queue_takes_no_place() -> None:
    """Cancelled in the queue, or in the moment of its turn: the place goes to the next."""

    async def scene() -> list[str]:
        loop = asyncio.get_running_loop()
        way = codel_lifo(1)()
        told = []

        async def one(name: str, seconds: float) -> None:
            async with way(CALL):
                told.append(f"{name} at {loop.time():g}")
                await asyncio.sleep(seconds)

        first = way(CALL)
        await first.__aenter__()
        gone = asyncio.ensure_future(one("gone", 1.0))
        late = asyncio.ensure_future(one("granted", 1.0))
        await asyncio.sleep(0.5)
        gone.cancel()
        await first.__aexit__(None, None, None)
        late.cancel()  # its turn has come, but it has not run yet
        last = asyncio.ensure_future(one("last", 1.0))
        await asyncio.wait_for(last, 10.0)
        await asyncio.gather(gone, late, return_exceptions=True)
        return told

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(scene()) == ["last at 0.5"]


@pytest.mark.parametrize("places", [0, -1, 1.5, True, "8", None])
def test_bad_places(places: Any) -> None:
    """Only whole numbers above 0."""
    with pytest.raises(ConfigurationError, match="places must be a whole number"):
        codel_lifo(places)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_bad_times(value: Any) -> None:
    """Only finite seconds above 0."""
    with pytest.raises(ConfigurationError, match="target must be"):
        codel_lifo(1, target=value)
    with pytest.raises(ConfigurationError, match="interval must be"):
        codel_lifo(1, interval=value)
