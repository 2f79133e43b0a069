"""FC-53: every kind of callable is handled, or refused at decoration."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Coroutine  # noqa: TC003  # their names are looked up
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec

import anyio
import pytest

from andante import Admission, Concurrency, guard
from andante.testing import balanced

pytestmark = pytest.mark.anyio


@pytest.fixture
def admission() -> Admission:
    return Admission(Concurrency(1))


def inside(admission: Admission) -> int:
    return admission.snapshot().inside


async def doubled(admission: Admission, number: int = 1, *, plus: int = 0) -> int:
    """Twice the number."""
    assert inside(admission) == 1
    await anyio.sleep(0.1)
    return 2 * number + plus


async def test_coroutine_function(admission: Admission) -> None:
    guarded = guard(admission)(doubled)
    assert inspect.iscoroutinefunction(guarded)
    assert await guarded(admission, 4, plus=1) == 9
    balanced(admission)


class Client:
    """All kinds of methods."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission

    async def ask(self, number: int) -> int:
        return await doubled(self.admission, number)

    async def __call__(self, number: int) -> int:
        return await doubled(self.admission, number)


async def test_bound_method(admission: Admission) -> None:
    assert await guard(admission)(Client(admission).ask)(3) == 6
    balanced(admission)


async def test_methods_of_all_kinds(admission: Admission) -> None:
    """In a class body, with guard outside and inside of `classmethod` and `staticmethod`."""

    class Methods:
        @guard(admission)
        async def plain(self, number: int) -> int:
            assert isinstance(self, Methods)
            return await doubled(admission, number)

        @guard(admission)
        @classmethod
        async def outside(cls, number: int) -> int:
            assert cls is Methods
            return await doubled(admission, number)

        @classmethod
        @guard(admission)
        async def within(cls, number: int) -> int:
            assert cls is Methods
            return await doubled(admission, number)

        @guard(admission)
        @staticmethod
        async def static(number: int) -> int:
            return await doubled(admission, number)

        @staticmethod
        @guard(admission)
        async def static_within(number: int) -> int:
            return await doubled(admission, number)

    for owner in (Methods(), Methods):
        assert [await getattr(owner, name)(2) for name in ("outside", "within", "static", "static_within")] == [4] * 4
    assert await Methods().plain(5) == 10
    assert admission.snapshot().done == 9
    balanced(admission)


async def test_partial(admission: Admission) -> None:
    guarded = guard(admission)(functools.partial(functools.partial(doubled, admission), plus=3))
    assert await guarded(4) == 11
    balanced(admission)


async def test_callable_object(admission: Admission) -> None:
    assert await guard(admission)(Client(admission))(2) == 4
    assert await guard(admission)(functools.partial(Client(admission), 2))() == 4
    assert admission.snapshot().done == 2
    balanced(admission)


async def count(admission: Admission, to: int = 3) -> AsyncIterator[int]:
    """The numbers below."""
    for number in range(to):
        assert inside(admission) == 1
        yield number


async def test_async_generator_function(admission: Admission) -> None:
    """The place is held from the first pull to the end."""
    stream = guard(admission)(count)(admission)
    assert inside(admission) == 0
    assert await anext(stream) == 0
    assert inside(admission) == 1
    assert [number async for number in stream] == [1, 2]
    assert inside(admission) == 0
    balanced(admission)


async def test_callable_object_with_generator(admission: Admission) -> None:
    class Counter:
        async def __call__(self, to: int) -> AsyncIterator[int]:
            async for number in count(admission, to):
                yield number

    assert [n async for n in guard(admission)(Counter())(2)] == [0, 1]
    balanced(admission)


async def test_async_context_manager_function(admission: Admission) -> None:
    """The place is held from entering to leaving."""

    @guard(admission)
    @asynccontextmanager
    async def connection() -> AsyncIterator[str]:
        assert inside(admission) == 1
        yield "open"

    manager = connection()
    assert inside(admission) == 0
    async with manager as state:
        assert state == "open"
        assert inside(admission) == 1
    assert admission.snapshot().done == 1
    balanced(admission)


async def test_mocks(admission: Admission) -> None:
    """An AsyncMock is async; a MagicMock is async nowhere; a specification decides."""
    mock = AsyncMock(return_value=5)
    assert await guard(admission)(mock)(1, two=2) == 5
    mock.assert_awaited_once_with(1, two=2)
    balanced(admission)
    specified = create_autospec(doubled, return_value=7)
    assert await guard(admission)(specified)(admission, 1) == 7
    for useless in (MagicMock(), Mock(), MagicMock(return_value=3)):
        with pytest.raises(TypeError, match="async nowhere"):
            guard(admission)(useless)
    assert await guard(admission)(AsyncMock(side_effect=doubled))(admission, 2) == 4
    balanced(admission)


