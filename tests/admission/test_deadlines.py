"""Bounds on waiting: kept to the millisecond, for every caller, and at no cost to others."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    DeadlineExpired,
    DeadlineUnreachable,
    Rejected,
    ServiceClass,
    TokenBucket,
    guard,
)
from andante.events import Admitted, First, Left, Refused
from andante.testing import Recorder, ScriptedBackend, Stream, balanced

pytestmark = pytest.mark.anyio


async def test_the_maximum_wait_is_the_maximum() -> None:
    """FC-10: 3 a minute, 30 s at most, ten at once: three start at once, the others are refused at once or by 30 s."""
    admission = Admission(TokenBucket(3, "minute", burst=3), classes=[ServiceClass("default", max_wait=30)])
    started: list[float] = []
    refused: list[float] = []

    async def caller() -> None:
        try:
            (await admission.enter()).close()
        except Rejected:
            refused.append(admission.now())
        else:
            started.append(admission.now())

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(caller)
    assert started == pytest.approx([0, 0, 0, 20], abs=0.01)
    assert len(refused) == 6
    assert max(refused) <= 30.01
    await anyio.sleep(60)
    assert admission.snapshot().gates["token_bucket"]["level"] == 3, "nothing was charged for those refused"
    balanced(admission)


async def test_a_bound_of_exactly_one_interval() -> None:
    """FC-10: a bound equal to the exact wait succeeds; per-call bounds count from the call's own arrival."""
    admission = Admission(TokenBucket(3, "minute", burst=1))
    admission.try_enter().close()
    async with admission.admit(Call(deadline=admission.now() + 20)):
        assert admission.now() == pytest.approx(20, abs=1e-6)
    with pytest.raises(DeadlineUnreachable) as caught:
        await admission.enter(Call(deadline=admission.now() + 19.9))
    assert caught.value.retry_after == pytest.approx(20, abs=1e-3)
    assert admission.now() == pytest.approx(20, abs=1e-6)
    balanced(admission)


async def test_zero_is_now_or_never() -> None:
    """max_wait=0: a free place is taken, a closed gate refuses at once."""
    admission = Admission(Concurrency(1), classes=[ServiceClass("default", max_wait=0)])
    async with admission.admit():
        with pytest.raises(DeadlineUnreachable):
            await guardless(admission)
    assert admission.now() == 0
    balanced(admission)


async def guardless(admission: Admission) -> None:
    """As if from outside: the nesting rule would refuse it before."""
    error: list[Rejected] = []

    async def caller() -> None:
        try:
            await admission.enter()
        except Rejected as caught:
            error.append(caught)

    from andante.permit import HELD

    token = HELD.set(None)
    try:
        await caller()
    finally:
        HELD.reset(token)
    raise error[0]


async def test_work_is_not_done_for_callers_who_have_left() -> None:
    """FC-20: one place held for 10 s, fifty wait with 2 s each; they fail at 2 s, and fresh calls start at once."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    backend = ScriptedBackend()
    call = guard(admission, deadline=2)(backend.call)
    held = admission.try_enter()
    failed: list[float] = []

    async def impatient() -> None:
        with pytest.raises(DeadlineExpired):
            await call()
        failed.append(admission.now())

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(impatient)
        await anyio.sleep(10)
        held.close()
        begin = admission.now()
        assert await call() == "ok"
        assert admission.now() == begin
    assert failed == pytest.approx([2.0] * 50, abs=0.01)
    assert len(backend.calls) == 1
    assert len(recorder.of(Refused)) == 50
    assert {event.error.reason for event in recorder.of(Refused)} == {"deadline_expired"}
    assert all(event.waited == pytest.approx(2, abs=0.01) for event in recorder.of(Refused))
    balanced(admission)


async def test_a_deadline_without_end_and_one_in_the_past() -> None:
    """inf is none; one that has passed is refused even where there is room."""
    admission = Admission(Concurrency(1))
    await anyio.sleep(10)
    with pytest.raises(DeadlineUnreachable):
        await admission.enter(Call(deadline=5))
    with pytest.raises(DeadlineUnreachable):
        admission.try_enter(Call(deadline=float("-inf")))
    balanced(admission)


async def test_what_is_measured() -> None:
    """FC-61: 2 s of waiting, a stream of 5 s with its first item after 1 s: each is told apart, to the millisecond."""
    recorder = Recorder()
    admission = Admission(TokenBucket(0.5, burst=1), listeners=[recorder])
    backend = ScriptedBackend(default=Stream("abcde", first=1, gap=1))
    admission.try_enter().close()
    recorder.clear()
    async for _ in guard(admission)(backend.generate)():
        pass
    assert recorder.of(Admitted)[0].waited == pytest.approx(2, abs=1e-3)
    assert recorder.of(First)[0].ttft == pytest.approx(1, abs=1e-3)
    outcome = recorder.of(Left)[0].outcome
    assert (outcome.ttft, outcome.seconds) == (pytest.approx(1, abs=1e-3), pytest.approx(5, abs=1e-3))
    assert recorder.of(Left)[0].waited == pytest.approx(2, abs=1e-3)


async def test_failures_and_cancellations_are_measured() -> None:
    """FC-61: with their outcome."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    with pytest.raises(TimeoutError):
        async with admission.admit():
            await anyio.sleep(1)
            raise TimeoutError
    with anyio.move_on_after(2):
        async with admission.admit():
            await anyio.sleep(5)
    assert [(e.outcome.ending.value, e.outcome.seconds) for e in recorder.of(Left)] == [
        ("overloaded", pytest.approx(1)),
        ("ignored", pytest.approx(2)),
    ]
