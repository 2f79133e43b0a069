"""The ways in: enter, try_enter, admit, explain; and what they show."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    AndanteError,
    Call,
    Closed,
    Concurrency,
    ConfigurationError,
    Cost,
    CostTooLarge,
    DeadlineUnreachable,
    Decision,
    Ending,
    LineFull,
    Rejected,
    ServiceClass,
    TokenBucket,
    WouldWait,
)
from andante.events import Left
from andante.testing import Recorder, balanced, check_conservation

pytestmark = pytest.mark.anyio


async def test_enter_and_close() -> None:
    """A permit is inside from its grant to its close; closing it again does nothing."""
    admission = Admission(Concurrency(2))
    permit = await admission.enter()
    assert admission.snapshot().inside == 1
    permit.close()
    permit.close()
    counts = admission.snapshot()
    assert (counts.offered, counts.started, counts.done, counts.inside) == (1, 1, 1, 0)
    assert counts.gates["concurrency"]["inside"] == 0
    balanced(admission)


async def test_enter_without_waiting_does_not_checkpoint() -> None:
    """The uncontended path yields to nobody, not even to a cancellation; this is documented."""
    admission = Admission(Concurrency(1))
    with anyio.CancelScope() as scope:
        scope.cancel()
        permit = await admission.enter()
        permit.close()
        assert not scope.cancelled_caught
    balanced(admission)


async def test_admit_closes_and_notes_errors() -> None:
    """`async with` gives back on success, on an error, which passes through untouched, and on cancellation."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    async with admission.admit() as permit:
        assert permit.service == "default"
    error = TimeoutError("too slow")
    with pytest.raises(TimeoutError) as caught:
        async with admission.admit():
            raise error
    assert caught.value is error
    with anyio.move_on_after(1):
        async with admission.admit():
            await anyio.sleep(2)
    endings = [event.outcome.ending for event in recorder.of(Left)]
    assert endings == [Ending.DONE, Ending.OVERLOADED, Ending.IGNORED]
    balanced(admission)


async def test_admit_is_for_one_time() -> None:
    """The same context manager cannot be entered twice; nothing is taken the second time."""
    admission = Admission(Concurrency(2))
    once = admission.admit()
    async with once:
        with pytest.raises(RuntimeError, match="again"):
            async with once:
                pass
        assert admission.snapshot().inside == 1
    balanced(admission)


async def test_try_enter_never_waits_and_never_jumps() -> None:
    """Law 5: a try is refused with WouldWait when the gates are closed, and when others wait for open ones."""
    admission = Admission(Concurrency(1), TokenBucket(1, burst=2))
    held = admission.try_enter()
    with pytest.raises(WouldWait) as refused:
        admission.try_enter()
    assert refused.value.gate == "concurrency"
    assert refused.value.service == "default"
    held.close()
    second = admission.try_enter()
    second.close()
    with pytest.raises(WouldWait) as refused:
        admission.try_enter()
    assert refused.value.gate == "token_bucket"
    assert refused.value.retry_after == pytest.approx(1, abs=1e-6)
    async with anyio.create_task_group() as group:
        group.start_soon(_enter_and_leave, admission)
        await anyio.lowlevel.checkpoint()
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        admission.reconfigure(gates=[Concurrency(5)])  # now there is room: it goes to who waited first
        admission.try_enter().close()
    balanced(admission)


async def _enter_and_leave(admission: Admission) -> None:
    (await admission.enter()).close()


async def test_a_try_does_not_pass_those_who_wait() -> None:
    """Law 5: a smaller call that would fit is refused while a large one waits in front."""
    admission = Admission(TokenBucket(10, unit="tokens", burst=10))
    admission.try_enter(Call(Cost(input_tokens=8))).close()
    async with anyio.create_task_group() as group:

        async def large() -> None:
            (await admission.enter(Call(Cost(input_tokens=10)))).close()

        group.start_soon(large)
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(WouldWait):
            admission.try_enter(Call(Cost(input_tokens=1)))
    balanced(admission)


