"""FC-12 and FC-13: the grant and the end of the wait meet in the same instant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    DeadlineExpired,
    DeadlineUnreachable,
    Permit,
    ServiceClass,
    TokenBucket,
)
from andante.testing import Recorder, balanced

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio


async def steps(number: int) -> None:
    for _ in range(number):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("order", ["cancel, release", "release, cancel"])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("between", [0, 1, 2, 3])
async def test_release_and_cancel_together(order: str, before: int, between: int) -> None:
    """FC-12: A holds, B and C wait; A is released and B cancelled in one step, or a step or two apart. C runs."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    held = admission.try_enter()
    ran: list[str] = []
    scopes: dict[str, anyio.CancelScope] = {}

    async def caller(name: str) -> None:
        with anyio.CancelScope() as scope:
            scopes[name] = scope
            async with admission.admit():
                assert admission.snapshot().inside == 1
                ran.append(name)

    with anyio.fail_after(1000):
        async with anyio.create_task_group() as group:
            for name in "bc":
                group.start_soon(caller, name)
                while admission.controller.waiting < "bc".index(name) + 1:
                    await anyio.lowlevel.checkpoint()
            await steps(before)
            deeds: list[Callable[[], None]] = [scopes["b"].cancel, held.close]
            if order == "release, cancel":
                deeds.reverse()
            deeds[0]()
            await steps(between)
            deeds[1]()
    assert ran in (["c"], ["b", "c"])
    balanced(admission)
    recorder.conserved()
    admission.try_enter().close()


async def test_cancel_many_together() -> None:
    """FC-12: of a hundred who wait, every second is cancelled in the step in which the place is given away."""
    admission = Admission(Concurrency(1))
    held = admission.try_enter()
    ran: list[int] = []
    scopes: list[anyio.CancelScope] = []

    async def caller(number: int) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            async with admission.admit():
                await anyio.lowlevel.checkpoint()
                ran.append(number)

    with anyio.fail_after(1000):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(caller, number)
            while admission.controller.waiting < 100:
                await anyio.lowlevel.checkpoint()
            held.close()
            for scope in scopes[::2]:
                scope.cancel()
    assert len(ran) == 50
    balanced(admission)
    counts = admission.snapshot()
    assert counts.withdrawn + counts.ignored == 50, "the first may have gone in already; it is cancelled inside then"


async def by_scope(admission: Admission, wait: float) -> Permit | None:
    with anyio.move_on_after(wait):
        return await admission.enter()
    return None


async def by_fail_after(admission: Admission, wait: float) -> Permit | None:
    try:
        with anyio.fail_after(wait):
            return await admission.enter()
    except TimeoutError:
        return None


async def by_bare_cancel(admission: Admission, wait: float) -> Permit | None:
    task = asyncio.ensure_future(admission.enter())
    asyncio.get_running_loop().call_later(wait, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def by_wait_for(admission: Admission, wait: float) -> Permit | None:
    try:
        return await asyncio.wait_for(admission.enter(), wait)
    except TimeoutError:
        return None


async def by_timeout(admission: Admission, wait: float) -> Permit | None:
    try:
        async with asyncio.timeout(wait):
            return await admission.enter()
    except TimeoutError:
        return None


async def by_max_wait(admission: Admission, wait: float) -> Permit | None:
    try:
        return await admission.enter(Call(deadline=admission.now() + wait))
    except (DeadlineExpired, DeadlineUnreachable):
        return None


ANYWHERE = [by_scope, by_fail_after, by_max_wait]
ON_ASYNCIO = [by_bare_cancel, by_wait_for, by_timeout]


async def _meet(waits: Callable[[Admission, float], Awaitable[Permit | None]], gate: Any, grant_at: float) -> None:
    """A caller gives up at the very moment of its grant, and a float step or a millisecond to either side."""
    outcomes = set()
    for shift in (-0.001, -1e-9, 0.0, 1e-9, 0.001):
        for setting in range(2):  # who sets its timer first: the caller, or whoever gives the place back
            admission = Admission(*gate())
            held = admission.try_enter()
            got: list[Permit | None] = []

            async def release(held: Permit = held) -> None:
                await anyio.sleep(grant_at)
                held.close()

            async def caller(admission: Admission = admission, got: list[Any] = got, shift: float = shift) -> None:
                got.append(await waits(admission, grant_at + shift))

            async def after(admission: Admission = admission) -> None:
                await anyio.sleep(0.01)
                (await admission.enter()).close()

            with anyio.fail_after(1000):
                async with anyio.create_task_group() as group:
                    for body in (caller, release, after)[:: 1 if setting else -1]:
                        group.start_soon(body)
            assert len(got) == 1, "exactly one of two states"
            outcomes.add(got[0] is not None)
            counts = admission.snapshot()
            assert counts.inside == (got[0] is not None)
            if got[0] is not None:
                got[0].close()
            balanced(admission)
    assert outcomes == {True, False}


@pytest.mark.parametrize("waits", ANYWHERE, ids=lambda waits: waits.__name__)
async def test_timeout_at_the_grant(waits: Any) -> None:
    """FC-13: either the caller owns the place and goes on, or it sees the time-out and the place is back."""
    await _meet(waits, lambda: [Concurrency(2), TokenBucket(2, burst=1)], 0.5)
    await _meet(waits, lambda: [TokenBucket(4, burst=1), Concurrency(9)], 0.25)


@pytest.mark.parametrize("anyio_backend", [pytest.param("asyncio", id="asyncio")], indirect=True)
@pytest.mark.parametrize("waits", ON_ASYNCIO, ids=lambda waits: waits.__name__)
async def test_timeout_at_the_grant_on_asyncio(waits: Any) -> None:
    """FC-13 with asyncio's own time-outs and a bare `Task.cancel`."""
    await _meet(waits, lambda: [Concurrency(2), TokenBucket(2, burst=1)], 0.5)
    await _meet(waits, lambda: [TokenBucket(4, burst=1), Concurrency(9)], 0.25)


async def test_bound_equal_to_the_wait_succeeds() -> None:
    """A bound equal to the exact wait is kept, one a little shorter is refused, at any number of waiters."""
    for number in range(1, 5):
        admission = Admission(
            TokenBucket(10, burst=1), classes=[ServiceClass("default", max_wait=0.1 * number, early_refusal=False)]
        )
        admission.try_enter().close()
        started: list[float] = []
        begin = admission.now()

        async def caller(
            admission: Admission = admission, started: list[float] = started, begin: float = begin
        ) -> None:
            (await admission.enter()).close()
            started.append(admission.now() - begin)

        with anyio.fail_after(1000):
            async with anyio.create_task_group() as group:
                for _ in range(number):
                    group.start_soon(caller)
        assert started == pytest.approx([0.1 * (i + 1) for i in range(number)], abs=1e-6)
        balanced(admission)
