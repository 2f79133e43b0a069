"""Streams hold their permit to their end: async generators, and the stream objects and managers of SDKs.

No cancel scope or task group is ever open across a `yield`; the permit is released synchronously and first, then the
source is closed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from andante.errors import DeadlineOverrun
from andante.permit import HELD, Permit
from andante.ticket import State
from andante.values import Cost, Ending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator
    from types import TracebackType

    from andante.admission import Admission
    from andante.deadline import request
    from andante.values import Call

_log = logging.getLogger("andante")
_ADMITTED = State.ADMITTED


class StreamTerms:
    """How a guard counts and settles: `settle` and `items` of `guard()`. What they raise is reported once and never
    changes the outcome of a call."""

    def __init__(self, settle: Callable[[Any], Cost | None] | None, items: Callable[[Any], float] | None) -> None:
        self.settle = settle
        self.items = items
        self._reported = False

    def count(self, item: Any) -> float:
        """Output tokens in `item`."""
        if self.items is None:
            return 1.0
        try:
            number = self.items(item)
            if not 0 <= number < inf:
                raise ValueError(f"items() must return a finite number >= 0, not {number!r}")
        except Exception:
            self._report("items")
            return 1.0
        return number

    def settle_with(self, permit: Permit, last: Any) -> None:
        """Settle `permit` by what `settle` makes of `last`."""
        if self.settle is None or permit.state is not _ADMITTED:
            return
        try:
            cost = self.settle(last)
            if cost is not None:
                permit.settle(cost)
        except Exception:
            self._report("settle")

    def _report(self, which: str) -> None:
        if not self._reported:
            self._reported = True
            _log.exception("the guard's %s function failed; further failures are not reported", which)


class _Pull:
    """The permit's side of a stream: taking items from a source and ending the permit, once."""

    __slots__ = ("around", "last", "permit", "terms")

    def __init__(self, permit: Permit, terms: StreamTerms, around: request | None) -> None:
        self.permit = permit
        self.terms = terms
        self.around = around
        self.last: Any = None

    async def item(self, source: Callable[[], Awaitable[Any]]) -> Any:
        """The next item, or whatever the source raises; then the permit has ended."""
        permit = self.permit
        if permit.state is not _ADMITTED:
            if permit.deadline <= permit.admission.now():
                raise self._overrun()
            raise StopAsyncIteration
        permit.asked()
        permit.outer = HELD.get()
        token = HELD.set(permit)
        try:
            if permit.deadline == inf:
                item = await source()
            else:
                item = await self._in_time(source)
        except StopAsyncIteration:
            self.end(complete=True)
            raise
        except BaseException as error:
            self.end(error)
            raise
        finally:
            HELD.reset(token)
        permit.progress(self.terms.count(item))
        self.last = item
        return item

    async def _in_time(self, source: Callable[[], Awaitable[Any]]) -> Any:
        permit = self.permit
        left = permit.deadline - permit.admission.now()
        if left <= 0:
            raise self._overrun()
        with anyio.move_on_after(left) as scope:
            return await source()
        if scope.cancelled_caught:
            raise self._overrun()
        raise AssertionError("unreachable: the scope ends by return or by its own cancellation")

    def _overrun(self) -> DeadlineOverrun:
        return DeadlineOverrun(f"{self.permit.service}: the stream ran past its deadline")

    def end(self, error: BaseException | None = None, *, complete: bool = False) -> None:
        """Settle and close the permit. Once; later calls do nothing."""
        permit = self.permit
        if permit.state is not _ADMITTED:
            return
        if error is not None:
            permit.fail(error)
        elif not complete:
            permit.abandon()
        try:
            if self.last is not None:
                self.terms.settle_with(permit, self.last)
            if (
                not complete
                and permit.settled is None
                and permit.cost.tokens
                and (permit.first is not None or permit.failure is None or permit.failure[0] is not Ending.OVERLOADED)
            ):
                permit.settle(replace(permit.cost, output_tokens=permit.items))
        finally:
            permit.close()
            if self.around is not None:
                self.around.accounts.append(permit.account)


async def guarded_items(
    admission: Admission, source: Any, call: Callable[[], Call], terms: StreamTerms, around: request | None
) -> AsyncIterator[Any]:
    """The items of `source` (an async iterable that has not started), inside a permit taken at the first pull."""
    permit = admission.begin(call())
    if permit.state is not _ADMITTED:
        await admission.wait(permit)
    pull = _Pull(permit, terms, around)
    take = aiter(source).__anext__
    error: BaseException | None = None
    try:
        while True:
            try:
                item = await pull.item(take)
            except StopAsyncIteration:
                return
            yield item
    except BaseException as caught:
        error = caught
        raise
    finally:
        pull.end(error if isinstance(error, Exception) else None)
        await _close(source)


