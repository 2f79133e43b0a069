"""Both listeners on a real admission, on both event loops, in virtual time."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import LogCapture

from andante.admission import Admission
from andante.errors import LineFull, Rejected, WouldWait
from andante.events import Admitted, Event, Left, Offered, Waiting
from andante.gates import Concurrency
from andante.guard import guard
from andante.service import ServiceClass
from andante.telemetry import PrometheusListener, StructlogListener
from andante.testing import Answer, Fail, ScriptedBackend, Stall, Stream, balanced, virtual_backend
from andante.values import Call, Cost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("clean_structlog")]

CHAT = Call(service="chat")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Both event loops, in virtual time."""
    return virtual_backend(request.param)


class Shown:
    """What a scrape shows of one admission of one class."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.listener = PrometheusListener(self.registry)

    def get(self, name: str, **labels: str) -> float:
        """The sum over all samples with this name and these labels."""
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"andante_{name}" and labels.items() <= sample.labels.items()
        )

    def mean(self, name: str, **labels: str) -> float:
        return self.get(f"{name}_sum", **labels) / self.get(f"{name}_count", **labels)

    def check(self, admission: Admission) -> None:
        """Law 1 in metric terms; and every number is the admission's own."""
        snapshot = admission.snapshot()
        offered, started = self.get("offered_total"), self.get("started_total")
        refused, withdrawn = self.get("refused_total"), self.get("withdrawn_total")
        inside, waiting = self.get("inside_calls"), self.get("waiting_calls")
        ended = [self.get("calls_total", ending=ending) for ending in ("done", "overloaded", "ignored")]
        assert (offered, started, refused) == (snapshot.offered, snapshot.started, snapshot.refused)
        assert (withdrawn, waiting, inside) == (snapshot.withdrawn, snapshot.waiting, snapshot.inside)
        assert ended == [snapshot.done, snapshot.overloaded, snapshot.ignored]
        assert offered == started + refused + withdrawn + waiting
        assert started == sum(ended) + inside

    def check_end(self, admission: Admission) -> None:
        """The same, and everything has been given back."""
        self.check(admission)
        assert self.get("inside_calls") == self.get("waiting_calls") == 0
        balanced(admission)


class House:
    """One place, three may wait in front of it; a scripted backend, called plainly and as a stream."""

    def __init__(self, *script: Any, others: Any = (), **objectives: Any) -> None:
        self.shown = Shown()
        self.backend = ScriptedBackend(script, default=Answer(after=1.0))
        classes = [ServiceClass("chat", max_waiting=3, **objectives)]
        self.admission = Admission(
            Concurrency(1), classes=classes, name="llm", listeners=[*others, self.shown.listener]
        )
        self.call = guard(self.admission)(self.backend.call)
        self.stream = guard(self.admission, settle=lambda last: Cost(1, 100, 41))(self.backend.generate)

    async def drink(self, sips: int = 1_000) -> None:
        async with aclosing(self.stream()) as items:
            async for _ in items:
                self.shown.check(self.admission)
                sips -= 1
                if not sips:
                    break


async def test_admitted_at_once() -> None:
    """A call that takes 1 s and does not wait: the gauges say so while it runs."""
    house = House()
    async with house.admission.admit(CHAT):
        assert house.shown.get("inside_calls") == 1
        assert house.shown.get("gate_limit", gate="concurrency") == 1
        await anyio.sleep(1)
    house.shown.check_end(house.admission)
    assert house.shown.mean("service_seconds", ending="done") == pytest.approx(1.0, abs=0.001)
    assert house.shown.mean("queue_wait_seconds", result="admitted") == 0.0


async def test_right_times() -> None:
    """FC-61: a queue wait of 2 s, then a stream of 5 s with its first item at 1 s, each right to the millisecond."""
    house = House(Answer(after=2.0), Stream(range(41), first=1.0, gap=0.1))
    async with anyio.create_task_group() as group:
        group.start_soon(house.call)
        await anyio.lowlevel.checkpoint()
        group.start_soon(house.drink)
    house.shown.check_end(house.admission)
    assert house.shown.get("queue_wait_seconds_sum") == pytest.approx(2.0, abs=0.001)
    assert house.shown.get("service_seconds_sum") == pytest.approx(7.0, abs=0.001)
    assert house.shown.mean("time_to_first_item_seconds") == pytest.approx(1.0, abs=0.001)
    assert house.shown.mean("inter_token_seconds") == pytest.approx(0.1, abs=0.001)
    assert house.shown.get("tokens_total", kind="input") == 100
    assert house.shown.get("tokens_total", kind="output") == 41


