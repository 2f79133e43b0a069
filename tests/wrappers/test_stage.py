"""Stages: each has its share of the time that is left, optional ones are left out where they do not fit."""

from __future__ import annotations

import itertools
from math import inf, nan
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andante import (
    Admission,
    Concurrency,
    ConfigurationError,
    DeadlineExpired,
    DeadlineOverrun,
    ServiceClass,
    guard,
    request,
    stage,
)
from andante.clock import current_clock
from andante.testing import virtual_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

BACKENDS = ["asyncio", "trio"]
_serial = itertools.count()


def fresh(name: str = "stage") -> str:
    """A name that has learned nothing yet."""
    return f"{name}-{next(_serial)}"


def in_virtual_time(main: Callable[[], Awaitable[None]], backend: str) -> None:
    name, options = virtual_backend(backend)
    anyio.run(main, backend=name, backend_options=options)


async def work(seconds: float, answer: Any = "done") -> Any:
    await anyio.sleep(seconds)
    return answer


def now() -> float:
    return current_clock()()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_share_of_what_is_left(backend: str) -> None:
    """Each stage sees its share of the time left when it begins; what the first did not use, the second has."""

    async def main() -> None:
        seen = []

        async def look(seconds: float) -> None:
            with request() as here:
                seen.append(here.left())
            await anyio.sleep(seconds)

        with request(within=10.0) as r:
            await stage(fresh(), share=0.5)(look, 1.0)
            await stage(fresh(), share=0.5)(look, 2.0)
            await stage(fresh())(look, 3.0)
            assert r.left() == pytest.approx(4.0)
        assert seen == pytest.approx([5.0, 4.5, 7.0])

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_ends_by_its_deadline(backend: str) -> None:
    """A stage still at work is stopped then; one that would begin too late is not run; a request is never longer."""

    async def main() -> None:
        began = now()
        with request(within=10.0):
            with pytest.raises(DeadlineOverrun, match="still at work after its 2 s"):
                await stage(fresh(), share=0.2)(work, 60.0)
            assert now() == pytest.approx(began + 2.0)
            with pytest.raises(DeadlineOverrun):
                await stage(fresh())(work, 60.0)
            assert now() == pytest.approx(began + 10.0)
            with pytest.raises(DeadlineExpired, match="no time was left"):
                await stage(fresh())(work, 0.0)

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_optional_ones_are_left_out(backend: str) -> None:
    """Stopped, or not begun once it is known how long they take; told in the accounts. Every 16th tries again."""

    async def main() -> None:
        name = fresh("rerank")
        runs = 0

        @stage(name, share=0.2, optional=True, default="as they came")
        async def rerank() -> str:
            nonlocal runs
            runs += 1
            await anyio.sleep(3.0)
            return "ranked"

        for number in range(5):
            with request(within=10.0) as r:
                assert await rerank() == "as they came"
                (account,) = r.accounts
                assert (account.service, account.skipped, account.seconds) == (name, True, pytest.approx(2.0))
                assert runs == number + 1
        for _ in range(15):
            with request(within=10.0) as r:
                began = now()
                assert await rerank() == "as they came"
                assert now() == began
                assert r.accounts[0].seconds is None
        assert runs == 5 + (15 // 16)
        with request(within=100.0) as r:
            assert await rerank() == "ranked"
            assert r.accounts == []
        assert await rerank() == "ranked"  # without a deadline there is time

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_guarded_calls_inherit_the_stage_s_deadline(backend: str) -> None:
    """A call that would wait past the stage's end is refused; in an optional stage that gives the default. Accounts
    of calls inside stand in the request around."""

    async def main() -> None:
        admission = Admission(Concurrency(1), classes=[ServiceClass("default")])
        call = guard(admission)(work)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, 100.0)
            await anyio.sleep(0.01)
            with request(within=10.0) as r:
                began = now()
                with pytest.raises((DeadlineExpired, DeadlineOverrun)):
                    await stage(fresh(), share=0.1)(call, 0.1)
                assert now() == pytest.approx(began + 1.0)
                assert await stage(fresh(), share=0.1, optional=True, default=3)(call, 0.1) == 3
                assert [account.skipped for account in r.accounts] == [True]
            tasks.cancel_scope.cancel()
        with request(within=10.0) as r:
            await stage(fresh(), share=0.5)(call, 1.0)
            assert [account.seconds for account in r.accounts] == [pytest.approx(1.0)]

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_side_by_side_and_inside_each_other(backend: str) -> None:
    """Two stages at once each have their share; one inside another has its share of that one's."""

    async def main() -> None:
        seen: list[float] = []

        async def look() -> None:
            with request() as here:
                seen.append(here.left())

        with request(within=8.0):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage(fresh(), share=0.5).run, look)
                tasks.start_soon(stage(fresh(), share=0.25).run, look)
            await stage(fresh(), share=0.5).run(stage(fresh(), share=0.5)(look))
        assert sorted(seen) == pytest.approx([2.0, 2.0, 4.0])

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_and_cancellation_pass_through(backend: str) -> None:
    """An error of the work is the caller's, optional or not; a cancelled stage is cancelled."""

    async def main() -> None:
        async def fails() -> None:
            raise KeyError("no such passage")

        with request(within=5.0) as r:
            with pytest.raises(KeyError):
                await stage(fresh(), optional=True).run(fails)
            with anyio.move_on_after(1.0) as scope:
                await stage(fresh(), optional=True)(work, 60.0)
            assert scope.cancelled_caught
            assert r.accounts == []

    in_virtual_time(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stream_takes_the_deadline_along(backend: str) -> None:
    """A guarded stream that a stage opens ends by the stage's deadline, however late it is read."""

    async def main() -> None:
        admission = Admission(Concurrency(1))

        @stage(fresh("generate"), share=0.5)
        @guard(admission)
        async def generate() -> AsyncIterator[int]:
            for number in range(100):
                await anyio.sleep(1.0)
                yield number

        with request(within=10.0):
            stream = generate()
        items = []
        with pytest.raises(DeadlineOverrun):
            async for item in stream:
                items.append(item)
        assert items == [0, 1, 2, 3]
        assert admission.snapshot().inside == 0

    in_virtual_time(main, backend)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        *[({"share": bad}, "share") for bad in (0, -0.1, 1.01, nan, inf, "half", True)],
        ({"optional": 1}, "optional"),
        ({"default": []}, "default"),
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], path: str) -> None:
    """An error names the parameter."""
    with pytest.raises(ConfigurationError) as caught:
        stage(**({"name": "x"} | wrong))
    assert caught.value.path == path


