"""Bad configuration, gates that raise, clocks that are strange: clear errors, and nothing lost."""

from __future__ import annotations

import logging
from math import nan
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    ConfigurationError,
    Gate,
    ServiceClass,
    TokenBucket,
    WouldWait,
)
from andante.testing import ManualClock, Recorder, balanced

pytestmark = pytest.mark.anyio


async def _enter_and_leave(admission: Admission) -> None:
    (await admission.enter()).close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": None},
        {"classes": [ServiceClass("a"), ServiceClass("a")]},
        {"classes": ["a"]},
        {"classes": [ServiceClass("a", floor=0.7), ServiceClass("b", floor=0.7)]},
        {"size_bias": -1},
        {"size_bias": nan},
        {"size_bias": "much"},
        {"listeners": [object()]},
    ],
    ids=str,
)
def test_bad_configuration(arguments: dict[str, Any]) -> None:
    """What makes no sense is found when the admission is made, and the error says what."""
    with pytest.raises(ConfigurationError):
        Admission(Concurrency(1), **arguments)


def test_the_same_gate_twice() -> None:
    """Also through a class: it would take two places for one call."""
    gate = Concurrency(1)
    with pytest.raises(ConfigurationError, match="twice"):
        Admission(gate, gate)
    with pytest.raises(ConfigurationError, match="twice"):
        Admission(gate, classes=[ServiceClass("a", gates=(gate,))])
    with pytest.raises(ConfigurationError, match="gates"):
        Admission("not a gate")  # type: ignore[arg-type]


class Broken(Gate):
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def delay(self, entry: Any, now: float) -> float:
        if self.where == "delay":
            raise ValueError("delay")
        return 0.0

    def enter(self, entry: Any, now: float) -> None:
        if self.where == "enter":
            raise ValueError("enter")

    def leave(self, entry: Any, outcome: Any, now: float) -> None:
        if self.where == "leave":
            raise ValueError("leave")

    def snapshot(self, now: float) -> dict[str, Any]:
        if self.where == "snapshot":
            raise ValueError("snapshot")
        return {}


@pytest.mark.parametrize("where", ["delay", "enter", "leave"])
@pytest.mark.parametrize("order", [1, -1])
async def test_a_gate_that_raises_leaks_nothing(where: str, order: int, caplog: Any) -> None:
    """Law 2: a gate of one's own that raises never costs the other gates a place, in whatever order they stand."""
    broken = Broken(where)
    admission = Admission(*[Concurrency(1), broken][::order])
    for _ in range(3):
        with pytest.raises(ValueError, match=where):
            async with admission.admit():
                pass
    broken.where = ""
    async with admission.admit():
        pass
    balanced(admission)


async def test_a_gate_without_snapshot_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Law 2: with a listener, a gate whose `snapshot` raises is reported once and breaks no call."""
    admission = Admission(Concurrency(1), Broken("snapshot"), listeners=[Recorder()])
    with caplog.at_level(logging.ERROR, "andante"):
        for _ in range(3):
            async with admission.admit():
                pass
    assert len(admission.controller.inside) == 0
    assert len(caplog.records) == 1


async def test_a_clock_of_ones_own() -> None:
    """The admission's clock may be another than the event loop's; deadlines are on it, and waits end by it."""
    clock = ManualClock(1_000)
    admission = Admission(TokenBucket(1, burst=1), Concurrency(1), clock=clock)
    admission.try_enter().close()
    assert admission.explain().start_in == pytest.approx(1)
    clock.advance(1)
    async with admission.admit(Call(deadline=1_010)):
        clock.advance(2)
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            held = admission.try_enter()
            group.start_soon(_enter_and_leave, admission)
            await anyio.sleep(5)  # no time passes for the admission
            assert admission.controller.waiting == 1
            clock.advance(1)
            held.close()
    balanced(admission)


async def test_a_clock_that_goes_back() -> None:
    """FC-07: nobody is locked out and nobody gets a free burst."""
    time = [1_000.0]
    admission = Admission(TokenBucket(1, burst=2), clock=lambda: time[0])
    for _ in range(2):
        admission.try_enter().close()
    time[0] -= 500
    with pytest.raises(WouldWait):
        admission.try_enter()
    time[0] += 1.0
    admission.try_enter().close()
    with pytest.raises(WouldWait):
        admission.try_enter()
    balanced(admission)
