"""Live changes: limits, gates, classes; and draining."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    Call,
    Closed,
    Concurrency,
    ConfigurationError,
    DeadlineExpired,
    Rejected,
    ServiceClass,
    Shed,
    TokenBucket,
)
from andante.events import LimitChanged
from andante.testing import Recorder, balanced, check_conservation

pytestmark = pytest.mark.anyio


DEFAULT = Call()


class Crowd:
    """Callers that hold for a while, and when each of them started or was refused."""

    def __init__(self, admission: Admission, group: Any, hold: float = 0.0) -> None:
        self.admission = admission
        self.group = group
        self.hold = hold
        self.started: list[float] = []
        self.refused: list[tuple[float, Rejected]] = []

    async def come(self, number: int, call: Call = DEFAULT) -> None:
        offered = self.admission.snapshot().offered
        for _ in range(number):
            self.group.start_soon(self._one, call)
        while self.admission.snapshot().offered < offered + number:
            await anyio.lowlevel.checkpoint()

    async def _one(self, call: Call) -> None:
        try:
            async with self.admission.admit(call):
                self.started.append(self.admission.now())
                await anyio.sleep(self.hold)
        except Rejected as error:
            self.refused.append((self.admission.now(), error))


async def test_a_raised_rate_is_seen_at_once() -> None:
    """FC-09: 1 a minute with three waiters, raised to 60 a minute: the next starts within a second."""
    gate = TokenBucket(1, "minute")
    admission = Admission(gate)
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group)
        await crowd.come(4)
        await anyio.sleep(10)
        gate.rate = 60
    assert crowd.started == pytest.approx([0, 10 + 50 / 60, 11 + 50 / 60, 12 + 50 / 60], abs=0.01)
    balanced(admission)


async def test_a_raised_limit_lets_in_as_many_as_fit() -> None:
    """FC-09: places 1 to 5 with ten waiters: exactly five run; lowered again, nobody is sent away and none comes in."""
    gate = Concurrency(1)
    admission = Admission(gate)
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group, hold=10)
        await crowd.come(11)
        gate.limit = 5
        await anyio.sleep(1)
        assert admission.snapshot().inside == 5
        gate.limit = 2
        await anyio.sleep(1)
        assert admission.snapshot().inside == 5
    assert crowd.started == pytest.approx([0] * 5 + [10, 10, 20, 20, 30, 30], abs=0.01)
    balanced(admission)


async def test_new_gates_count_who_is_inside() -> None:
    """A gate that is added is told of the calls inside, and one that is removed hears of their ends."""
    old, new = Concurrency(3, name="old"), Concurrency(2, name="new")
    admission = Admission(old)
    permits = [admission.try_enter() for _ in range(2)]
    admission.reconfigure(gates=[new])
    assert new.inside == 2
    assert not admission.explain().admitted
    for permit in permits:
        permit.close()
    assert (old.inside, new.inside) == (0, 0)
    balanced(admission)


async def test_waiters_are_planned_anew() -> None:
    """A bound that is set while they wait counts from their arrival; a class that is gone sheds its waiters."""
    admission = Admission(Concurrency(1), classes=[ServiceClass("chat"), ServiceClass("bulk")])
    held = admission.try_enter()
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group)
        await crowd.come(2, Call(service="chat"))
        await crowd.come(2, Call(service="bulk"))
        await anyio.sleep(1)
        admission.reconfigure(classes=[ServiceClass("chat", max_wait=3)])
        await anyio.sleep(9)
        held.close()
    assert [type(error) for _, error in crowd.refused] == [Shed, Shed, DeadlineExpired, DeadlineExpired]
    assert [at for at, _ in crowd.refused] == pytest.approx([1, 1, 3, 3], abs=0.001)
    check_conservation(admission.snapshot())
    balanced(admission)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": []},
        {"classes": [ServiceClass("a"), ServiceClass("a")]},
        {"gates": ["x"]},
        {"gates": [(gate := Concurrency(1)), gate]},
        {"size_bias": -1},
    ],
    ids=str,
)
async def test_a_bad_change_changes_nothing(change: dict[str, Any]) -> None:
    """ConfigurationError, and everything goes on as before."""
    admission = Admission(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b")])
    held = admission.try_enter()
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group)
        await crowd.come(2)
        before = repr(admission), admission.snapshot()
        with pytest.raises(ConfigurationError):
            admission.reconfigure(**change)
        assert (repr(admission), admission.snapshot()) == before
        held.close()
    assert len(crowd.started) == 2
    balanced(admission)


async def test_limits_are_told_once_per_change() -> None:
    """LimitChanged: at the first call, at each change, also through `reconfigure`; gates of one name are kept apart."""
    recorder = Recorder()
    one, two = Concurrency(3), Concurrency(5)
    admission = Admission(one, classes=[ServiceClass("default", gates=(two,))], listeners=[recorder])
    for _ in range(3):
        admission.try_enter().close()
    one.limit = 4
    one.limit = 4
    admission.reconfigure(gates=[Concurrency(7)])
    admission.try_enter().close()
    assert [event.limit for event in recorder.of(LimitChanged)] == [3, 5, 4, 7]


# Draining. ------------------------------------------------------------------------------------------------------------


async def test_drain_lets_all_finish() -> None:
    """New calls are refused, who waits and who is inside finishes, and drain returns 0 as the last one leaves."""
    admission = Admission(Concurrency(1))
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group, hold=1)
        await crowd.come(3)
        assert await admission.drain() == 0
        assert admission.now() == pytest.approx(3)
        await crowd.come(1)
    assert crowd.started == pytest.approx([0, 1, 2], abs=0.01)
    assert [type(error) for _, error in crowd.refused] == [Closed]
    with pytest.raises(Closed):
        admission.try_enter()
    balanced(admission)


@pytest.mark.parametrize("timeout", [0, 1.5])
async def test_drain_that_runs_out_of_time(timeout: float) -> None:
    """Who still waits is refused; nothing inside is cancelled, and it is counted."""
    admission = Admission(Concurrency(1))
    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group, hold=1)
        await crowd.come(4)
        assert await admission.drain(timeout) == 1
        assert admission.now() == pytest.approx(timeout)
    assert len(crowd.started) == (1 if timeout == 0 else 2)
    assert {type(error) for _, error in crowd.refused} == {Closed}
    assert await admission.drain() == 0
    balanced(admission)


async def test_two_drains_and_a_cancelled_one() -> None:
    """Both end with the last call; one that is cancelled takes nothing with it."""
    admission = Admission(Concurrency(1))
    ended: list[float] = []

    async def drain() -> None:
        assert await admission.drain() == 0
        ended.append(admission.now())

    async with anyio.create_task_group() as group:
        crowd = Crowd(admission, group, hold=2)
        await crowd.come(2)
        with anyio.move_on_after(1):
            await admission.drain()
        group.start_soon(drain)
        group.start_soon(drain)
    assert ended == pytest.approx([4, 4], abs=0.01)
    balanced(admission)


async def test_drain_of_an_idle_admission() -> None:
    """At once, and again."""
    admission = Admission(Concurrency(1))
    assert await admission.drain() == 0
    assert await admission.drain(5) == 0
    assert admission.now() == 0


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
async def test_drain_with_nonsense(timeout: Any) -> None:
    """It says so, and the admission stays open."""
    admission = Admission(Concurrency(1))
    with pytest.raises(ConfigurationError, match="timeout"):
        await admission.drain(timeout)
    admission.try_enter().close()


async def test_drain_when_the_last_waiter_gives_up() -> None:
    """It ends with whoever is the last, also one who was cancelled while waiting."""
    admission = Admission(TokenBucket(1, "hour", burst=1))
    admission.try_enter().close()

    async def gives_up() -> None:
        with anyio.move_on_after(5):
            await admission.enter()

    async with anyio.create_task_group() as group:
        group.start_soon(gives_up)
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        assert await admission.drain() == 0
    assert admission.now() == pytest.approx(5)
    balanced(admission)
