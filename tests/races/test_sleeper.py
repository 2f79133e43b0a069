"""Law 4 where there is no timer to set: one waiter sleeps for all, and hands the role on whenever it goes."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from andante import Admission, Call, Concurrency, Cooldown, Ending, Rejected, ServiceClass, TokenBucket
from andante.testing import balanced
from andante.wake import EventHost

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True),
]


DEFAULT = Call()


class Crowd:
    """Callers of one admission, who can be cancelled one by one."""

    def __init__(self, admission: Admission, group: anyio.abc.TaskGroup) -> None:
        self.admission = admission
        self.group = group
        self.scopes: list[anyio.CancelScope] = []
        self.started: dict[int, float] = {}
        self.refused: dict[int, float] = {}

    async def come(self, number: int = 1, call: Call = DEFAULT, hold: float = 0.0) -> None:
        """Until all are parked, or in."""
        for _ in range(number):
            self.group.start_soon(self._one, len(self.scopes), scope := anyio.CancelScope(), call, hold)
            self.scopes.append(scope)
            before = self.admission.snapshot().offered
            while self.admission.snapshot().offered == before:
                await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    async def _one(self, number: int, scope: anyio.CancelScope, call: Call, hold: float) -> None:
        with scope:
            try:
                async with self.admission.admit(call):
                    self.started[number] = self.admission.now()
                    await anyio.sleep(hold)
            except Rejected:
                self.refused[number] = self.admission.now()

    @property
    def host(self) -> EventHost:
        host = self.admission.home.host
        assert isinstance(host, EventHost)
        return host


async def test_the_granted_sleeper_hands_on() -> None:
    """The first waiter sleeps; granted, it leaves, and the next one sleeps on: all start at the rate."""
    admission = Admission(TokenBucket(1, burst=1))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(5)
            assert crowd.host._sleeper is not None
    assert list(crowd.started.values()) == pytest.approx([0, 1, 2, 3, 4], abs=1e-6)
    balanced(admission)
    assert crowd.host._sleeper is None
    assert not crowd.host._parked


@pytest.mark.parametrize("gone", [(1,), (1, 2), (2,), (4,), (1, 2, 3)])
async def test_the_cancelled_sleeper_hands_on(gone: tuple[int, ...]) -> None:
    """The sleeper, or others, are cancelled while they wait; the others start as if those had never come."""
    admission = Admission(TokenBucket(1, burst=1))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(5)
            await anyio.sleep(0.5)
            for number in gone:
                crowd.scopes[number].cancel()
    assert list(crowd.started.values()) == pytest.approx(list(range(5 - len(gone))), abs=1e-6)
    balanced(admission)


async def test_sleeper_cancelled_at_the_moment_it_would_wake() -> None:
    """FC-13: its alarm and its cancellation come at the same time; the next one takes over without losing the turn."""
    admission = Admission(TokenBucket(1, burst=1))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(2)
            crowd.scopes[1].deadline = anyio.current_time() + 1 - admission.now()
            await crowd.come(2)
    assert len(crowd.started) in {3, 4}
    assert list(crowd.started.values()) == pytest.approx(list(range(len(crowd.started))), abs=0.0011)
    balanced(admission)


async def test_all_sleepers_cancelled_in_one_step() -> None:
    """Who takes over may be cancelled before it knows."""
    admission = Admission(TokenBucket(1, burst=1))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(6)
            for scope in crowd.scopes[1:5]:
                scope.cancel()
            await anyio.lowlevel.checkpoint()
            assert crowd.host._sleeper is None or crowd.host._sleeper in crowd.host._parked
    assert crowd.started == pytest.approx({0: 0.0, 5: 1.0}, abs=1e-6)
    balanced(admission)


async def test_handed_on_and_granted_in_one_step() -> None:
    """The role goes to one who is granted in that very step: it goes on to the next."""
    gate = Concurrency(1)
    admission = Admission(gate, TokenBucket(1, burst=2))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            held = admission.try_enter()
            await crowd.come(4)
            crowd.scopes[0].cancel()  # the sleeper goes, the next is told to sleep ...
            gate.limit = 2  # ... and let in
            await anyio.sleep(1e-6)
            assert 1 in crowd.started
            held.close()
    assert sorted(crowd.started) == [1, 2, 3]
    balanced(admission)


async def test_an_earlier_alarm_wakes_the_sleeper() -> None:
    """The sleeper has gone to sleep for long; a caller with an earlier end comes; it is refused in time."""
    admission = Admission(
        TokenBucket(1, "minute", burst=1),
        classes=[ServiceClass("patient"), ServiceClass("hasty", max_wait=2, early_refusal=False)],
    )
    gate = Concurrency(1)
    admission.reconfigure(gates=[gate])
    held = admission.try_enter(Call(service="patient"))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(1, Call(service="patient"))
            await crowd.come(1, Call(service="hasty"))
            await anyio.sleep(5)
            held.close()
    assert crowd.refused == pytest.approx({1: 2.0}, abs=1e-6)
    assert crowd.started == pytest.approx({0: 5.0}, abs=1e-6)
    balanced(admission)


async def test_cooldown_ends_by_time_alone() -> None:
    """A hold that begins while callers wait is slept through by one of them."""
    admission = Admission(Concurrency(2), Cooldown())
    first = admission.try_enter()
    second = admission.try_enter()
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(3)
            first.failure = (Ending.OVERLOADED, 7.0, None)
            first.close()
            second.close()
    assert list(crowd.started.values()) == pytest.approx([7, 7, 7], abs=0.01)
    balanced(admission)


async def test_wakeups_grow_with_grants() -> None:
    """Law 4: 2,000 wait, 100 are let in; the tasks that ran meanwhile are a small multiple of 100."""
    admission = Admission(TokenBucket(100, burst=1), classes=[ServiceClass("default", max_waiting=1e9)])
    with anyio.fail_after(1000):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(2_001)
            counter = Counter()
            trio.lowlevel.add_instrument(counter)
            await anyio.sleep(1.0001 - admission.now())
            trio.lowlevel.remove_instrument(counter)
            started = len(crowd.started)
            group.cancel_scope.cancel()
    assert started == pytest.approx(101, abs=1)
    # Let in, it wakes, wakes the next to sleep, sleeps for 0 s and ends; who sleeps is woken by its timer.
    assert counter.steps < 6 * started
    balanced(admission)


class Counter(trio.abc.Instrument):
    def __init__(self) -> None:
        self.steps = 0

    def before_task_step(self, task: Any) -> None:
        self.steps += 1


async def test_nothing_keeps_who_has_gone() -> None:
    """FC-67: after all have left, the host refers to none of them."""
    admission = Admission(TokenBucket(1, burst=1))
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            crowd = Crowd(admission, group)
            await crowd.come(4)
            await anyio.sleep(0.5)
            crowd.scopes[1].cancel()
    gc.collect()
    assert not crowd.host._parked
    assert crowd.host._sleeper is None