async def test_no_gates_at_all() -> None:
    """Without gates everybody enters, and is counted."""
    admission = Admission()
    permits = [admission.try_enter() for _ in range(100)]
    assert admission.snapshot().inside == 100
    for permit in permits:
        permit.close()
    balanced(admission)
    assert "no gates" in repr(admission)


async def test_unknown_class_is_a_configuration_error() -> None:
    """The error names the class and what is known; nothing is counted as offered."""
    admission = Admission(Concurrency(1), classes=[ServiceClass("chat"), ServiceClass("bulk")])
    for enter in (admission.try_enter, admission.explain):
        with pytest.raises(ConfigurationError, match=r"'chta'.*chat, bulk"):
            enter(Call(service="chta"))
    with pytest.raises(ConfigurationError, match="chta"):
        await admission.enter(Call(service="chta"))
    assert admission.snapshot().offered == 0
    admission.try_enter().close()  # "default" is the last class where none has that name
    assert admission.snapshot().classes["bulk"].done == 1


async def test_cost_too_large_is_refused_at_once() -> None:
    """FC-03: an over-size call is refused at once by every way in, and costs nothing."""
    admission = Admission(Concurrency(1), TokenBucket(1_000, "minute", unit="tokens"))
    call = Call(Cost(input_tokens=1_500))
    with pytest.raises(CostTooLarge):
        await admission.enter(call)
    with pytest.raises(CostTooLarge):
        admission.try_enter(call)
    assert admission.explain(call).reason == "cost_too_large"
    async with admission.admit(Call(Cost(input_tokens=1_000))):
        pass
    counts = admission.snapshot()
    assert (counts.refused, counts.done) == (2, 1)
    balanced(admission)


async def test_line_full_says_when_to_try_again() -> None:
    """FC-21: beyond `max_waiting` calls are refused at once; the largest key goes, and here it is the last one's."""
    admission = Admission(TokenBucket(10, burst=1), classes=[ServiceClass("default", max_waiting=5)])
    refused: list[LineFull] = []

    async def caller() -> None:
        try:
            (await admission.enter()).close()
        except LineFull as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(caller)
    assert len(refused) == 14
    assert all(error.retry_after is not None and error.retry_after > 0 for error in refused)
    assert admission.now() == pytest.approx(0.5, abs=0.01)
    balanced(admission)


async def test_explain_changes_nothing_and_tells_the_truth() -> None:
    """What `explain` says is what then happens, in all of: free, waiting, refused."""
    admission = Admission(
        Concurrency(1), classes=[ServiceClass("default", max_waiting=1), ServiceClass("never", max_wait=0)]
    )
    before = admission.snapshot()
    assert admission.explain() == Decision(True, "admitted")
    held = admission.try_enter()
    told = admission.explain()
    assert (told.admitted, told.reason, told.gate, told.start_in) == (False, "waiting", "concurrency", inf)
    assert admission.explain(Call(service="never")).reason == "deadline_unreachable"
    with pytest.raises(DeadlineUnreachable):
        await admission.enter(Call(service="never"))
    with pytest.raises(WouldWait):  # a try says so in any case
        admission.try_enter(Call(service="never"))
    async with anyio.create_task_group() as group:
        group.start_soon(_enter_and_leave, admission)
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        assert admission.explain().reason == "line_full"
        assert admission.explain().ahead == 1
        with pytest.raises(LineFull):
            await admission.enter()
        held.close()
    assert before.offered == 0
    assert admission.explain().admitted
    balanced(admission)


async def test_explain_of_a_closed_admission() -> None:
    """Once drained, `explain` says what `enter` would: closed."""
    admission = Admission(Concurrency(1))
    await admission.drain()
    with pytest.raises(Closed):
        admission.try_enter()
    decision = admission.explain()
    assert (decision.admitted, decision.reason) == (False, "closed")


async def test_settle_and_progress() -> None:
    """A settlement is absolute and the last one counts; after the close it is an error; progress is then nothing."""
    bucket = TokenBucket(100, unit="tokens", burst=100)
    admission = Admission(bucket)
    permit = await admission.enter(Call(Cost(input_tokens=50)))
    permit.settle(Cost(input_tokens=90))
    permit.settle(Cost(input_tokens=10))
    permit.progress()
    permit.close()
    assert admission.snapshot().gates["token_bucket"]["level"] == pytest.approx(90)
    with pytest.raises(AndanteError, match="closed"):
        permit.settle(Cost())
    permit.progress(5)
    permit.fail(ValueError())
    permit.close()
    assert admission.snapshot().done == 1
    balanced(admission)


