"""The permit's side of a stream: one item after the other, counted, timed and ended once."""

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
    from collections.abc import Awaitable, Callable
    from contextvars import Token

    from andante.deadline import request

_log = logging.getLogger("andante")
_ADMITTED = State.ADMITTED


class StreamTerms:
    """How a guard counts and settles: `settle` and `items` of `guard()`. What they raise is reported once and never
    changes the outcome of a call."""

    def __init__(self, settle: Callable[[Any], Cost | None] | None, items: Callable[[Any], float] | None) -> None:
        self.settle = settle
        self.items = items
        self._reported = False

    def plain(self, permit: Permit) -> bool:
        """Whether every item of `permit` counts as one, and no gate wants to hear of it."""
        return self.items is None and not permit.way.progresses

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


class Pull:
    """The permit's side of a stream: taking items from a source and ending the permit, once.

    Attributes:
        given: when the consumer got what it has: the stream, then each item. None before the first pull of a generator.
        pulled: whether an item was ever asked for.
        over: whether the end was told to the consumer, or came from it.
    """

    __slots__ = ("around", "given", "last", "over", "permit", "pulled", "terms")

    def __init__(self, permit: Permit, terms: StreamTerms, around: request | None, given: float | None = None) -> None:
        self.permit = permit
        self.terms = terms
        self.around = around
        self.given = given
        self.last: Any = None
        self.pulled = self.over = False

    async def item(self, source: Callable[[], Awaitable[Any]]) -> Any:
        """The next item, or whatever the source raises; then the permit has ended."""
        permit = self.permit
        if permit.state is not _ADMITTED:
            if not self.over and permit.ended is not None and permit.ended >= permit.deadline:
                self.over = True
                raise _overrun(permit, "the stream")  # its deadline came while nobody asked
            raise StopAsyncIteration
        self.pulled = True
        now, given = permit.admission.now(), self.given
        if given is not None and now > given:
            # The time since the consumer was given something was its own, and no gap between items.
            permit.idle += now - given
            if permit.last is not None:
                permit.last += now - given
        around = HELD.get()
        permit.outer = around if around is not permit else None
        token = HELD.set(permit)  # `hold` and `let_go` in place: this is the hot path
        try:
            if permit.deadline == inf:
                item = await source()
            elif permit.deadline <= now:
                raise _overrun(permit, "the stream")
            else:
                item = await bounded(permit, source(), "the stream")
        except StopAsyncIteration:
            self.end(complete=True)
            raise
        except BaseException as error:
            self.end(error)
            raise
        finally:
            try:
                HELD.reset(token)
            except ValueError:
                pass
        items = self.terms.count(item)
        permit.progress(items)
        self.given = permit.last if items else permit.admission.now()
        self.last = item
        return item

    def end(self, error: BaseException | None = None, *, complete: bool = False) -> None:
        """Settle and close the permit. Once; later calls do nothing."""
        permit, self.over = self.permit, True
        if permit.state is not _ADMITTED:
            return
        try:
            if error is not None:
                permit.fail(error)
            elif not complete:
                permit.abandon()
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


def hold(permit: Permit) -> Token[Permit | None]:
    """From now on this context holds `permit`."""
    around = HELD.get()
    permit.outer = around if around is not permit else None
    return HELD.set(permit)


def let_go(token: Token[Permit | None]) -> None:
    """Undo `hold`."""
    try:
        HELD.reset(token)
    except ValueError:
        pass  # an event loop died, and the garbage collector ends the work in another context


async def bounded(permit: Permit, work: Awaitable[Any], what: str = "the work") -> Any:
    """Await `work`, cancelled at the permit's deadline: DeadlineOverrun."""
    with anyio.move_on_after(max(0.0, permit.deadline - permit.admission.now())) as scope:
        return await work
    if scope.cancelled_caught:
        raise _overrun(permit, what)
    raise AssertionError("unreachable: the scope ends by return or by its own cancellation")


def _overrun(permit: Permit, what: str) -> DeadlineOverrun:
    return DeadlineOverrun(f"{permit.service}: {what} ran past its deadline")
