"""Guarded coroutine functions: the place comes back on every path, and errors come out as they were raised."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import (
    Admission,
    Call,
    Concurrency,
    ConfigurationError,
    Cost,
    Ending,
    ServiceClass,
    TokenBucket,
    guard,
)
from andante.events import Event, Left, Withdrawn
from andante.testing import Recorder, balanced

pytestmark = pytest.mark.anyio


class Bad(Exception):
    pass


def raising(error: BaseException) -> Any:
    def fn(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fn


async def ok() -> str:
    await anyio.lowlevel.checkpoint()
    return "ok"


# FC-14: whatever goes wrong. ------------------------------------------------------------------------------------------


async def _then_free(admission: Admission) -> None:
    with anyio.fail_after(1):
        assert await guard(admission)(ok)() == "ok"
    balanced(admission)


async def test_first_line_fails() -> None:
    """FC-14: in the function's first line; the error is the very object."""
    admission = Admission(Concurrency(1))
    error = Bad()

    @guard(admission)
    async def fails() -> None:
        raise error

    for _ in range(3):
        with pytest.raises(Bad) as caught:
            await fails()
        assert caught.value is error
        assert caught.value.__cause__ is None
    await _then_free(admission)


@pytest.mark.parametrize("name", ["cost", "service", "tenant", "deadline"])
async def test_functions_of_the_arguments_fail(name: str) -> None:
    """FC-14: cost, service, tenant and deadline run before anything is taken; what they raise comes out bare."""
    admission = Admission(Concurrency(1))
    guarded = guard(admission, **{name: raising(Bad("no"))})(ok)
    with pytest.raises(Bad, match="no"):
        await guarded()
    assert admission.snapshot().offered == 0
    await _then_free(admission)


@pytest.mark.parametrize("value", [None, 5, "much", {"tokens": 3}])
async def test_cost_function_returns_nonsense(value: Any) -> None:
    """The error names the function and the value; nothing is taken."""
    admission = Admission(Concurrency(1))
    with pytest.raises(ConfigurationError, match="cost") as caught:
        await guard(admission, cost=lambda: value)(ok)()
    assert repr(value) in str(caught.value)
    assert admission.snapshot().offered == 0


@pytest.mark.parametrize("value", ["nope", 5])
async def test_service_function_returns_nonsense(value: Any) -> None:
    admission = Admission(Concurrency(1))
    with pytest.raises(ConfigurationError):
        await guard(admission, service=lambda: value)(ok)()
    await _then_free(admission)


@pytest.mark.parametrize("value", [-1, float("nan"), "soon"])
async def test_deadline_function_returns_nonsense(value: Any) -> None:
    admission = Admission(Concurrency(1))
    with pytest.raises(ConfigurationError, match="deadline"):
        await guard(admission, deadline=lambda: value)(ok)()
    await _then_free(admission)


@pytest.mark.parametrize("arguments", [{"cost": 5}, {"deadline": -1}, {"deadline": "x"}, {"service": "nope"}], ids=str)
def test_nonsense_at_decoration(arguments: dict[str, Any]) -> None:
    """Values that make no sense are found when the function is decorated."""
    with pytest.raises(ConfigurationError):
        guard(Admission(Concurrency(1)), **arguments)


@pytest.mark.parametrize("error", [Bad("classify"), KeyError(3)])
async def test_classify_fails(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """FC-14: a `classify` that raises is reported and changes nothing: the work's own error comes out."""
    admission = Admission(Concurrency(1), classify=raising(error))
    work = ValueError("the work's own")

    @guard(admission)
    async def fails() -> None:
        raise work

    @guard(admission)
    async def streams() -> Any:
        yield 1
        raise work

    with caplog.at_level(logging.ERROR, "andante"):
        with pytest.raises(ValueError, match="own") as caught:
            await fails()
        assert caught.value is work
        with pytest.raises(ValueError, match="own"):
            async for _ in streams():
                pass
        with pytest.raises(ValueError, match="own"):
            async with admission.admit():
                raise work
    assert len(caplog.records) == 1
    assert admission.snapshot().ignored == 3
    await _then_free(admission)


async def test_classify_returns_nonsense(caplog: pytest.LogCaptureFixture) -> None:
    """The same for one that returns nonsense."""
    admission = Admission(Concurrency(1), classify=lambda error: "bad")  # type: ignore[arg-type,return-value]
    with caplog.at_level(logging.ERROR, "andante"), pytest.raises(Bad):
        await guard(admission)(AsyncRaiser(Bad()))()
    assert len(caplog.records) == 1
    await _then_free(admission)


class AsyncRaiser:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def __call__(self) -> None:
        raise self.error


@pytest.mark.parametrize("where", ["settle", "listener"])
async def test_hooks_fail(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """FC-14: `settle` and listeners that raise are reported once, and the result comes out."""

    class Angry:
        def on(self, event: Event) -> None:
            raise Bad(type(event).__name__)

    admission = Admission(Concurrency(1), listeners=[Angry()] if where == "listener" else [])
    guarded = guard(admission, settle=raising(Bad()) if where == "settle" else None)(ok)
    with caplog.at_level(logging.ERROR, "andante"):
        for _ in range(3):
            assert await guarded() == "ok"
    assert len(caplog.records) == 1
    balanced(admission)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_system_exit(error: BaseException) -> None:
    """FC-14: leaving the program gives the place back too."""
    admission = Admission(Concurrency(1))

    async def main() -> None:
        await guard(admission)(AsyncRaiser(error))()

    with pytest.raises(type(error)):
        asyncio.run(main())
    assert admission.snapshot().inside == 0
    asyncio.run(_then_free(admission))


async def test_cancellation_inside() -> None:
    """FC-14: a cancelled body is IGNORED, and cancellation is never turned into success."""
    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])

    @guard(admission)
    async def sleeps() -> None:
        await anyio.sleep(10)

    with anyio.move_on_after(1) as scope:
        await sleeps()
    assert scope.cancelled_caught
    assert [event.outcome.ending for event in recorder.of(Left)] == [Ending.IGNORED]
    await _then_free(admission)