async def test_slow_consumer() -> None:
    """The time in which nobody had asked for the next item is neither service time nor a gap between items."""
    house = House(Stream(range(5), first=1.0, gap=0.1))
    async with aclosing(house.stream()) as items:
        async for _ in items:
            await anyio.sleep(10)
    house.shown.check_end(house.admission)
    assert house.shown.get("service_seconds_sum") == pytest.approx(1.0, abs=0.001)
    assert house.shown.mean("inter_token_seconds") == pytest.approx(0.0, abs=0.001)


async def test_overloaded_and_failed() -> None:
    """Calls that fail are recorded with their ending, and their time is not mixed with that of the others."""
    house = House(Fail(TimeoutError, after=3.0), Fail(ValueError, after=2.0), Answer(after=1.0))
    for error in TimeoutError, ValueError:
        with pytest.raises(error):
            await house.call()
    await house.call()
    house.shown.check_end(house.admission)
    assert house.shown.get("calls_total", ending="overloaded") == 1
    assert house.shown.mean("service_seconds", ending="overloaded") == pytest.approx(3.0, abs=0.001)
    assert house.shown.mean("service_seconds", ending="done") == pytest.approx(1.0, abs=0.001)


async def test_refused_on_arrival() -> None:
    """A full line, and a try that would wait: refused with reason and gate, after no wait; the gauges stay right."""
    house = House()
    refused: list[Rejected] = []

    async def one() -> None:
        try:
            await house.call()
        except Rejected as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(one)
        await anyio.sleep(0.5)
        house.shown.check(house.admission)
        assert house.shown.get("waiting_calls") == 3
        await anyio.sleep(1)
        with pytest.raises(WouldWait):
            house.admission.try_enter(CHAT)
        house.shown.check(house.admission)
    house.shown.check_end(house.admission)
    assert [type(error) for error in refused] == [LineFull, LineFull]
    assert house.shown.get("refused_total", reason="line_full", service="chat") == 2
    assert house.shown.get("refused_total", reason="would_wait", gate="concurrency") == 1
    assert house.shown.get("queue_wait_seconds_sum", result="refused") == 0


async def test_refused_while_waiting() -> None:
    """A call that waits in vain for half a second: refused, with its wait."""
    house = House(max_wait=0.5)
    permit = await house.admission.enter(CHAT)
    with pytest.raises(Rejected):
        await house.call()
    house.shown.check(house.admission)
    permit.close()
    house.shown.check_end(house.admission)
    assert house.shown.get("refused_total", reason="deadline_expired") == 1
    assert house.shown.mean("queue_wait_seconds", result="refused") == pytest.approx(0.5, abs=0.001)


async def test_cancelled() -> None:
    """Cancelled while waiting: withdrawn. Cancelled while running: ignored. Nothing stays on the gauges."""
    house = House(Stall())
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(house.call)
        await anyio.sleep(2)
        house.shown.check(house.admission)
        assert (house.shown.get("inside_calls"), house.shown.get("waiting_calls")) == (1, 1)
        group.cancel_scope.cancel()
    house.shown.check_end(house.admission)
    assert house.shown.get("withdrawn_total") + house.shown.get("calls_total", ending="ignored") == 2
    assert house.shown.get("calls_total", ending="ignored") >= 1


async def test_cancelled_between_grant_and_resume() -> None:
    """A place that was granted but never taken: withdrawn, and nothing has started."""
    house = House()
    permit = await house.admission.enter(CHAT)

    async def one() -> None:
        await house.admission.enter(CHAT)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await anyio.sleep(1)
        group.cancel_scope.cancel()
        permit.close()  # the place goes to the one who waits; what it hears next is that it is cancelled
        assert house.admission.snapshot().inside == 1
    house.shown.check_end(house.admission)
    assert house.shown.get("withdrawn_total") == 1
    assert house.shown.get("started_total") == 1


