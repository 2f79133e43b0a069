"""The decorator: a callable that does async work goes through an admission, its signature and kind unchanged."""

from __future__ import annotations

import asyncio
import functools
import inspect
import typing
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from andante.admission import Admission
from andante.deadline import REQUEST, request
from andante.errors import ConfigurationError
from andante.permit import HELD
from andante.pull import StreamTerms, bounded
from andante.stream import GuardedManager, GuardedStream, guarded_items, looks_like_stream
from andante.ticket import State
from andante.values import Call, Cost, Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

F = TypeVar("F", bound="Callable[..., Any]")

_ADMITTED = State.ADMITTED
_MARK = "__andante_admissions__"
_ASYNC_MARK = getattr(asyncio.coroutines, "_is_coroutine", _MARK)  # how mocks of coroutine functions say what they are
_ASYNC_NAMES = frozenset(
    {
        "AbstractAsyncContextManager",
        "AsyncContextManager",
        "AsyncGenerator",
        "AsyncIterable",
        "AsyncIterator",
        "Awaitable",
        "Coroutine",
        "Future",
        "Task",
    }
)
_PLAIN = frozenset({type(None), bool, int, float, str, bytes, dict, list, tuple, set})


def guard(
    admission: Admission,
    *,
    service: str | Callable[..., str] | None = None,
    cost: Cost | Callable[..., Cost] | None = None,
    tenant: Hashable | Callable[..., Hashable] = None,
    deadline: Seconds | Callable[..., Seconds] | None = None,
    settle: Callable[[Any], Cost | None] | None = None,
    items: Callable[[Any], float] | None = None,
) -> Callable[[F], F]:
    """Let every call of the decorated callable through `admission` first.

    Takes coroutine functions, async generator functions, methods, partials, callable objects, and plain functions that
    lead to async work (SDK methods: found through `__wrapped__` or the return annotation). The permit is held until the
    result is there; for streams until they end, fail or are closed. A stream object comes back in a proxy that passes
    every other attribute on.

    Args:
        admission: whose gates and line to pass.
        service: service class; default: that of `request()`, else "default".
        cost: what a call reserves, or `f(*args, **kwargs) -> Cost`; it runs before anything is taken.
        tenant: whom the call is for, or a function of the arguments; default: that of `request()`.
        deadline: seconds (or timedelta) from the call in which it must have *ended*, or a function of the arguments.
            A body past its deadline is cancelled and raises DeadlineOverrun; a stream ends with it.
        settle: `f(result, or a stream's last item) -> Cost` the true cost, or None to keep the reservation.
        items: `f(item) -> output tokens in it` (default 1 each); 0 for an item without content, which then does not
            count as the first result.

    Raises TypeError at decoration for a callable that is async nowhere, or that this admission guards already.
    At the call: any `Rejected` of the admission, ConfigurationError when `cost` returns no Cost.
    """
    if not isinstance(admission, Admission):
        raise TypeError(f"guard() needs an Admission, not {admission!r}; use it as @guard(admission)")
    for name, function in (("settle", settle), ("items", items)):
        if function is not None and not callable(function):
            raise ConfigurationError(f"guard({name}=...) takes a function, not {function!r}", path=name)
    terms = StreamTerms(settle, items)
    make = _call_maker(admission, service, cost, tenant, deadline)

    def decorate(fn: F) -> F:
        if isinstance(fn, (staticmethod, classmethod)):
            return type(fn)(decorate(fn.__func__))
        kind = _kind(fn)
        if kind is None:
            raise TypeError(
                f"guard() needs a callable that does async work, and {fn!r} is async nowhere; wrap it in an async def"
            )
        guards = getattr(_inside_partials(fn), _MARK, ())
        if any(admission is other for other in guards):
            raise TypeError(
                f"{fn!r} is guarded by {admission.name!r} already; a second permit for one call would only block"
            )
        wrapped = _WRAPPERS[kind](admission, fn, make, terms)
        functools.update_wrapper(wrapped, fn)
        setattr(wrapped, _MARK, (admission, *guards))
        return wrapped  # type: ignore[return-value]

    return decorate


def _coroutine_function(
    admission: Admission, fn: Callable[..., Any], make: _Maker, terms: StreamTerms
) -> Callable[..., Any]:
    begin, wait, leave = admission.begin, admission.wait, admission.leave
    request_around, held, hold, let_go = REQUEST.get, HELD.get, HELD.set, HELD.reset
    settles, constant = terms.settle is not None, getattr(make, "constant", None)

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        around = request_around()
        call = constant if around is None and constant is not None else make(around, args, kwargs)
        permit = begin(call)
        if permit.state is not _ADMITTED:
            await wait(permit)
        permit.outer = held()
        token = hold(permit)
        try:
            if call.deadline == inf:
                result = await fn(*args, **kwargs)
            else:
                result = await bounded(permit, fn(*args, **kwargs))
            if type(result) not in _PLAIN and looks_like_stream(result):
                return GuardedStream(result, permit, terms, around)
            if settles:
                terms.settle_with(permit, result)
            leave(permit)
        except BaseException as error:
            try:
                permit.fail(error)
            finally:
                permit.close()
            raise
        finally:
            try:
                let_go(token)
            except ValueError:
                pass  # its event loop died, and the garbage collector ends it in another context
            if around is not None and permit.ended is not None:
                around.accounts.append(permit.account)
        return result

    return guarded


def _generator_function(
    admission: Admission, fn: Callable[..., Any], make: _Maker, terms: StreamTerms
) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        around = REQUEST.get()
        arrived = admission.now()
        return guarded_items(admission, fn(*args, **kwargs), lambda: make(around, args, kwargs, arrived), terms, around)

    return guarded