async def test_errors_come_out_bare_and_groups_as_they_are() -> None:
    """FC-51: one error is not put into a group, and a group of the user's is left as it is."""
    admission = Admission(Concurrency(1), TokenBucket(10, burst=1))
    group = ExceptionGroup("mine", [ValueError(1), KeyError(2)])

    async def raise_it(error: Exception) -> None:
        raise error

    async def stream(error: Exception) -> Any:
        yield 1
        raise error

    for deadline in (None, 100):  # with a deadline there is a cancel scope around the body
        call, generate = guard(admission, deadline=deadline)(raise_it), guard(admission, deadline=deadline)(stream)
        for error in (ValueError("one"), group):
            with pytest.raises(type(error)) as caught:
                await call(error)
            assert caught.value is error
            with pytest.raises(type(error)) as caught:
                async for _ in generate(error):
                    pass
            assert caught.value is error
    with pytest.raises(ValueError, match="consumer"):
        async with admission.admit():
            raise ValueError("consumer")
    balanced(admission)


async def test_overload_and_mistakes_are_told_apart() -> None:
    """429s and time-outs are OVERLOADED, with the server's wait; the caller's mistakes are IGNORED."""

    class Status(Exception):
        def __init__(self, status_code: int, retry_after: float | None = None) -> None:
            self.status_code = status_code
            self.retry_after = retry_after

    recorder = Recorder()
    admission = Admission(Concurrency(1), listeners=[recorder])
    for error in (Status(429, 7), Status(400), TimeoutError(), ValueError(), MemoryError()):
        with pytest.raises(type(error)):
            await guard(admission)(AsyncRaiser(error))()
    outcomes = [event.outcome for event in recorder.of(Left)]
    assert [o.ending.value for o in outcomes] == ["overloaded", "ignored", "overloaded", "ignored", "overloaded"]
    assert outcomes[0].retry_after == 7


async def test_settle_and_reservation() -> None:
    """Settled by the result; None keeps the reservation; an overload before the first result refunds the tokens."""
    bucket = TokenBucket(1e-6, "day", unit="tokens", burst=10_000)
    admission = Admission(bucket)
    cost = Cost(input_tokens=100, output_tokens=400)

    def level() -> float:
        return float(admission.snapshot().gates["token_bucket"]["level"])

    await guard(admission, cost=cost, settle=lambda r: Cost(input_tokens=100, output_tokens=len(r)))(ok)()
    assert level() == pytest.approx(10_000 - 102)
    await guard(admission, cost=cost, settle=lambda r: None)(ok)()
    assert level() == pytest.approx(10_000 - 102 - 500)
    with pytest.raises(TimeoutError):
        await guard(admission, cost=cost)(AsyncRaiser(TimeoutError()))()
    assert level() == pytest.approx(10_000 - 102 - 500)
    with pytest.raises(Bad):
        await guard(admission, cost=cost)(AsyncRaiser(Bad()))()
    assert level() == pytest.approx(10_000 - 102 - 1_000)
    balanced(admission)


async def test_context_variables() -> None:
    """FC-62: each body sees its caller's context, and what it sets is visible as with a direct await."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: list[tuple[str, str]] = []

    class Listener:
        def on(self, event: Event) -> None:
            if not isinstance(event, Withdrawn):
                call = getattr(event, "call", None)
                if call is not None:
                    seen.append((str(call.tenant), name.get("nobody")))

    admission = Admission(
        Concurrency(2),
        classes=[ServiceClass("default"), ServiceClass("short", max_wait=2.5, early_refusal=False)],
        listeners=[Listener()],
    )

    @guard(admission, tenant=lambda who: who, service=lambda who: "short" if who.endswith("s") else "default")
    async def body(who: str) -> None:
        await anyio.sleep(1)
        assert name.get() == who
        name.set(who + "!")

    async def caller(who: str) -> None:
        name.set(who)
        try:
            await body(who)
        except Exception:
            return
        assert name.get() == who + "!"

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(caller, f"{number}{'s' if number % 4 == 3 else ''}")
    wrong = [(tenant, context) for tenant, context in seen if context.rstrip("!") != tenant]
    assert not wrong
    balanced(admission)


async def test_a_failed_call_is_forgotten_without_the_collector() -> None:
    """FC-67: error, traceback, permit and arguments form no cycle; they go when the caller lets them go."""
    admission = Admission(Concurrency(1))

    class Large:
        pass

    @guard(admission)
    async def fails(argument: Large) -> None:
        raise Bad

    async def call() -> weakref.ref[Large]:
        large = Large()
        try:
            await fails(large)
        except Bad:
            pass
        return weakref.ref(large)

    gc.collect()
    gc.disable()
    try:
        assert (await call())() is None
    finally:
        gc.enable()


async def test_unhashable_tenant() -> None:
    """A tenant that cannot be a key is a clear error, whether or not the call would have to wait."""
    admission = Admission(Concurrency(1))
    guarded = guard(admission, tenant=lambda: ["a", "list"])(ok)
    with pytest.raises((TypeError, ConfigurationError)):
        await guarded()
    held = admission.try_enter()
    with pytest.raises((TypeError, ConfigurationError)):
        await guarded()
    held.close()
    balanced(admission)
    assert admission.try_enter(Call()).service == "default"
