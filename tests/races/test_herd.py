"""Law 4: one timer for all who wait, and no more wake-ups than grants."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from andante import Admission, Concurrency, ServiceClass, TokenBucket, WouldWait
from andante.testing import VirtualTimeLoop, balanced, run

MANY = ServiceClass("default", max_waiting=1e9)


class CountingLoop(VirtualTimeLoop):
    """Counts callbacks and the timers that are set at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks = 0
        self.timers_set = 0

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon(*args, **kwargs)

    def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.timers_set += 1
        return super().call_at(*args, **kwargs)

    def live_timers(self) -> int:
        return sum(not timer.cancelled() for timer in self._scheduled)  # type: ignore[attr-defined]


def play(main: Any) -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


async def park(admission: Admission, number: int) -> list[asyncio.Task[Any]]:
    """That many tasks, all waiting."""
    tasks = [asyncio.ensure_future(admission.enter()) for _ in range(number)]
    while admission.controller.waiting < number:
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("waiters", [100, 3_000])
def test_wakeups_grow_with_grants(waiters: int) -> None:
    """FC-08: what 50 grants cost does not depend on how many others wait."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        admission = Admission(TokenBucket(10, burst=1), classes=[MANY])
        admission.try_enter().close()
        tasks = await park(admission, waiters)
        callbacks, timers = loop.callbacks, loop.timers_set
        await asyncio.sleep(5.001)
        started = sum(task.done() for task in tasks)
        assert started == 50
        # A grant wakes its task; the task's end tells nobody. The alarm is set once for each grant.
        assert loop.callbacks - callbacks <= 3 * started
        assert loop.timers_set - timers <= started + 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(main)


def test_one_timer_for_all() -> None:
    """Law 4: a thousand waiters with bounds of their own, held by a rate, and one timer."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        kinds = [ServiceClass(f"c{i}", max_wait=50 + i, early_refusal=False) for i in range(10)]
        admission = Admission(TokenBucket(1, burst=1), classes=kinds)
        assert loop.live_timers() == 0
        from andante import Call

        admission.try_enter(Call(service="c0")).close()
        tasks = [asyncio.ensure_future(admission.enter(Call(service=f"c{i % 10}"))) for i in range(1_000)]
        for _ in range(3):
            await asyncio.sleep(0)
            assert loop.live_timers() == 1
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
        assert loop.live_timers() == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert loop.live_timers() == 0
        balanced(admission)

    play(main)


def test_a_leave_wakes_one() -> None:
    """One place comes free, 1,000 wait: one task runs."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        admission = Admission(Concurrency(1), classes=[MANY])
        held = admission.try_enter()
        tasks = await park(admission, 1_000)
        callbacks = loop.callbacks
        for _ in range(10):
            held.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            held = next(task for task in tasks if task.done() and task.result().ended is None).result()
        assert loop.callbacks - callbacks <= 10 * 4  # ours: two; the sleeps of this task: two
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(main)


def test_the_uncontended_path_never_touches_the_loop() -> None:
    """Nothing is scheduled, and nothing yields, while there is room."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        admission = Admission(Concurrency(5), TokenBucket(100, burst=100))
        callbacks, timers = loop.callbacks, loop.timers_set
        for _ in range(50):
            async with admission.admit():
                pass
        assert (loop.callbacks, loop.timers_set) == (callbacks, timers)

    play(main)


def test_two_admissions_on_one_gate_take_turns() -> None:
    """Each has its own line; a place that comes free wakes one waiter in all, and neither starves."""

    async def main() -> None:
        gate = Concurrency(1)
        one, two = Admission(gate, name="one"), Admission(gate, name="two")
        order: list[str] = []
        held = one.try_enter()
        with pytest.raises(WouldWait):
            two.try_enter()

        async def caller(admission: Admission) -> None:
            async with admission.admit():
                order.append(admission.name)
                await asyncio.sleep(1)

        async with asyncio.TaskGroup() as group:
            for admission in (one, two):
                for _ in range(10):
                    group.create_task(caller(admission))
            await asyncio.sleep(1)
            held.close()
        assert len(order) == 20
        longest = max(
            len(streak)
            for streak in "".join(name[0] for name in order).replace("ot", "o t").replace("to", "t o").split()
        )
        assert longest <= 3, order
        balanced(one)
        balanced(two)

    run(main)
