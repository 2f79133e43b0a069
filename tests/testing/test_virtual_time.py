"""Virtual time: it jumps, it lands exactly, and it is asyncio and trio all the same."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import weakref
from datetime import timedelta
from math import inf, nan, nextafter, ulp
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from andante.clock import current_clock
from andante.errors import ConfigurationError
from andante.testing import VirtualTimeLoop, run, virtual_backend, virtual_backends

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)


@pytest.fixture
def real() -> Callable[[], float]:
    """Gives a function that tells how many real seconds the test has taken so far."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin


def now() -> float:
    return asyncio.get_running_loop().time()


# On both event loops. -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_hour_takes_no_time(real: Any) -> None:
    """A sleep of an hour is an hour on the clock that andante uses, and over at once."""
    clock = current_clock()
    assert clock() == 0.0
    await anyio.sleep(3600)
    assert clock() == pytest.approx(3600, abs=1e-9)
    assert real() < 5


@pytest.mark.anyio
async def test_a_timeout_fires_at_its_time() -> None:
    """anyio's cancel scopes follow the virtual clock, and only what is later than they are is cut off."""
    clock = current_clock()
    with anyio.move_on_after(30) as late:
        await anyio.sleep(31)
    assert late.cancelled_caught
    assert clock() == pytest.approx(30, abs=1e-9)
    with anyio.move_on_after(30) as early:
        await anyio.sleep(29)
    assert not early.cancelled_caught
    with pytest.raises(TimeoutError):
        with anyio.fail_after(5):
            await anyio.sleep_forever()
    assert clock() == pytest.approx(64, abs=1e-9)


@pytest.mark.anyio
async def test_tasks_meet_in_virtual_time() -> None:
    """Tasks with different sleeps run in the order of their times."""
    story: list[tuple[str, float]] = []
    clock = current_clock()

    async def walk(name: str, step: float) -> None:
        for _ in range(3):
            await anyio.sleep(step)
            story.append((name, clock()))

    async with anyio.create_task_group() as group:
        group.start_soon(walk, "slow", 10.0)
        group.start_soon(walk, "fast", 4.0)
    assert [name for name, _ in story] == ["fast", "fast", "slow", "fast", "slow", "slow"]
    assert [at for _, at in story] == pytest.approx([4, 8, 10, 12, 20, 30])


def test_backends_for_both_loops() -> None:
    """The options are those of the loops' own `run`, and each trio run gets a clock of its own."""
    (asyncio_name, asyncio_options), (trio_name, trio_options) = virtual_backends()
    assert (asyncio_name, trio_name) == ("asyncio", "trio")
    with asyncio.Runner(**asyncio_options) as runner:
        assert runner.run(_sleep_and_tell()) == 7.5
    assert anyio.run(_sleep_and_tell, backend=asyncio_name, backend_options=asyncio_options) == 7.5
    assert trio.run(_sleep_and_tell, **trio_options) == pytest.approx(7.5)
    assert virtual_backend("trio")[1]["clock"] is not virtual_backend("trio")[1]["clock"]
    with pytest.raises(ConfigurationError, match="'curio'"):
        virtual_backend("curio")


async def _sleep_and_tell() -> float:
    await anyio.sleep(7.5)
    return current_clock()()


# Exactness. -----------------------------------------------------------------------------------------------------------


def test_timers_fire_exactly_then_and_in_order() -> None:
    """Time lands on the very float of a timer, whatever the distance, and equal times keep their order."""
    times = [0.1, 0.1, nextafter(0.1, 1), 0.3, 5e-324, 1e-9, 3600.0, DAY * 400, 1e15, 0.1]
    assert _fired(0.0, times) == sorted(enumerate(times), key=lambda pair: pair[1])