def annotated_awaitable(admission: Admission) -> Awaitable[int]:
    return doubled(admission)


def annotated_coroutine(admission: Admission) -> Coroutine[Any, Any, int]:
    return doubled(admission)


@functools.wraps(doubled)
def wrapping(*args: Any, **kwargs: Any) -> Any:
    return doubled(*args, **kwargs)


def for_type_checkers(admission: Admission) -> nowhere.Awaitable[nothing.Known]:  # type: ignore[name-defined]  # noqa: F821
    return doubled(admission)


@pytest.mark.parametrize("fn", [annotated_awaitable, annotated_coroutine, wrapping, for_type_checkers])
async def test_plain_function_that_leads_to_async_work(fn: Any, admission: Admission) -> None:
    """As the openai client's `create`: found by its annotation, or by what it wraps."""
    assert await guard(admission)(fn)(admission) == 2
    balanced(admission)


def unannotated(admission: Admission):  # type: ignore[no-untyped-def]
    return doubled(admission)


def synchronous() -> int:
    return 1


def iterates() -> typing.Iterator[int]:
    yield 1


def strange() -> NoSuchName:  # type: ignore[name-defined]  # noqa: F821
    return None


@pytest.mark.parametrize(
    "fn",
    [
        unannotated,
        synchronous,
        iterates,
        strange,
        lambda: 1,
        len,
        int,
        Client,
        object(),
        None,
        "f",
        functools.partial(len),
    ],
    ids=repr,
)
def test_async_nowhere_is_refused_at_decoration(fn: Any, admission: Admission) -> None:
    """Not at the first call. An awaitable that is told of nowhere cannot be known either: an annotation helps."""
    with pytest.raises(TypeError, match="async nowhere"):
        guard(admission)(fn)


async def test_a_broken_promise(admission: Admission) -> None:
    """A function that promised something async and returns something else is a TypeError at the call; nothing leaks."""

    def liar() -> Awaitable[int]:
        return 5  # type: ignore[return-value]

    with pytest.raises(TypeError, match="int"):
        guard(admission)(liar)()
    balanced(admission)


def test_guarding_twice(admission: Admission) -> None:
    """By the same admission a TypeError, also through a method, a partial or another guard; by two it is fine."""
    other = Admission(Concurrency(1))
    once = guard(admission)(doubled)
    for again in (once, functools.partial(once), guard(other)(once)):
        with pytest.raises(TypeError, match="already"):
            guard(admission)(again)
    guard(other)(functools.partial(once))


async def test_two_admissions(admission: Admission) -> None:
    """Both are passed, the outer first; of coroutine functions and of generators."""
    other = Admission(Concurrency(1), name="other")
    assert await guard(other)(guard(admission)(doubled))(admission, 2) == 4
    assert [n async for n in guard(other)(guard(admission)(count))(admission)] == [0, 1, 2]
    assert other.snapshot().done == admission.snapshot().done == 2
    balanced(other)
    balanced(admission)


@pytest.mark.parametrize("fn", [doubled, count, wrapping, annotated_awaitable])
def test_metadata_survives(fn: Any, admission: Admission) -> None:
    """Name, documentation, signature and type hints are the function's own."""
    guarded = guard(admission)(fn)
    assert guarded.__name__ == fn.__name__
    assert guarded.__doc__ == fn.__doc__
    assert guarded.__module__ == fn.__module__
    assert guarded.__qualname__ == fn.__qualname__
    assert inspect.signature(guarded) == inspect.signature(fn)
    assert typing.get_type_hints(guarded) == typing.get_type_hints(fn)
    assert inspect.iscoroutinefunction(guarded) == inspect.iscoroutinefunction(fn)


def test_guard_without_an_admission() -> None:
    """`@guard` without its admission says how it is used."""
    with pytest.raises(TypeError, match="@guard"):
        guard(doubled)  # type: ignore[arg-type]


async def test_binding_errors(admission: Admission) -> None:
    """FC-14: arguments that do not fit are the function's own TypeError; the place is free again."""
    for fn in (doubled, annotated_awaitable, wrapping):
        with pytest.raises(TypeError):
            await guard(admission)(fn)(1, 2, 3, 4, 5, nonsense=6)
    with pytest.raises(TypeError):
        async for _ in guard(admission)(count)(nonsense=1):
            pass
    balanced(admission)
