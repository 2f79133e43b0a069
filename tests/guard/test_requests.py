"""`request()`: inherited by every guarded call inside, nested, and with deadlines that only shrink (law 6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    ConfigurationError,
    DeadlineOverrun,
    DeadlineUnreachable,
    ServiceClass,
    guard,
    request,
)
from andante.events import Offered
from andante.testing import ManualClock, Recorder, ScriptedBackend, Stall, Stream, balanced

pytestmark = pytest.mark.anyio


class World:
    def __init__(self, *classes: str, **terms: Any) -> None:
        self.recorder = Recorder()
        self.admission = Admission(
            Concurrency(5),
            classes=[ServiceClass(name) for name in classes or ("chat", "bulk")],
            listeners=[self.recorder],
        )
        self.backend = ScriptedBackend(default=Stream("ab", gap=1))
        self.call = guard(self.admission, **terms)(self.answer)
        self.generate = guard(self.admission, **terms)(self.backend.generate)

    async def answer(self, after: float = 0.0) -> str:
        await anyio.sleep(after)
        return "ok"

    @property
    def last(self) -> Call:
        return self.recorder.of(Offered)[-1].call

    @property
    def service(self) -> str:
        return self.recorder.of(Offered)[-1].service


async def test_service_and_tenant_are_inherited() -> None:
    """guard's value, then the request's, then "default", then the last class."""
    world, fixed = World(), World(service="chat", tenant="mine")
    await world.call()
    assert (world.service, world.last.tenant) == ("bulk", None)
    with request(service="chat", tenant="acme"):
        await world.call()
        assert (world.service, world.last.tenant) == ("chat", "acme")
        await fixed.call()
        assert (fixed.service, fixed.last.tenant) == ("chat", "mine")
    with request(service="bulk"):
        await fixed.call()
        assert fixed.service == "chat"
    await world.call()
    assert (world.service, world.last.tenant) == ("bulk", None)


async def test_a_class_that_one_admission_does_not_know() -> None:
    """One request passes several admissions: where its class is unknown, it is ignored."""
    world, other = World(), World("only")
    with request(service="chat"):
        await world.call()
        await other.call()
    assert (world.service, other.service) == ("chat", "only")


async def test_deadlines_only_shrink() -> None:
    """Law 6: nested requests and the guard's own deadline: the nearest of all counts."""
    world, own = World(), World(deadline=20)
    await anyio.sleep(100)
    with request(within=10) as outer:
        await own.call()
        assert own.last.deadline == pytest.approx(110)
        with request(within=50) as inner:
            await world.call()
            assert world.last.deadline == inner.deadline == outer.deadline == pytest.approx(110)
        with request(within=timedelta(seconds=5)) as inner:
            await world.call()
            assert world.last.deadline == pytest.approx(105)
            assert inner.left() == pytest.approx(5)
    with request(within=50):
        await own.call()
        assert own.last.deadline == pytest.approx(120)
    await world.call()
    assert world.last.deadline == float("inf")


async def test_a_request_bounds_everything_below_it() -> None:
    """Law 6: the wait, the body, and a stream: none of them lasts longer than the request."""
    admission = Admission(Concurrency(1))
    backend = ScriptedBackend(default=Stall())
    held = admission.try_enter()
    with request(within=5), pytest.raises(DeadlineUnreachable):
        await anyio.sleep(5)
        await guard(admission)(backend.call)()
    with request(within=5), pytest.raises(Exception, match="in vain"):
        await guard(admission)(backend.call)()
    assert admission.now() == pytest.approx(10)
    held.close()
    with request(within=5), pytest.raises(DeadlineOverrun):
        await guard(admission)(backend.call)()
    assert admission.now() == pytest.approx(15)
    with request(within=5), pytest.raises(DeadlineOverrun):
        async for _ in guard(admission)(backend.generate)():
            pass
    assert admission.now() == pytest.approx(20)
    balanced(admission)