@given(
    start=st.floats(0, 1e9),
    delays=st.lists(st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.3, 1e-9]), st.floats(0, 1e12)), max_size=60),
)
def test_exact_at_any_time(start: float, delays: list[float]) -> None:
    """No timer fires early, none late, and none out of order: each sees its own time as the present.

    `call_at` for a time that is not to come means the next moment (aiolimiter needs a clock that moves).
    """
    times = [max(start + delay, nextafter(start, inf)) for delay in delays]
    assert _fired(start, times) == sorted(enumerate(times), key=lambda pair: pair[1])


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.booleans()), max_size=30))
def test_timers_set_by_timers(plan: list[tuple[float, float, bool]]) -> None:
    """The same holds for timers that are set by timers, and cancelled ones never fire."""
    seen: list[tuple[int, float]] = []
    due: list[tuple[int, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def second(number: int, at: float) -> None:
            seen.append((number, loop.time()))
            assert loop.time() == at

        def first(number: int, again: float, keep: bool) -> None:
            at = max(loop.time() + again, nextafter(loop.time(), inf))
            timer = loop.call_at(at, second, number, at)
            if keep:
                due.append((number, at))
            else:
                timer.cancel()

        for number, (delay, again, keep) in enumerate(plan):
            loop.call_later(delay, first, number, again, keep)
        await asyncio.sleep(300)

    run(main)
    assert sorted(seen) == sorted(due)
    assert [at for _, at in seen] == sorted(at for _, at in seen)


def _fired(start: float, times: list[float]) -> list[tuple[int, float]]:
    fired: list[tuple[int, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number, at in enumerate(times):
            loop.call_at(at, lambda number=number: fired.append((number, loop.time())))
        await asyncio.sleep(2 * max(times, default=0.0) + 1)

    run(main, start=start)
    return fired


def test_many_timers_of_one_instant_keep_their_order() -> None:
    """A thousand sleepers that wake at the same instant wake in the order in which they went to sleep."""
    woken: list[int] = []

    async def sleeper(number: int) -> None:
        await asyncio.sleep(1.5)
        woken.append(number)

    async def main() -> None:
        await asyncio.gather(*map(sleeper, range(1000)))
        assert now() == 1.5

    run(main)
    assert woken == list(range(1000))


def test_a_tiny_sleep_far_from_zero_ends() -> None:
    """A delay smaller than the step of the clock's float is over at once instead of never."""

    async def main() -> float:
        await asyncio.sleep(ulp(1e12) / 4)
        return now()

    assert run(main, start=1e12) == 1e12


def test_the_same_run_gives_the_same_story() -> None:
    """Nothing depends on real time: two runs with one seed are equal, to the last bit."""

    async def main(seed: int) -> list[tuple[int, float]]:
        dice, story = random.Random(seed), list[tuple[int, float]]()

        async def walk(number: int) -> None:
            for _ in range(20):
                await asyncio.sleep(dice.expovariate(3))
                story.append((number, now()))

        await asyncio.gather(*map(walk, range(20)))
        return story

    assert run(main, 7) == run(main, 7)
    assert run(main, 7) != run(main, 8)


# What asyncio promises. -----------------------------------------------------------------------------------------------


def test_asyncio_timeouts() -> None:
    """`asyncio.timeout`, `wait_for` and `wait` follow the virtual clock."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.sleep(61)
        assert now() == 60
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 40)
        assert now() == 100
        done, waiting = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(s, s)) for s in (1, 3)], timeout=2)
        assert ([task.result() for task in done], len(waiting), now()) == ([1], 1, 102)

    run(main)


def test_run_is_like_asyncio_run() -> None:
    """`run` returns and raises what the work does, cancels what is left over and closes generators and the loop."""
    story: list[str] = []
    loops: list[Any] = []

    async def left_over() -> None:
        try:
            await asyncio.sleep(inf)
        finally:
            await asyncio.sleep(1)
            story.append(f"left over ended at {now():g}")

    async def generator() -> Any:
        try:
            yield 1
        finally:
            story.append("generator closed")

    kept: list[Any] = []

    async def main(a: int, b: int) -> int:
        loops.append(asyncio.get_running_loop())
        task = asyncio.create_task(left_over())
        kept.extend([task, generator()])
        await anext(kept[-1])
        await asyncio.sleep(10)
        return a + b

    assert run(main, 2, 3) == 5
    assert story == ["left over ended at 11", "generator closed"]
    assert loops[0].is_closed()
    assert run(main(1, 1), start=5.0) == 2
    assert run(main, 1, 1, start=timedelta(hours=1)) == 2

    async def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(fails)


def test_run_refuses_nonsense() -> None:
    """Bad input is named, and no coroutine is left unawaited."""

    async def main() -> None: ...

    with pytest.raises(ConfigurationError, match="takes no arguments"):
        run(main(), 1)  # type: ignore[call-overload]
    for nonsense in (3, None, "main"):
        with pytest.raises(ConfigurationError, match="must be an async function"):
            run(nonsense)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        run(lambda: 3)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("value", [nan, -1.0, inf, True, "0", None])
def test_bad_start(value: Any) -> None:
    """A loop begins at a finite time."""
    with pytest.raises(ConfigurationError, match="start"):
        VirtualTimeLoop(start=value)


@pytest.mark.parametrize("name", ["grace", "patience"])
@pytest.mark.parametrize("value", [nan, -1.0, True, "0"])
def test_bad_waits(name: str, value: Any) -> None:
    """Real waits are numbers of seconds."""
    with pytest.raises(ConfigurationError, match=name):
        VirtualTimeLoop(**{name: value})


def test_as_loop_factory() -> None:
    """`asyncio.Runner` takes the class as its factory; time goes on between its runs."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(asyncio.sleep(5))
        runner.run(asyncio.sleep(5))
        loop = runner.get_loop()
        assert loop.time() == 10
        assert repr(loop) == "<VirtualTimeLoop idle at 10 s>"
    assert repr(loop) == "<VirtualTimeLoop closed at 10 s>"
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


def test_debug_mode_checks_as_asyncio_does() -> None:
    """In debug mode a coroutine function is no callback, and another thread may not set timers."""
    complaints: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(TypeError, match="coroutines cannot be used"):
            loop.call_later(1, main)

        def elsewhere() -> None:
            try:
                loop.call_later(1, print)
            except RuntimeError as error:
                complaints.append(str(error))

        await asyncio.to_thread(elsewhere)
        with pytest.raises(TypeError):
            loop.call_at(None, print)  # type: ignore[arg-type]
        await asyncio.sleep(1)

    run(main, debug=True)
    assert len(complaints) == 1
    assert "Non-thread-safe" in complaints[0]


def test_the_clock_of_andante_is_the_clock_of_the_loop() -> None:
    """andante finds the virtual clock on the running loop, and the monotonic one on any other."""

    async def main() -> None:
        clock = current_clock()
        await asyncio.sleep(12.25)
        assert clock() == asyncio.get_running_loop().time() == 12.25

    run(main)

    async def in_real_time() -> None:
        assert current_clock() is time.monotonic

    asyncio.run(in_real_time())


def test_a_closed_loop_is_collected() -> None:
    """Loop and selector refer to each other; a closed pair is garbage like any other."""
    loop = VirtualTimeLoop()
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None
