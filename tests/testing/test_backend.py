"""The scripted backend: it does as it is told, and remembers."""

from __future__ import annotations

import itertools
from math import inf, nan
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from andante import ConfigurationError
from andante.testing import (
    Answer,
    Fail,
    ManualClock,
    ScriptedBackend,
    Stall,
    Stream,
    virtual_backend,
)

pytestmark = pytest.mark.anyio


class TooManyError(Exception):
    pass


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)


# Calls. ---------------------------------------------------------------------------------------------------------------


async def test_it_follows_the_script() -> None:
    """Each call gets the next step, in order of arrival; afterwards the default."""
    backend = ScriptedBackend(
        [Answer("a", after=2), Fail(TooManyError("no"), after=1), Answer("c")], default=Answer("d")
    )
    assert await backend("prompt", model="m") == "a"
    with pytest.raises(TooManyError, match="no"):
        await backend.call()
    assert [await backend() for _ in range(3)] == ["c", "d", "d"]
    first, second, third = backend.calls[:3]
    assert (first.args, first.kwargs, first.number) == (("prompt",), {"model": "m"}, 0)
    assert (first.arrived, first.first, first.ended, first.ending) == (0.0, 2.0, 2.0, "answered")
    assert (second.arrived, second.first, second.ended, second.ending) == (2.0, None, 3.0, "failed")
    assert (third.arrived, third.ended) == (3.0, 3.0)
    assert backend.arrivals == [0.0, 2.0, 3.0, 3.0, 3.0]
    assert repr(backend) == "<ScriptedBackend 5 calls, 0 inside (at most 1), 4 answered, 1 failed>"
    backend.assert_balanced()


async def test_it_counts_who_is_inside() -> None:
    """`inside` and `max_inside` count the calls in flight; a function as the script may look at them (FC-02)."""
    backend = ScriptedBackend(lambda call: Fail(TooManyError) if backend.inside > 4 else Answer(after=1))
    refused = 0

    async def caller() -> None:
        nonlocal refused
        try:
            await backend()
        except TooManyError:
            refused += 1

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(caller)
        await anyio.sleep(0.5)
        assert backend.inside == 4
    assert (backend.inside, refused) == (0, 6)
    assert len(backend.ended("failed")) == 6
    backend.assert_balanced()


async def test_a_stall_ends_by_cancelling_alone() -> None:
    """A stalled call waits for ever; cancelling ends it and is remembered."""
    backend = ScriptedBackend(default=Stall())
    with anyio.move_on_after(1000):
        await backend()
    (call,) = backend.calls
    assert (call.ending, call.first) == ("cancelled", None)
    assert call.ended == pytest.approx(1000)
    backend.assert_balanced()


@pytest.mark.parametrize("step", [Answer(after=5), Fail(TooManyError, after=5), Stall()])
async def test_a_cancelled_call_leaves_nothing(step: Any) -> None:
    """Cancelled at any step, a call is out of the flight at once."""
    backend = ScriptedBackend(default=step)
    async with anyio.create_task_group() as group:
        group.start_soon(backend)
        group.start_soon(backend)
        await anyio.sleep(1)
        assert backend.inside == 2
        with pytest.raises(AssertionError, match="call 1 is still in flight"):
            backend.assert_balanced()
        group.cancel_scope.cancel()
    assert backend.inside == 0
    assert {call.ending for call in backend.calls} == {"cancelled"}


async def test_an_error_is_fresh_each_time() -> None:
    """A class is raised as a new exception for every call; an exception object is raised without an old traceback."""
    backend = ScriptedBackend(default=Fail(TooManyError))
    errors = []
    for _ in range(2):
        with pytest.raises(TooManyError) as caught:
            await backend()
        errors.append(caught.value)
    assert errors[0] is not errors[1]

    one = TooManyError("the same")
    backend = ScriptedBackend(default=Fail(one))
    depths = []
    for _ in range(3):
        with pytest.raises(TooManyError) as caught:
            await backend()
        assert caught.value is one
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


async def test_a_script_that_fails_is_the_callers_to_see() -> None:
    """What a script function raises, or a step that is none, reaches the caller and leaves nothing in flight."""

    def script(call: Any) -> Any:
        if call.number == 0:
            raise KeyError("script")
        return "nonsense"

    backend = ScriptedBackend(script)
    with pytest.raises(KeyError, match="script"):
        await backend()
    with pytest.raises(ConfigurationError, match="'nonsense'"):
        await backend()
    assert backend.inside == 0
    assert [call.ending for call in backend.calls] == ["failed", "failed"]


async def test_its_clock_can_be_given() -> None:
    """With a clock of its own it writes down those times."""
    clock = ManualClock(50)
    backend = ScriptedBackend(default=Answer(after=0), clock=clock)
    await backend()
    clock.advance(1)
    await backend()
    assert backend.arrivals == [50.0, 51.0]


# Bad input. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1.0, nan, inf, True, "1"])
def test_bad_delays(value: Any) -> None:
    """Delays are finite seconds."""
    for make in (
        lambda: Answer(after=value),
        lambda: Fail(TooManyError, after=value),
        lambda: Stream(first=value),
        lambda: Stream(gap=value),
    ):
        with pytest.raises(ConfigurationError, match=r"(after|first|gap) must be"):
            make()


@pytest.mark.parametrize("value", [-1, 1.5, True, "1"])
def test_bad_counts(value: Any) -> None:
    """Numbers of items are whole."""
    for name in ("fail_after", "stall_after"):
        with pytest.raises(ConfigurationError, match=name):
            Stream(**{name: value})


def test_bad_steps_and_scripts() -> None:
    """What is no step, no error and no script is refused where it is written."""
    for error in (None, "boom", int, 3):
        with pytest.raises(ConfigurationError, match="exception"):
            Fail(error)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="exception"):
            Stream(error=error)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="items"):
        Stream(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="list of steps"):
        ScriptedBackend(Answer())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'ok'"):
        ScriptedBackend(["ok"])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="script"):
        ScriptedBackend(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="default"):
        ScriptedBackend(default="ok")  # type: ignore[arg-type]


async def test_an_iterator_may_be_the_script() -> None:
    """An endless iterator of steps is read one step at a time."""
    backend = ScriptedBackend(Answer(number) for number in itertools.count())
    assert [await backend() for _ in range(3)] == [0, 1, 2]
