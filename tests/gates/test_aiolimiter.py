"""An `aiolimiter.AsyncLimiter` as a gate, with the real package, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import aiolimiter
import anyio
import pytest
import trio

from andante.admission import Admission
from andante.errors import AndanteError, ConfigurationError, CostTooLarge, WouldWait
from andante.gates import AioLimiter
from andante.testing.virtual_time import run
from andante.testing.visitor import Visitor
from andante.values import Call, Cost, Outcome


def guest(requests: float = 1.0) -> Visitor:
    return Visitor(Call(Cost(requests=requests)), 0.0)


def now() -> float:
    return asyncio.get_running_loop().time()


async def many(admission: Admission, calls: int) -> list[float]:
    times = []

    async def one() -> None:
        async with admission.admit(Call()):
            times.append(now())

    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(one)
    return times


def test_it_paces_as_the_limiter_does() -> None:
    """Through an admission calls enter as through the limiter itself: a burst of all it holds, then its rate."""

    async def work() -> None:
        times = await many(Admission(AioLimiter(aiolimiter.AsyncLimiter(5, 1))), 20)
        assert times[:5] == [0.0] * 5
        assert times[5:] == pytest.approx([0.2 * n for n in range(1, 16)], abs=0.02)

    run(work)


def test_the_delay_is_measured() -> None:
    """The limiter does not say how long; the gate finds out how much is free, and after the delay there is room."""

    async def work() -> None:
        gate = AioLimiter(aiolimiter.AsyncLimiter(10, 2))
        entry = guest(7)
        assert gate.delay(entry, now()) == 0
        gate.enter(entry, now())
        for requests, wait in ((4, 0.2), (10, 1.4)):
            assert gate.delay(guest(requests), now()) == pytest.approx(wait, abs=1e-5)
            assert gate.delay(guest(requests), now()) == pytest.approx(wait, abs=1e-5), "asking takes nothing"
        await asyncio.sleep(gate.delay(guest(4), now()))
        assert gate.delay(guest(4), now()) == 0

    run(work)


def test_where_the_limiter_says_no_there_is_a_delay() -> None:
    """However soon there is room again: a delay that counts as none would let a call in that the limiter holds."""

    async def work() -> None:
        gate = AioLimiter(aiolimiter.AsyncLimiter(1000, 0.001))
        gate.enter(guest(1000), now())
        assert gate.delay(guest(0.01), now()) >= 1e-6

    run(work)


def test_it_shares_the_limiter() -> None:
    """Other code may use the limiter beside the gate; both draw on the same capacity."""

    async def work() -> None:
        limiter = aiolimiter.AsyncLimiter(4, 4)
        gate = AioLimiter(limiter)
        for _ in range(3):
            await limiter.acquire()
        gate.enter(guest(), now())
        assert not limiter.has_capacity()
        assert gate.delay(guest(), now()) == pytest.approx(1, abs=1e-5)
        assert gate.snapshot(now()) == {
            "rate": 4,
            "period": 4,
            "unit": "requests",
            "headroom": pytest.approx(0, abs=1e-6),
        }
        await asyncio.sleep(2)
        assert gate.snapshot(now())["headroom"] == pytest.approx(0.5, abs=1e-6)

    run(work)


def test_units_and_what_is_too_large() -> None:
    """Any unit can be counted; 0 is free; more than max_rate is refused at once (FC-03)."""

    async def work() -> None:
        gate = AioLimiter(aiolimiter.AsyncLimiter(100, 60), unit="tokens", name="tpm")
        entry = Visitor(Call(Cost(input_tokens=60, output_tokens=40)), 0.0)
        assert gate.delay(entry, now()) == 0
        gate.enter(entry, now())
        assert gate.delay(guest(), now()) == 0
        gate.enter(guest(), now())
        assert gate.delay(Visitor(Call(Cost(input_tokens=1)), 0.0), now()) == pytest.approx(0.6, abs=1e-4)
        with pytest.raises(CostTooLarge, match="max_rate=100") as error:
            gate.delay(Visitor(Call(Cost(input_tokens=101)), 0.0), now())
        assert error.value.gate == "tpm"

    run(work)


def test_nothing_comes_back() -> None:
    """As documented: neither undo nor a settlement moves the limiter."""

    async def work() -> None:
        gate = AioLimiter(aiolimiter.AsyncLimiter(2, 2))
        first, second = guest(), guest()
        gate.enter(first, now())
        gate.undo(first, now())
        gate.enter(second, now())
        gate.leave(second, Outcome(cost=Cost(requests=0)), now())
        assert gate.delay(guest(), now()) == pytest.approx(1, abs=1e-5)

    run(work)


def test_a_call_that_was_inside_before_is_not_charged() -> None:
    """A gate taken while calls are inside cannot charge them beyond what is free, and does not wait."""

    async def work() -> None:
        gate = AioLimiter(aiolimiter.AsyncLimiter(1, 1))
        for _ in range(3):
            gate.enter(guest(), now())
        assert gate.delay(guest(), now()) == pytest.approx(1, abs=1e-5)

    run(work)


def test_without_an_asyncio_loop() -> None:
    """Without a running asyncio loop, and under trio, it says so, and what to use; a snapshot has no headroom."""
    gate = AioLimiter(aiolimiter.AsyncLimiter(1, 1))
    with pytest.raises(ConfigurationError, match="TokenBucket"):
        gate.delay(guest(), 0.0)
    assert gate.snapshot(0.0) == {"rate": 1, "period": 1, "unit": "requests"}

    async def work() -> None:
        admission = Admission(gate)
        with pytest.raises(ConfigurationError, match="asyncio"):
            await admission.enter(Call())

    trio.run(work)


def test_a_try_does_not_wait() -> None:
    """`try_enter` on an empty limiter is refused, and takes nothing."""

    async def work() -> None:
        admission = Admission(AioLimiter(aiolimiter.AsyncLimiter(1, 1)))
        admission.try_enter(Call()).close()
        with pytest.raises(WouldWait):
            admission.try_enter(Call())
        await asyncio.sleep(1.001)
        admission.try_enter(Call()).close()

    run(work)


class Suspending:
    """A limiter that says it has capacity, and then waits."""

    max_rate = 5.0
    time_period = 1.0

    def has_capacity(self, amount: float = 1) -> bool:
        return True

    async def acquire(self, amount: float = 1) -> None:
        await asyncio.sleep(1)


def test_a_limiter_that_does_not_keep_its_word() -> None:
    """A limiter that waits although it had capacity is an error, not a call that was let in uncounted."""

    async def work() -> None:
        gate = AioLimiter(Suspending())
        with pytest.raises(AndanteError, match="not a limiter to build on"):
            gate.enter(guest(), now())

    run(work)


class Impostor:
    has_capacity = acquire = max_rate = time_period = None


@pytest.mark.parametrize(
    "limiter", [None, 5, "5/s", aiolimiter.AsyncLimiter, object(), asyncio.Semaphore(1), Impostor()]
)
def test_what_is_no_limiter(limiter: Any) -> None:
    """Anything that is no limiter, its class included, is refused by name."""
    with pytest.raises(ConfigurationError, match="limiter"):
        AioLimiter(limiter)


@pytest.mark.parametrize(("rate", "period"), [(0, 1), (float("nan"), 1), (-1, 1), (float("inf"), 1)])
def test_limiters_that_make_no_sense(rate: float, period: float) -> None:
    """A rate that aiolimiter takes and cannot work with is refused; so is an unknown unit."""
    with pytest.raises(ConfigurationError, match="max_rate"):
        AioLimiter(aiolimiter.AsyncLimiter(rate, period))
    with pytest.raises(ConfigurationError, match="unit"):
        AioLimiter(aiolimiter.AsyncLimiter(1, 1), unit="bytes")  # type: ignore[arg-type]


def test_repr() -> None:
    """repr tells the limits, and the burst."""
    gate = AioLimiter(aiolimiter.AsyncLimiter(100, 60))
    assert repr(gate) == "<AioLimiter 'aio_limiter': 100 requests per 60 s, all of them at once after idling>"
