"""The climb in virtual time, on a scripted backend: what it finds, what it never does, how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from andante.calibrate import Bounds, Calibration, CallFailed, Effect, FunctionTarget, Trouble, calibrate, first_call
from andante.testing import Answer, Fail, ScriptedBackend, Stall, Stream, virtual_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Virtual time."""
    return virtual_backend(request.param)


class TooMany(Exception):
    status_code = 429


def streams(backend: ScriptedBackend) -> FunctionTarget:
    async def function(index: int) -> AsyncIterator[Any]:
        async for item in backend.generate(index):
            yield item

    return FunctionTarget(function, "the:backend")


def calls(backend: ScriptedBackend) -> FunctionTarget:
    async def function(prompt: str) -> Any:
        return await backend.call(prompt)

    return FunctionTarget(function, "the:backend")


def made(script: Callable[[int], Any]) -> ScriptedBackend:
    """A backend whose step is `script(calls inside)`."""
    backend = ScriptedBackend(lambda _: script(backend.inside))
    return backend


async def climb(target: FunctionTarget, **bounds: Any) -> Calibration:
    calibration = Calibration(target.name, Bounds(**bounds))
    await first_call(target, calibration)
    return await calibrate(target, calibration)


@pytest.mark.anyio
async def test_streams_with_a_knee_at_six() -> None:
    """Up to six streams share nothing; more make all slower: the pace is six, with its rates and gaps."""

    def script(n: int) -> Stream:
        slower = max(1.0, n / 6)
        return Stream(items=range(20), first=0.1 * slower, gap=0.04 * slower)

    backend = made(script)
    done = await climb(streams(backend), seconds=80)
    assert done.stop is not None
    assert done.pace is not None
    assert (done.stop.reason, done.pace.n, done.pace.visits) == ("knee", 6, 3)
    assert done.pace.rate.median == pytest.approx(6 * 20 / 0.86, rel=0.03)
    assert done.pace.share(done.pace.ttft, 0.5) == pytest.approx(0.1)
    assert done.pace.share(done.pace.itl, 0.5) == pytest.approx(0.04, rel=0.02)
    assert backend.max_inside <= 16
    assert len(backend.calls) == done.calls
    backend.assert_balanced()
    assert backend.inside == 0


@pytest.mark.anyio
async def test_whole_calls_with_a_knee() -> None:
    """Only ends are seen, no tokens: calls a second decide."""
    backend = made(lambda n: Answer(after=0.5 * max(1.0, n / 4)))
    done = await climb(calls(backend), seconds=120)
    assert done.pace is not None
    assert done.pace.n == 4
    assert done.pace.rate.median == pytest.approx(8.0, rel=0.03)
    assert (done.pace.tokens, done.pace.ttft) == ((), ())
    prompts = [call.args[0] for call in backend.calls]
    assert len(set(prompts)) == len(prompts), "no two calls have the same prompt"


@pytest.mark.anyio
async def test_never_more_than_stated() -> None:
    """`at_most` calls in flight, `seconds` in all, whatever would still be gained; then everything is ended."""
    backend = made(lambda n: Stream(items=range(20), first=0.1, gap=0.05))
    began = anyio.current_time()
    done = await climb(streams(backend), seconds=60, at_most=5)
    assert backend.max_inside == 5
    assert anyio.current_time() - began <= 60 + 1.1  # and the first call
    assert done.stop is not None
    assert (done.stop.reason, done.pace and done.pace.n) == ("at_most", 5)
    backend.assert_balanced()


@pytest.mark.anyio
async def test_time_is_a_bound_even_for_calls_that_last() -> None:
    """Calls longer than all the time there is are ended; nothing is invented."""
    backend = made(lambda n: Answer(after=1000))
    target = calls(backend)
    calibration = Calibration(target.name, Bounds(seconds=20, timeout=5000))
    began = anyio.current_time()
    await calibrate(target, calibration)
    assert anyio.current_time() - began <= 20
    assert calibration.pace is None
    assert calibration.stop is not None
    assert calibration.stop.reason == "nothing"
    backend.assert_balanced()


@pytest.mark.anyio
async def test_callers_come_one_by_one() -> None:
    """A larger number does not begin with a burst: no two new callers start at the same moment."""
    backend = made(lambda n: Answer(after=1.0))
    await climb(calls(backend), seconds=60, at_most=16)
    arrivals = backend.arrivals
    together = max(arrivals.count(at) for at in arrivals)
    assert together <= 2


@pytest.mark.anyio
async def test_pushback_is_the_bound() -> None:
    """The first 429 ends the climb at once: no call begins after it, and the pace is below."""
    backend = made(lambda n: Fail(TooMany("slow down")) if n > 5 else Answer(after=1.0))
    done = await climb(calls(backend), seconds=120)
    assert done.stop is not None
    assert done.stop.reason == "pushback"
    assert "slow down" in done.stop.said
    assert done.pace is not None
    assert done.pace.n == 4
    refused = next(call for call in backend.calls if isinstance(call.step, Fail))
    assert max(backend.arrivals) <= refused.arrived
    backend.assert_balanced()


