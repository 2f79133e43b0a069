"""The parts of one request, each with its share of the time that is left."""

from __future__ import annotations

import functools
import inspect
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from andante.clock import current_clock
from andante.deadline import REQUEST, request
from andante.errors import ConfigurationError, DeadlineExpired, DeadlineOverrun, Rejected
from andante.values import Account, is_number
from andante.wrappers.durations import Durations

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NAMES = 1000
_learned: dict[str, Durations] = {}


class stage:  # noqa: N801  # reads as a verb, as `request` does
    """`@stage("rerank", share=0.2, optional=True, default=())` on a coroutine function, or, at the place of the call,
    `await stage("rerank", share=0.2)(rerank, query, passages)`.

    Inside `request(within=...)` a stage gets `share` of the time that is then left, and whatever it calls inherits that
    deadline. What it does not use is there for the stages after it. Stages may run side by side, and inside each
    other. Without a deadline around it a stage just runs.

    It ends by its deadline: a stage that is still at work then is cancelled and raises DeadlineOverrun, one that would
    begin after it raises DeadlineExpired and is not run.

    An **optional** stage never fails for want of time: it gives its `default` instead. How long a stage of this name
    takes is learned (the 0.9 quantile of its latest 64 runs, known after five; one that was stopped counts as twice
    what it had); an optional one that is not expected to
    end in its time is not begun at all, except for every 16th, which tells whether that is still so. A guarded call
    inside that is refused or runs out of time gives the default too. Every other error passes through.

    A stage that was left out or stopped stands in the request's `accounts`, with its name and `skipped=True`.

    On an async generator function a stage passes its deadline on to the guarded stream inside, and does nothing else: a
    stream is the last stage, and whoever reads it decides how long that takes. It cannot be optional.

    Args:
        name: what accounts and predictions call it. Stages of one name learn together; the first 1,000 names learn.
        share: of the time left, above 0 and up to 1. Default: all of it.
        optional: whether it may be left out.
        default: what an optional one gives when it was. Default None.

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
        TypeError: at decoration, for something that is async nowhere.
    """

    __slots__ = ("_durations", "default", "name", "optional", "share")

    def __init__(self, name: str, *, share: float | None = None, optional: bool = False, default: Any = None) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a stage's name must be a string, not {name!r}", path="name")
        if share is not None and (not is_number(share) or not 0 < share <= 1):
            raise ConfigurationError(f"share must be above 0 and at most 1, not {share!r}", path="share")
        if not isinstance(optional, bool):
            raise ConfigurationError(f"optional must be True or False, not {optional!r}", path="optional")
        if default is not None and not optional:
            raise ConfigurationError("a default is what an optional stage gives: say optional=True", path="default")
        self.name = name
        self.share = 1.0 if share is None else float(share)
        self.optional = optional
        self.default = default
        durations = _learned.get(name)
        if durations is None:
            durations = Durations()
            if len(_learned) < _MOST_NAMES:
                _learned[name] = durations
        self._durations = durations

    @property
    def predicted(self) -> float | None:
        """Seconds that a stage of this name is expected to take; None until five ran."""
        return self._durations.predicted

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """With arguments: the awaitable of one run. Without any: `fn` as a stage, for a decorator."""
        if args or kwargs:
            return self.run(fn, *args, **kwargs)
        if inspect.isasyncgenfunction(inspect.unwrap(fn) if callable(fn) else fn):
            return self._of_stream(fn)
        if not callable(fn):
            raise TypeError(f"a stage is made of an async callable, not of {fn!r}")

        @functools.wraps(fn)
        async def staged(*args: Any, **kwargs: Any) -> Any:
            return await self.run(fn, *args, **kwargs)

        return staged

    async def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `fn(*args, **kwargs)` once as this stage."""
        outer = REQUEST.get()
        left = inf if outer is None else outer.left()
        within = left if left == inf else left * self.share
        if within <= 0 or (self.optional and not self._durations.fits(within)):
            if not self.optional:
                raise DeadlineExpired(f"stage {self.name!r} was not begun: no time was left", service=self.name)
            return self._skip(outer, None)
        clock = current_clock()
        began = clock()
        try:
            with self._inside(outer, within):
                result = await self._bounded(fn, args, kwargs, within)
        except (DeadlineOverrun, Rejected):
            if not self.optional:
                raise
            return self._skip(outer, clock() - began)
        self._durations.took(clock() - began)
        return result

    async def _bounded(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], within: float
    ) -> Any:
        if within == inf:
            return await fn(*args, **kwargs)
        with anyio.move_on_after(within) as scope:
            return await fn(*args, **kwargs)
        assert scope.cancelled_caught
        self._durations.took(
            2.0 * within
        )  # longer than it had, nobody knows by how much; fast ones alone would mislead
        raise DeadlineOverrun(f"stage {self.name!r} was still at work after its {within:.3g} s")

    def _inside(self, outer: request | None, within: float) -> request:
        """The request that what is called inside sees; its accounts are the outer one's."""
        inner = request(within=within)
        if outer is not None:
            inner.accounts = outer.accounts
        return inner

    def _skip(self, outer: request | None, seconds: float | None) -> Any:
        if outer is not None:
            outer.accounts.append(Account(self.name, seconds=seconds, skipped=True))
        return self.default

    def _of_stream(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if self.optional:
            raise TypeError(f"stage {self.name!r}: a stream cannot be optional; make what comes before it optional")

        @functools.wraps(fn)
        def staged(*args: Any, **kwargs: Any) -> Any:
            outer = REQUEST.get()
            left = inf if outer is None else outer.left()
            with self._inside(outer, left if left == inf else left * self.share):
                return fn(*args, **kwargs)

        return staged

    def __repr__(self) -> str:
        predicted = self.predicted
        parts = [f"{self.share:.0%} of the time left", *(["optional"] if self.optional else [])]
        parts.append("not known yet" if predicted is None else f"takes {predicted:.3g} s")
        return f"<stage {self.name!r}: {', '.join(parts)}>"
