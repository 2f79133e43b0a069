"""Listeners are told the right thing, in the right context, and nothing is lost when one ends the program."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import LogCapture

from andante.admission import Admission
from andante.errors import Rejected, WouldWait
from andante.gates import Concurrency
from andante.service import ServiceClass
from andante.telemetry import PrometheusListener, StructlogListener
from andante.testing import Recorder, balanced, virtual_backend
from andante.values import Call


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return virtual_backend(request.param)


@pytest.mark.anyio
async def test_refused_while_waiting_in_its_own_context():
    """FC-62: the refusal of a call that waited carries that caller's fields, not those of whoever noticed."""
    structlog.reset_defaults()
    capture = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    admission = Admission(
        Concurrency(1), classes=[ServiceClass("default", max_wait=1.0)], listeners=[StructlogListener(tenants=True)]
    )
    permit = await admission.enter()

    async def caller(i):
        with structlog.contextvars.bound_contextvars(request_id=f"r-{i}"), pytest.raises(Rejected):
            await admission.enter(Call(tenant=f"r-{i}"))

    async with anyio.create_task_group() as group:
        for i in range(5):
            group.start_soon(caller, i)
    permit.close()
    structlog.reset_defaults()
    refused = [e for e in capture.entries if e["event"] == "andante.refused"]
    assert len(refused) == 5
    for entry in refused:
        assert entry["request_id"] == entry["tenant"]


class Exits:
    def __init__(self, kind):
        self.kind = kind

    def on(self, event):
        if type(event).__name__ == self.kind:
            raise SystemExit


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["Offered", "Admitted", "Left"])
async def test_a_hook_that_exits_leaks_no_place(kind):
    """FC-14: SystemExit (or KeyboardInterrupt) in a log hook: the place comes back."""
    admission = Admission(Concurrency(1), listeners=[Exits(kind)])
    with pytest.raises(SystemExit):
        (await admission.enter()).close()
    balanced(admission)


@pytest.mark.anyio
async def test_queued_means_that_waiting_was_told():
    """Refused.queued is True only after Waiting: a refused try never stood in the line."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    permit = admission.try_enter()
    with pytest.raises(WouldWait):
        admission.try_enter()
    permit.close()
    assert recorder.conserved()


def test_calls_of_a_loop_that_ended_are_told():
    """Metrics of an admission whose event loop ended with a call inside return to 0 as its snapshot does."""
    registry = CollectorRegistry()
    recorder = Recorder()
    admission = Admission(Concurrency(2), name="llm", listeners=[PrometheusListener(registry), recorder])

    async def forget():
        await admission.enter()

    async def again():
        async with admission.admit():
            pass

    asyncio.run(forget())
    asyncio.run(again())
    assert admission.snapshot().inside == 0
    assert registry.get_sample_value("andante_inside_calls", {"admission": "llm", "service": "default"}) == 0
    assert recorder.conserved()