@pytest.mark.anyio
async def test_a_call_without_output_is_overload() -> None:
    """A stream that never starts, and one that stands still, are noticed after `timeout`, and end the climb."""
    for stall, said in (
        (Stall(), "no output for 5 s"),
        (Stream(items=range(9), gap=4.0, stall_after=3), "the stream stood still for 5 s"),
    ):
        backend = made(lambda n, stall=stall: stall if n > 2 else Stream(items=range(10), first=0.1, gap=0.1))
        done = await climb(streams(backend), seconds=120, timeout=5)
        assert done.stop is not None
        assert done.stop.reason == "pushback"
        assert said in done.stop.said
        backend.assert_balanced()


@pytest.mark.anyio
async def test_faults_are_counted_and_not_hammered() -> None:
    """Single failures are counted and the climb goes on; a backend that only fails is left alone after a few."""
    numbers = iter(range(10_000))
    backend = made(lambda n: Fail(ValueError("odd")) if next(numbers) % 25 == 24 else Answer(after=0.5))
    done = await climb(calls(backend), seconds=60, at_most=4)
    assert done.stop is not None
    assert done.stop.reason == "at_most"
    assert sum(level.failed for level in done.levels) >= 2
    assert done.pace is not None
    broken = made(lambda n: Fail(ValueError("odd")))
    done = await climb(calls(broken), seconds=60)
    assert done.stop is not None
    assert done.stop.reason == "faults"
    assert len(broken.calls) <= 6


@pytest.mark.anyio
async def test_empty_streams_and_the_wrong_kind_of_function() -> None:
    """A stream without an item is a fault; a function that is not async is told so, once."""
    done = Calibration("x", Bounds())
    empty = await first_call(streams(made(lambda n: Stream())), done)
    assert empty.trouble is not None
    assert empty.trouble.kind == "empty stream"
    plain = await first_call(FunctionTarget(lambda index: index, "x"), Calibration("x", Bounds()))
    assert plain.trouble is not None
    assert plain.trouble.effect is Effect.FATAL
    assert "async" in str(plain.trouble)


@pytest.mark.anyio
async def test_answers_in_no_time_do_not_spin() -> None:
    """A function that answers at once is called a thousand times a second by each caller, not more."""
    backend = made(lambda n: Answer(7))
    done = await climb(calls(backend), seconds=2, at_most=2, rounds=1)
    assert 100 < done.calls <= 4000
    assert done.pace is not None
    assert done.pace.tokens, "an int is a number of tokens"


@pytest.mark.anyio
async def test_interrupted() -> None:
    """Cancelled at any time: all calls are ended, and what was measured until then stays."""
    for seconds in (0.0, 1.0, 3.3, 10.0, 20.0):
        backend = made(lambda n: Stream(items=range(20), first=0.1, gap=0.05))
        calibration = Calibration("x", Bounds(seconds=60))
        with anyio.move_on_after(seconds):
            await calibrate(streams(backend), calibration)
        backend.assert_balanced()
        assert calibration.stop is None
        assert (calibration.pace is not None) == (seconds > 2.4), "a visit that was cut short is no pace"
        assert calibration.seconds == pytest.approx(seconds, abs=0.01)


@pytest.mark.anyio
async def test_watched() -> None:
    """Whoever watches hears of every visit, with a share that grows from 0 to nearly 1."""
    heard: dict[int, list[float]] = {}
    backend = made(lambda n: Answer(after=0.2))
    calibration = Calibration("x", Bounds(seconds=20, at_most=2, rounds=1))
    await calibrate(calls(backend), calibration, watch=lambda visit, share: heard.setdefault(visit.n, []).append(share))
    assert list(heard) == [1, 2]
    for shares in heard.values():
        assert shares == sorted(shares)
        assert shares[0] == 0.0
        assert 0.5 < shares[-1] <= 1.0


@pytest.mark.asyncio
async def test_what_functions_are_called_with() -> None:
    """A prompt for `prompt`, nothing for no parameter, else the number; a returned stream is read."""
    seen: list[Any] = []

    async def with_prompt(prompt: str) -> None:
        seen.append(prompt)

    async def with_nothing() -> int:
        return 12

    async def with_number(number: int, further: str = "x") -> Any:
        async def stream() -> AsyncIterator[int]:
            for k in range(3):
                await asyncio.sleep(0)
                yield k

        seen.append(number)
        return stream()

    done = Calibration("x", Bounds())
    await first_call(FunctionTarget(with_prompt, "x", words=30), done)
    assert len(seen[0].split()) == 30
    assert (await first_call(FunctionTarget(with_nothing, "x"), done)).output == 12
    assert (await first_call(FunctionTarget(with_number, "x"), done)).output == 3
    assert seen[1] == 0


@pytest.mark.asyncio
async def test_a_call_that_failed_in_its_own_words() -> None:
    """What a target knows of its failure is what is counted."""
    trouble = Trouble("HTTP 404", "no such model", Effect.FATAL)

    async def function() -> None:
        raise CallFailed(trouble)

    sample = await first_call(FunctionTarget(function, "x"), Calibration("x", Bounds()))
    assert sample.trouble is trouble
    assert sample.ended is not None
