"""An `aiolimiter.AsyncLimiter` as a gate, by its public surface, for programs that have one already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from andante.errors import AndanteError, ConfigurationError, CostTooLarge
from andante.gate import Gate
from andante.gates.parameters import Unit, finite, measure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from andante.gate import Entry

_HALVINGS = 30  # how closely the free capacity is measured: to amount / 2**30
_SHORTEST = 1e-6  # seconds: where the limiter says no, the delay is at least this


class Limiter(Protocol):
    """What is used of `aiolimiter.AsyncLimiter`."""

    max_rate: float
    time_period: float

    def has_capacity(self, amount: float = 1) -> bool: ...
    def acquire(self, amount: float = 1) -> Coroutine[Any, Any, None]: ...


class AioLimiter(Gate):
    """Enter by an `aiolimiter.AsyncLimiter`, which other code may go on using beside andante.

    A call enters by running `acquire(amount)` at a moment when `has_capacity(amount)` says that it will not wait. How
    long it takes until there is capacity, the limiter does not say; the gate finds the free capacity by halving.

    It is weaker than `TokenBucket`, which is the better choice where there is no limiter yet:

    - it lets its whole capacity (`max_rate`) out at once, and again after idling;
    - it needs a running asyncio event loop, and does not work under trio;
    - it measures time by that loop, not by `now`: decisions cannot be replayed (law 11), and lateness is not repaid;
    - nothing can be given back: no refund for a call that never ran (law 3) and no settlement, neither way;
    - its rate cannot change; calls that wait in the limiter itself are passed by those that wait in an admission, and
      what they take is not announced.

    Args:
        limiter: the limiter. Duck-typed: `has_capacity(amount)`, `acquire(amount)`, `max_rate`, `time_period` (s).
        unit: what `amount` is: "requests" (default), "tokens", "input_tokens" or "output_tokens".
        name: what metrics and errors call it. Default "aio_limiter".

    Raises:
        ConfigurationError: for an object that is no such limiter, and at the first call where no asyncio loop runs.
        CostTooLarge: at once, for a call that asks for more than `max_rate`.
    """

    def __init__(self, limiter: Limiter, *, unit: Unit = "requests", name: str | None = None) -> None:
        super().__init__(name=name)
        if isinstance(limiter, type) or not all(
            callable(getattr(limiter, each, None)) for each in ("has_capacity", "acquire")
        ):
            raise ConfigurationError(f"limiter must be an aiolimiter.AsyncLimiter, not {limiter!r}", path="limiter")
        for each in ("max_rate", "time_period"):
            finite(getattr(limiter, each, None), f"limiter.{each}", above=True)
        self.limiter = limiter
        self.unit = unit
        self._measure = measure(unit)

    def delay(self, entry: Entry, now: float) -> float:
        amount = self._measure(entry.cost)
        if not amount:
            return 0.0
        limiter = self.limiter
        if amount > limiter.max_rate:
            raise CostTooLarge(
                f"the call asks {self.name} for {amount:g} {self.unit}, which never holds more than max_rate="
                f"{limiter.max_rate:g}: split the call, or make a limiter with a larger max_rate",
                gate=self.name,
                service=entry.service,
            )
        if self._has(amount):
            return 0.0
        return max(_SHORTEST, (amount - self._free(amount)) * limiter.time_period / limiter.max_rate)

    def enter(self, entry: Entry, now: float) -> None:
        amount = self._measure(entry.cost)
        if not amount or not self._has(amount):  # a call that was inside before the gate was taken cannot be charged
            return
        acquiring = self.limiter.acquire(amount)
        try:
            acquiring.send(None)
        except StopIteration:
            return
        acquiring.close()
        raise AndanteError(
            f"{self.limiter!r} had capacity for {amount:g} and yet waits for it: not a limiter to build on"
        )

    def snapshot(self, now: float) -> dict[str, Any]:
        """`rate` (units per `period` seconds), `period`, `unit`; `headroom` too where an asyncio loop runs."""
        limiter = self.limiter
        state: dict[str, Any] = {"rate": limiter.max_rate, "period": limiter.time_period, "unit": self.unit}
        try:
            free = self._free(limiter.max_rate)
        except ConfigurationError:
            return state
        return state | {"headroom": free / limiter.max_rate}

    def _has(self, amount: float) -> bool:
        try:
            return self.limiter.has_capacity(amount)
        except RuntimeError as error:
            raise ConfigurationError(
                f"{self.name}: an aiolimiter.AsyncLimiter needs a running asyncio loop; use TokenBucket elsewhere",
                path="limiter",
            ) from error

    def _free(self, most: float) -> float:
        """The capacity that is free, up to `most`; never more than there is."""
        if self._has(most):
            return most
        low, high = 0.0, most
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._has(middle):
                low = middle
            else:
                high = middle
        return low

    def __repr__(self) -> str:
        return (
            f"<AioLimiter {self.name!r}: {self.limiter.max_rate:g} {self.unit} per {self.limiter.time_period:g} s, "
            "all of them at once after idling>"
        )
