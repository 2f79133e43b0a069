"""What stands between the clients and the engine: nothing, a semaphore, aiolimiter, or an andante admission."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from andante.admission import Admission
from andante.errors import ConfigurationError
from andante.simulate.workload import ClientClass, Request, service_classes
from andante.values import is_number

if TYPE_CHECKING:
    from andante.gate import Gate


class Slot(Protocol):
    """What a policy may hand to a call that is inside."""

    def progress(self, items: float = 1.0) -> None:
        """So many tokens more have come."""


Way = Callable[[Request], AbstractAsyncContextManager[Any]]
"""How a call gets in: an async context held while the engine has it. Its value is None or a `Slot`. Entering may wait;
it may raise a `Rejected`."""

Policy = Callable[[], Way]
"""Makes a fresh way in, inside the event loop of one replay."""


def no_control() -> Way:
    """Everybody goes straight to the engine."""
    return lambda _: nullcontext()


def semaphore(places: int) -> Policy:
    """`asyncio.Semaphore(places)` around the call: first come, first served, whatever it is."""
    if isinstance(places, bool) or not isinstance(places, int) or places < 1:
        raise ConfigurationError(f"places must be a whole number above 0, not {places!r}", path="places")

    def make() -> Way:
        shared = asyncio.Semaphore(places)
        return lambda _: shared

    return make


def aiolimiter(rate: float) -> Policy:
    """`aiolimiter.AsyncLimiter` at `rate` calls a second around the call, the package itself on the loop's clock.

    Its burst is one second's calls, at least one call. Raises ImportError where aiolimiter is not installed.
    """
    from aiolimiter import AsyncLimiter

    if not is_number(rate) or not 0 < rate < inf:
        raise ConfigurationError(f"rate must be a number of calls a second above 0, not {rate!r}", path="rate")
    # A bucket must hold at least one call, so below one call a second the period grows instead.
    size, period = (rate, 1.0) if rate >= 1 else (1.0, 1.0 / rate)

    def make() -> Way:
        limiter = AsyncLimiter(size, period)
        return lambda _: limiter

    return make


def admission(clients: Sequence[ClientClass], gates: Callable[[], Sequence[Gate]], *, size_bias: float = 0.5) -> Policy:
    """A real `Admission` with the objectives of `clients` as service classes, ranked in their order.

    Args:
        clients: the classes of the workload.
        gates: makes the gates; a gate serves one replay.
        size_bias: of the line.
    """

    def make() -> Way:
        entry = Admission(*gates(), classes=service_classes(clients), name="simulated", size_bias=size_bias)
        return lambda request: entry.admit(request.call())

    return make