def test_what_can_be_no_stage() -> None:
    """Something that cannot be called, and an optional stream."""

    async def stream() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="async callable"):
        stage("x")(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be optional"):
        stage("x", optional=True)(stream)


def test_repr() -> None:
    """Its share, whether it may be left out, and how long it takes."""
    name = fresh()
    assert (
        repr(stage(name, share=0.2, optional=True))
        == f"<stage {name!r}: 20% of the time left, optional, not known yet>"
    )

    async def main() -> None:
        for _ in range(5):
            await stage(name)(work, 0.5)

    in_virtual_time(main, "asyncio")
    assert repr(stage(name)) == f"<stage {name!r}: 100% of the time left, takes 0.5 s>"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.floats(0.1, 10),
    st.sampled_from(BACKENDS),
)
def test_nothing_runs_past_the_deadline(
    stages: list[tuple[float, float, bool, bool]], within: float, backend: str
) -> None:
    """Whatever stages do in whatever order, nested or not: nothing runs after the deadline at the edge (law 6)."""

    async def main() -> None:
        ended: list[float] = []

        async def leaf(seconds: float) -> None:
            try:
                await anyio.sleep(seconds)
            finally:
                ended.append(now())

        began = now()
        with request(within=within):
            for share, seconds, optional, nested in stages:
                inner = stage(fresh(), share=share, optional=optional)
                try:
                    if nested:
                        await stage(fresh(), share=share).run(inner, leaf, seconds)
                    else:
                        await inner(leaf, seconds)
                except (DeadlineOverrun, DeadlineExpired):
                    pass
        assert all(time <= began + within + 1e-6 for time in ended)

    in_virtual_time(main, backend)