async def test_stream_closed_early() -> None:
    """A stream that its reader leaves after three items gives everything back."""
    house = House(Stream(range(100), first=1.0, gap=0.1))
    await house.drink(3)
    house.shown.check_end(house.admission)
    assert house.shown.mean("time_to_first_item_seconds") == pytest.approx(1.0, abs=0.001)


class Raising:
    """A listener that always raises."""

    def on(self, event: Event) -> None:
        raise ZeroDivisionError(type(event).__name__)


async def test_another_listener_raises(caplog: pytest.LogCaptureFixture) -> None:
    """FC-14: a hook that raises is reported once; the call goes on, its place comes back, and we are still told."""
    house = House(others=[Raising()])
    with caplog.at_level(logging.ERROR, "andante"):
        for _ in range(3):
            await house.call()
    house.shown.check_end(house.admission)
    assert house.shown.get("calls_total", ending="done") == 3
    assert [record.name for record in caplog.records] == ["andante"]
    assert "Raising" in caplog.text


async def test_the_applications_logging_raises(caplog: pytest.LogCaptureFixture) -> None:
    """FC-14: a processor of the application that raises does not touch the call either."""

    def broken(*args: Any) -> Any:
        raise KeyError("mine")

    structlog.configure(processors=[broken])
    house = House(others=[StructlogListener(verbose=True)])
    with caplog.at_level(logging.ERROR, "andante"):
        await house.call()
        await house.call()
    house.shown.check_end(house.admission)
    assert len(caplog.records) == 1
    assert "KeyError" in caplog.text


async def test_everybody_has_his_own_context() -> None:
    """FC-62: 20 callers in a queue, each with fields and a variable of its own: each of a call's events carries them.

    The function that is called sees them as well, and nothing of it is left behind.
    """
    capture = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    seen: dict[int, Any] = {}
    listener = StructlogListener(verbose=True, tenants=True)
    admission = Admission(Concurrency(2), name="llm", listeners=[listener])

    @guard(admission, tenant=lambda i: f"tenant-{i}")
    async def work(i: int) -> None:
        await anyio.sleep(0.1 * (1 + i % 3))
        seen[i] = structlog.contextvars.get_contextvars()["request_id"]

    @guard(admission, tenant=lambda i: f"tenant-{i}")
    async def items(i: int) -> AsyncIterator[int]:
        for n in range(3):
            await anyio.sleep(0.1)
            yield n

    async def caller(i: int) -> None:
        with structlog.contextvars.bound_contextvars(request_id=f"r-{i}"):
            if i % 2:
                await work(i)
            else:
                async with aclosing(items(i)) as stream:
                    async for _ in stream:
                        pass

    async with anyio.create_task_group() as group:
        for i in range(20):
            group.start_soon(caller, i)
    told: dict[str, list[str]] = {}
    for entry in capture.entries:
        if "tenant" in entry:
            told.setdefault(entry["tenant"], []).append(entry["request_id"])
    assert len(told) == 20
    for tenant, requests in told.items():
        assert set(requests) == {tenant.replace("tenant", "r")}, tenant
        assert len(requests) in (3, 4, 5)  # offered, perhaps waiting, admitted, perhaps first, left
    assert seen == {i: f"r-{i}" for i in range(1, 20, 2)}
    assert structlog.contextvars.get_contextvars() == {}
    balanced(admission)


async def test_one_listener_for_many_admissions() -> None:
    """FC-59: admissions share the families and differ by their label."""
    shown = Shown()
    admissions = [Admission(Concurrency(1), name=name, listeners=[shown.listener]) for name in ("small", "large")]
    for admission in admissions:
        async with admission.admit():
            assert shown.get("inside_calls", admission=admission.name) == 1
            assert shown.get("inside_calls") == 1
    assert shown.get("calls_total", admission="small") == shown.get("calls_total", admission="large") == 1


async def test_ready_for_every_event_that_comes() -> None:
    """What an admission says of an uncontended call is Offered, Admitted, Left; of a queued one also Waiting."""
    kinds: list[type[Event]] = []

    class Listening:
        def on(self, event: Event) -> None:
            kinds.append(type(event))

    house = House(others=[Listening()])
    await house.call()
    assert kinds[-3:] == [Offered, Admitted, Left]
    async with anyio.create_task_group() as group:
        group.start_soon(house.call)
        group.start_soon(house.call)
    assert kinds.count(Waiting) == 1