async def test_a_stream_belongs_to_the_request_in_which_it_was_called() -> None:
    """Captured at the call; read elsewhere, it keeps class, tenant and deadline, and its account goes there."""
    world = World()
    with request(service="chat", tenant="acme", within=50) as r:
        stream = world.generate()
    with request(service="bulk", within=1) as other:
        assert [item async for item in stream] == ["a", "b"]
    assert (world.service, world.last.tenant, world.last.deadline) == ("chat", "acme", pytest.approx(50))
    assert (len(r.accounts), len(other.accounts)) == (1, 0)
    balanced(world.admission)


async def test_accounts() -> None:
    """One for each guarded call that has ended, in the order of their ends; failures too; refused calls have none."""
    world = World()
    backend = ScriptedBackend(default=Stream("ab", first=1, gap=1))
    with request() as r:
        async with anyio.create_task_group() as group:
            group.start_soon(world.call, 3)
            group.start_soon(world.call, 2)
        with pytest.raises(TypeError):
            await world.call("x")  # type: ignore[arg-type]
        async for _ in guard(world.admission)(backend.generate)():
            pass
        async with await guard(world.admission)(backend.call)() as stream:
            await anext(stream)
        assert len(r.accounts) == 5
    assert [account.seconds for account in r.accounts] == pytest.approx([2, 3, 0, 2, 1])
    assert [account.first for account in r.accounts[3:]] == pytest.approx([1, 1])
    assert {account.service for account in r.accounts} == {"bulk"}
    balanced(world.admission)


async def test_child_tasks_inherit() -> None:
    """Tasks started inside inherit; those started before do not."""
    world = World()
    go = anyio.Event()

    async def caller() -> None:
        await go.wait()
        await world.call()

    async with anyio.create_task_group() as group:
        group.start_soon(caller)
        with request(tenant="acme"):
            group.start_soon(caller)
        go.set()
    tenants = {event.call.tenant for event in world.recorder.of(Offered)}
    assert tenants == {None, "acme"}


async def test_an_admission_with_a_clock_of_its_own() -> None:
    """The request's time left is what counts, whatever the admission's clock shows."""
    clock = ManualClock(1_000_000)
    recorder = Recorder()
    admission = Admission(Concurrency(1), clock=clock, listeners=[recorder])

    async def work() -> None:
        pass

    with request(within=5):
        await guard(admission)(work)()
        await guard(admission, deadline=2)(work)()
    deadlines = [event.call.deadline for event in recorder.of(Offered)]
    assert deadlines == pytest.approx([1_000_005, 1_000_002], abs=1e-6)
    balanced(admission)


@pytest.mark.parametrize(
    "arguments", [{"within": -1}, {"within": float("nan")}, {"within": "x"}, {"service": 5}], ids=str
)
def test_nonsense(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        request(**arguments)


def test_one_request_is_for_one_time() -> None:
    """Entered twice, also one after the other, it says so: its deadline would be that of the first time."""
    r = request(within=5)
    with r:
        with pytest.raises(RuntimeError, match="new one"), r:
            pass
        assert r.deadline < float("inf")
    with pytest.raises(RuntimeError, match="new one"), r:
        pass
    with request() as outside:
        assert outside.deadline == float("inf")


async def test_left_in_another_context() -> None:
    """A request around the `yield` of a generator that another task closes: quiet, and nothing is left of it there."""

    async def generator() -> Any:
        with request(tenant="acme"):
            yield 1

    stream = generator()
    await anext(stream)

    async def close() -> None:
        await stream.aclose()

    async with anyio.create_task_group() as group:
        group.start_soon(close)


async def test_repr() -> None:
    """Law 12: class, tenant and the time left."""
    with request(service="chat", tenant="acme", within=5) as r:
        await anyio.sleep(2)
        assert repr(r) == "<request service='chat' tenant='acme' left=3>"
