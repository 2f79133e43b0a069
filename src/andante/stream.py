"""Streams hold their permit to their end: async generators, and the stream objects and managers of SDKs.

No cancel scope or task group is ever open across a `yield`; the permit is released synchronously and first, then the
source is closed.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

from andante.permit import HELD
from andante.pull import Pull, StreamTerms, bounded, hold, let_go
from andante.ticket import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator
    from types import TracebackType

    from andante.admission import Admission
    from andante.deadline import request
    from andante.permit import Permit
    from andante.values import Call

_log = logging.getLogger("andante")
_ADMITTED = State.ADMITTED


async def guarded_items(
    admission: Admission, source: Any, call: Callable[[], Call], terms: StreamTerms, around: request | None
) -> AsyncIterator[Any]:
    """The items of `source` (an async iterable that has not started), inside a permit taken at the first pull."""
    permit = admission.begin(call())
    if permit.state is not _ADMITTED:
        await admission.wait(permit)
    pull = Pull(permit, terms, around)
    try:
        take = aiter(source).__anext__
        if permit.call.deadline == inf:
            now, held, hold, let_go = admission.now, HELD.get, HELD.set, HELD.reset
            plain, settles = terms.plain(permit), terms.settle is not None
            while permit.state is _ADMITTED:  # what `pull.item` does, in place: this is the hot path
                outer = held()
                permit.outer = outer if outer is not permit else None
                token = hold(permit)
                try:
                    item = await take()
                except StopAsyncIteration:
                    pull.end(complete=True)
                    break
                finally:
                    try:
                        let_go(token)
                    except ValueError:
                        pass  # an event loop died, and the garbage collector ends the work in another context
                if plain and permit.first is not None:
                    permit.items += 1.0
                    permit.last = given = now()
                else:
                    permit.progress(terms.count(item))
                    given = now()
                if settles:
                    pull.last = item
                yield item
                asked = now()
                permit.idle += asked - given
                if permit.last is not None:
                    permit.last += asked - given
        else:
            while True:
                try:
                    item = await pull.item(take)
                except StopAsyncIteration:
                    break
                yield item
    except BaseException as error:
        try:
            pull.end(error if isinstance(error, Exception) else None)
        finally:
            await _close(source, quietly=not isinstance(error, GeneratorExit))
        raise
    await _close(source)


def looks_like_stream(result: Any) -> bool:
    """Whether `result` is an async iterator or an async context manager: something that is still going on."""
    kind = type(result)
    return hasattr(kind, "__aiter__") or hasattr(kind, "__aenter__")


class GuardedStream:
    """A stream object of somebody else, and the permit that it holds until its end, error, `close`, `aclose` or exit.

    Every other attribute is the stream's own; `isinstance` sees the stream's class.
    """

    __slots__ = ("__weakref__", "_inner", "_keeper", "_pull", "_take")

    def __init__(
        self, inner: Any, permit: Permit, terms: StreamTerms, around: request | None, keeper: object = None
    ) -> None:
        self._keeper = keeper  # who ends the permit, where that is not this object alone: it must live as long
        self._inner = inner
        self._pull = Pull(permit, terms, around, permit.admission.now())
        self._take: Callable[[], Awaitable[Any]] | None = None
        if keeper is None:
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
            await _close(self._inner, quietly=True)
            raise

    async def __aenter__(self) -> Any:
        pull = self._pull
        try:
            entered = await type(self._inner).__aenter__(self._inner)
        except BaseException as error:
            pull.end(error)
            raise
        if entered is self._inner:
            return self
        if hasattr(type(entered), "__aiter__"):
            return GuardedStream(entered, pull.permit, pull.terms, pull.around, keeper=self)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        # What is no stream has no early end.
        self._pull.end(error, complete=error is None and not hasattr(type(self._inner), "__aiter__"))
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
            permit = self._pull.permit if self._keeper is None else None
        except AttributeError:
            return
        if permit is not None and permit.state is _ADMITTED:
            permit.admission.found_lost(permit)


class GuardedManager:
    """An async context manager of somebody else that has not been entered; the admission is entered with it. Once."""

    __slots__ = ("__weakref__", "_admission", "_around", "_call", "_inner", "_pull", "_stream", "_terms")

    def __init__(
        self, admission: Admission, inner: Any, call: Callable[[], Call], terms: StreamTerms, around: request | None
    ) -> None:
        self._admission = admission
        self._inner = inner
        self._call = call
        self._terms = terms
        self._around = around
        self._pull: Pull | None = None
        self._stream: Pull | None = None  # that of the stream which came out, if one did

    async def __aenter__(self) -> Any:
        entered = await self._enter(type(self._inner).__aenter__)
        if hasattr(type(entered), "__aiter__"):
            return self._lend(entered)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        if self._pull is not None:
            pull = self._stream or self._pull
            pull.end(error, complete=error is None and not pull.pulled)
        return await type(self._inner).__aexit__(self._inner, kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Any]:
        """For a stream object that came without being awaited."""
        if not hasattr(type(self._inner), "__aiter__"):
            raise TypeError(
                f"{self._inner!r} is no stream; enter it with `async with`, and iterate over what that gives"
            )
        if self._pull is not None:
            return self._lend(self._inner)
        return guarded_items(self._admission, self._inner, self._call, self._terms, self._around)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        result = await self._enter(lambda inner: inner)
        if looks_like_stream(result):
            return self._lend(result)
        assert self._pull is not None
        self._pull.last = result
        self._pull.end(complete=True)
        return result

    def _lend(self, stream: Any) -> GuardedStream:
        assert self._pull is not None
        guarded = GuardedStream(stream, self._pull.permit, self._terms, self._around, keeper=self)
        self._stream = guarded._pull
        return guarded

    async def _enter(self, start: Callable[[Any], Awaitable[Any]]) -> Any:
        if self._pull is not None:
            raise RuntimeError("this call was made already; call the guarded function again")
        permit = self._admission.begin(self._call())
        if permit.state is not _ADMITTED:
            await self._admission.wait(permit)
        self._pull = Pull(permit, self._terms, self._around)
        permit.admission.lend(permit)
        token = hold(permit)
        try:
            work = start(self._inner)
            return await (work if permit.deadline == inf else bounded(permit, work, "the call"))
        except BaseException as error:
            self._pull.end(error)
            raise
        finally:
            let_go(token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return f"<guarded {self._inner!r}>"

    def __del__(self) -> None:
        try:
            permit = None if self._pull is None else self._pull.permit
        except AttributeError:
            return
        if permit is not None and permit.state is _ADMITTED:
            permit.admission.found_lost(permit)


async def _close(source: Any, *, quietly: bool = False) -> None:
    """Close `source` by whatever it offers. `quietly`: after a failure, which is what the consumer must hear of."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is None:
        return
    try:
        closing = close()
        if hasattr(type(closing), "__await__"):
            await closing
    except Exception:
        if not quietly:
            raise
        _log.warning("closing %r after a failure failed too", source, exc_info=True)