def _plain_function(
    admission: Admission, fn: Callable[..., Any], make: _Maker, terms: StreamTerms
) -> Callable[..., Any]:
    """What comes back decides: a coroutine, an async iterator or an async context manager; none has started yet."""

    def of_pending(
        around: request | None, args: tuple[Any, ...], _: dict[str, Any], _arrived: float | None = None, /
    ) -> Call:
        return make(around, args[1], args[2], args[3])

    run = _coroutine_function(admission, lambda pending, *_: pending, of_pending, terms)

    async def awaited(pending: Any, args: tuple[Any, ...], kwargs: dict[str, Any], arrived: float) -> Any:
        try:
            return await run(pending, args, kwargs, arrived)
        finally:
            if inspect.iscoroutine(pending):
                pending.close()  # it never ran, where the call was refused; else this does nothing

    def guarded(*args: Any, **kwargs: Any) -> Any:
        arrived = admission.now()
        pending = fn(*args, **kwargs)
        kind = type(pending)
        if inspect.iscoroutine(pending) or (hasattr(kind, "__await__") and not hasattr(kind, "__aenter__")):
            return awaited(pending, args, kwargs, arrived)
        around = REQUEST.get()

        def call() -> Call:
            return make(around, args, kwargs, arrived)

        if hasattr(kind, "__aenter__"):
            return GuardedManager(admission, pending, call, terms, around)
        if hasattr(kind, "__aiter__"):
            return guarded_items(admission, pending, call, terms, around)
        raise TypeError(f"{fn!r} returned {kind.__name__}, which is neither awaitable nor a stream")

    return guarded


_WRAPPERS = {"coroutine": _coroutine_function, "generator": _generator_function, "plain": _plain_function}


class _Maker(typing.Protocol):
    def __call__(
        self, around: request | None, args: tuple[Any, ...], kwargs: dict[str, Any], arrived: float | None = None, /
    ) -> Call: ...


def _call_maker(
    admission: Admission,
    service: str | Callable[..., str] | None,
    cost: Cost | Callable[..., Cost] | None,
    tenant: Hashable | Callable[..., Hashable],
    deadline: Seconds | Callable[..., Seconds] | None,
) -> _Maker:
    """The function that makes the `Call` of one call from its arguments and from the request around it."""
    if cost is not None and not isinstance(cost, Cost) and not callable(cost):
        raise ConfigurationError(
            f"guard(cost=...) takes a Cost or a function that returns one, not {cost!r}", path="cost"
        )
    if service is not None and not callable(service):
        admission.controller.plan.resolve(service)  # a misspelt class is found at decoration
    within = inf if callable(deadline) else seconds(deadline, "guard(deadline=...)")
    fixed_cost = cost if isinstance(cost, Cost) else Cost()
    varies = callable(service) or callable(cost) or callable(tenant) or callable(deadline) or within < inf
    constant = None if varies else Call(fixed_cost, service or "default", tenant)  # type: ignore[arg-type]

    def make(
        around: request | None, args: tuple[Any, ...], kwargs: dict[str, Any], arrived: float | None = None, /
    ) -> Call:
        name = service(*args, **kwargs) if callable(service) else service
        who = tenant(*args, **kwargs) if callable(tenant) else tenant
        price = cost(*args, **kwargs) if callable(cost) else fixed_cost
        if not isinstance(price, Cost):
            raise ConfigurationError(f"guard(cost=...) must return a Cost; {cost!r} returned {price!r}", path="cost")
        left = seconds(deadline(*args, **kwargs), "guard(deadline=...)") if callable(deadline) else within
        ends = inf if left == inf else (admission.now() if arrived is None else arrived) + left
        if around is not None:
            if name is None and around.service in admission.controller.plan.by_name:
                name = around.service
            who = around.tenant if who is None else who
            if around.deadline < inf:  # told on the event loop's clock; the call's is on the admission's
                own = admission.home.given_clock is not None
                ends = min(ends, admission.now() + around.left() if own else around.deadline)
        return Call(price, name or "default", who, ends)

    make.constant = constant  # type: ignore[attr-defined]  # what to use where there is no request around
    return make


def _kind(fn: Any) -> str | None:
    """Which wrapper `fn` needs; None if it is async nowhere."""
    if not callable(fn):
        return None
    target = _inside_partials(fn)
    direct = (target, getattr(type(target), "__call__", None))  # noqa: B004  # the method itself is wanted
    for candidate in direct:
        if inspect.iscoroutinefunction(candidate) or getattr(candidate, "_is_coroutine", None) is _ASYNC_MARK:
            return "coroutine"
        if inspect.isasyncgenfunction(candidate):
            return "generator"
    if hasattr(target, _MARK):
        return "plain"
    for candidate in direct:
        inner = inspect.unwrap(candidate) if callable(candidate) else None
        if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner) or _returns_async(candidate):
            return "plain"
    return None


def _inside_partials(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _returns_async(fn: Any) -> bool:
    """Whether the return annotation promises something awaitable, iterable or enterable asynchronously."""
    try:
        returns = typing.get_type_hints(fn).get("return")
    except Exception:  # annotations may name what is imported for type checkers only; then the name has to do
        written = getattr(fn, "__annotations__", {}).get("return")
        return isinstance(written, str) and written.partition("[")[0].rpartition(".")[2].strip() in _ASYNC_NAMES
    returns = typing.get_origin(returns) or returns
    return any(hasattr(returns, method) for method in ("__await__", "__aiter__", "__aenter__"))