@pytest.mark.parametrize("started", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("items", [-1, nan, inf, -inf])
async def test_bad_progress(items: float, started: bool) -> None:
    """Negative, infinite and NaN progress is an error that names the value, for the first items and for later ones."""
    admission = Admission(Concurrency(1))
    async with admission.admit() as permit:
        if started:
            permit.progress()
        with pytest.raises(ConfigurationError, match="items"):
            permit.progress(items)
        assert permit.items == started
    balanced(admission)


@pytest.mark.parametrize("cost", [None, 5, "much", {}])
async def test_bad_settlement(cost: Any) -> None:
    """What is no Cost is an error that says so, and the reservation stays."""
    admission = Admission(Concurrency(1))
    async with admission.admit() as permit:
        with pytest.raises(ConfigurationError, match="Cost"):
            permit.settle(cost)
    balanced(admission)


async def test_account() -> None:
    """FC-61: waiting, first result and work are told apart."""
    admission = Admission(TokenBucket(0.5, burst=1))
    admission.try_enter().close()
    async with admission.admit() as permit:
        await anyio.sleep(1)
        permit.progress()
        await anyio.sleep(4)
        assert permit.account.seconds is None
    account = permit.account
    assert account.waited == pytest.approx(2, abs=1e-3)
    assert account.by_gate == {"token_bucket": pytest.approx(2, abs=1e-3)}
    assert account.first == pytest.approx(1, abs=1e-3)
    assert account.seconds == pytest.approx(5, abs=1e-3)


async def test_pressure_levels() -> None:
    """Calm with headroom over 30 %, steady above 0, strained when something waits, saturated after early refusals."""
    admission = Admission(Concurrency(4), classes=[ServiceClass("default", max_waiting=1)])
    assert admission.pressure == "calm"
    permits = [admission.try_enter() for _ in range(3)]
    assert admission.pressure == "steady"
    permits.append(admission.try_enter())
    async with anyio.create_task_group() as group:
        group.start_soon(_enter_and_leave, admission)
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        assert admission.pressure == admission.snapshot().pressure == "strained"
        with pytest.raises(LineFull):
            await admission.enter()
        assert admission.pressure == "saturated"
        await anyio.sleep(1.01)
        assert admission.pressure == "strained"
        for permit in permits:
            permit.close()
    assert admission.pressure == "calm"


async def test_repr_at_three_in_the_morning() -> None:
    """Law 12: who is inside, who waits where, what the gates hold, and whether it still takes calls."""
    admission = Admission(
        Concurrency(1), TokenBucket(5), classes=[ServiceClass("chat"), ServiceClass("bulk")], name="gpu-3"
    )
    held = admission.try_enter(Call(service="chat"))
    async with anyio.create_task_group() as group:
        group.start_soon(_enter_and_leave, admission)
        while not admission.controller.waiting:
            await anyio.lowlevel.checkpoint()
        text = repr(admission)
        for word in ("gpu-3", "1 inside", "1 waiting", "chat 0", "bulk 1", "1 of 1", "5 requests per second"):
            assert word in text, text
        assert "admitted" in repr(held)
        held.close()
        assert "ended" in repr(held)
    await admission.drain()
    assert "closed" in repr(admission)


async def test_rejections_tell_what_to_do() -> None:
    """Every refusal carries reason, gate, class, retry_after and the decision."""
    admission = Admission(TokenBucket(0.1, burst=1), classes=[ServiceClass("chat", ttft=2)])
    admission.try_enter().close()
    with pytest.raises(Rejected) as caught:
        await admission.enter()
    error = caught.value
    assert (error.reason, error.gate, error.service) == ("deadline_unreachable", "token_bucket", "chat")
    assert error.retry_after == pytest.approx(10, abs=1e-6)
    assert error.decision is not None
    assert error.decision.retry_after == error.retry_after
    check_conservation(admission.snapshot())