def looks_like_stream(result: Any) -> bool:
    """Whether `result` is an async iterator or an async context manager: something that is still going on."""
    kind = type(result)
    return hasattr(kind, "__aiter__") or hasattr(kind, "__aenter__")


class GuardedStream:
    """A stream object of somebody else, and the permit that it holds until its end, error, `close`, `aclose` or exit.

    Every other attribute is the stream's own; `isinstance` sees the stream's class.
    """

    __slots__ = ("__weakref__", "_inner", "_pull", "_take")

    def __init__(self, inner: Any, permit: Permit, terms: StreamTerms, around: request | None) -> None:
        self._inner = inner
        self._pull = _Pull(permit, terms, around)
        self._take: Callable[[], Awaitable[Any]] | None = None
        permit.admission.lend(permit)

    def __aiter__(self) -> GuardedStream:
        return self

    async def __anext__(self) -> Any:
        if self._take is None:
            self._take = aiter(self._inner).__anext__
        try:
            return await self._pull.item(self._take)
        except StopAsyncIteration:
            raise
        except BaseException:
            await _close(self._inner)
            raise

    async def __aenter__(self) -> Any:
        try:
            entered = await type(self._inner).__aenter__(self._inner)
        except BaseException as error:
            self._pull.end(error)
            raise
        if entered is self._inner:
            return self
        if hasattr(type(entered), "__aiter__"):
            return GuardedStream(entered, self._pull.permit, self._pull.terms, self._pull.around)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self._pull.end(error)
        return await type(self._inner).__aexit__(self._inner, kind, error, trace)

    def close(self) -> Any:
        """Release the permit, then close the stream as it wants to be closed (await the result if it is awaitable)."""
        self._pull.end()
        return self._inner.close()

    async def aclose(self) -> None:
        """Release the permit, then close the stream."""
        self._pull.end()
        await _close(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property  # type: ignore[misc]  # isinstance() asks for it
    def __class__(self) -> type:
        return type(self._inner)

    def __repr__(self) -> str:
        return f"<guarded {self._inner!r}>"

    def __del__(self) -> None:
        try:
            permit = self._pull.permit
        except AttributeError:
            return
        if permit.state is _ADMITTED:
            permit.admission.found_lost(permit)


class GuardedManager:
    """An async context manager of somebody else that has not been entered; the admission is entered with it."""

    __slots__ = ("_admission", "_around", "_call", "_inner", "_pull", "_terms")

    def __init__(
        self, admission: Admission, inner: Any, call: Callable[[], Call], terms: StreamTerms, around: request | None
    ) -> None:
        self._admission = admission
        self._inner = inner
        self._call = call
        self._terms = terms
        self._around = around
        self._pull: _Pull | None = None

    async def __aenter__(self) -> Any:
        entered = await self._enter(type(self._inner).__aenter__(self._inner))
        assert self._pull is not None
        if hasattr(type(entered), "__aiter__"):
            return GuardedStream(entered, self._pull.permit, self._terms, self._around)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        if self._pull is not None:
            self._pull.end(error, complete=error is None)
        return await type(self._inner).__aexit__(self._inner, kind, error, trace)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        result = await self._enter(self._inner)
        assert self._pull is not None
        if looks_like_stream(result):
            return GuardedStream(result, self._pull.permit, self._terms, self._around)
        self._pull.last = result
        self._pull.end(complete=True)
        return result

    async def _enter(self, work: Awaitable[Any]) -> Any:
        try:
            permit = self._admission.begin(self._call())
            if permit.state is not _ADMITTED:
                await self._admission.wait(permit)
        except BaseException:
            close = getattr(work, "close", None)
            if close is not None:
                close()  # a coroutine that never ran
            raise
        self._pull = _Pull(permit, self._terms, self._around)
        permit.outer = HELD.get()
        token = HELD.set(permit)
        try:
            return await work
        except BaseException as error:
            self._pull.end(error)
            raise
        finally:
            HELD.reset(token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return f"<guarded {self._inner!r}>"


async def _close(source: Any) -> None:
    """Close `source` by whatever it offers."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        closing = close()
        if hasattr(type(closing), "__await__"):
            await closing
