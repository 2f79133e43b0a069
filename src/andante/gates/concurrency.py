"""A number of places: so many calls at once."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.values import Ending

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.values import Outcome

_IGNORED = Ending.IGNORED


class Estimate(Protocol):
    """How many calls at once a backend bears, learned from how they end. A `Concurrency` holds one and enforces it."""

    @property
    def limit(self) -> float:
        """How many may be inside. Only whole places count, and at least one; NaN keeps the limit as it was."""

    def sample(self, outcome: Outcome, inside: int, now: float) -> None:
        """A call ended DONE or OVERLOADED (never IGNORED) while `inside` calls, itself included, were inside."""


class Concurrency(Gate):
    """At most `limit` calls at once, whatever they cost.

    A call that finds no place has an infinite delay: it can only start when another leaves or the limit rises.

    Args:
        limit: a whole number of calls, 1 or more; or an `Estimate`, an object with an attribute `limit` and a method
            `sample(outcome, inside, now)`. It may be set while calls wait: raising it lets in who fits, lowering it
            sends nobody away. An estimate that changes its limit by itself, not in `sample`, calls `changed()` here.
        name: what metrics and errors call it. Default "concurrency".

    Raises:
        ConfigurationError: for a limit that is neither. For no limit at all leave the gate out.
    """

    def __init__(self, limit: int | Estimate, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._inside = 0
        self._fixed = 0  # the limit, where it is a number
        self._learned = 1.0  # the last limit that the estimate gave
        self._estimate: Estimate | None = None
        self._take(limit)

    @property
    def limit(self) -> float:
        """How many calls may be inside now."""
        return self._fixed if self._estimate is None else self._estimated()

    @limit.setter
    def limit(self, value: int | Estimate) -> None:
        self._take(value)
        self.changed()

    @property
    def inside(self) -> int:
        """How many calls are inside."""
        return self._inside

    @property
    def estimate(self) -> Estimate | None:
        """What the limit comes from; None where it is a number."""
        return self._estimate

    def delay(self, entry: Entry, now: float) -> float:
        if self._inside < self._fixed:
            return 0.0
        return inf if self._estimate is None or self._inside + 1 > self._estimated() else 0.0

    def enter(self, entry: Entry, now: float) -> None:
        self._inside += 1

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        if self._estimate is not None and outcome.ending is not _IGNORED:
            self._estimate.sample(outcome, self._inside, now)
        self._inside -= 1

    def undo(self, entry: Entry, now: float) -> None:
        self._inside -= 1

    def snapshot(self, now: float) -> dict[str, Any]:
        """`limit`, `inside`, and `headroom`, the share of places that is free."""
        limit = self.limit
        return {"limit": limit, "inside": self._inside, "headroom": max(0.0, 1.0 - self._inside / limit)}

    def dump(self) -> dict[str, Any]:
        """What the estimate has learned, if it has a `dump` of its own."""
        dump = getattr(self._estimate, "dump", None)
        return {} if dump is None else {"estimate": dump()}

    def load(self, state: dict[str, Any], age: float) -> None:
        """Hand the estimate, if it has a `load(state, age)` of its own, what it had learned."""
        load = getattr(self._estimate, "load", None)
        if load is not None and "estimate" in state:
            load(state["estimate"], age)

    def _take(self, limit: object) -> None:
        if isinstance(limit, int) and not isinstance(limit, bool):
            if limit < 1:
                raise ConfigurationError(f"limit must be 1 or more calls, not {limit!r}", path="limit")
            self._fixed, self._estimate = limit, None
            return
        value = getattr(limit, "limit", None)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not callable(getattr(limit, "sample", None))
        ):
            raise ConfigurationError(
                f"limit must be a whole number of calls or an estimate (.limit, .sample(...)), not {limit!r}",
                path="limit",
            )
        self._fixed = 0
        self._estimate = limit  # type: ignore[assignment]  # just looked at

    def _estimated(self) -> float:
        """The estimate's limit; at least 1, since nothing is learned from calls that never run."""
        assert self._estimate is not None
        limit = self._estimate.limit
        if limit == limit:
            self._learned = limit if limit > 1.0 else 1.0
        return self._learned

    def __repr__(self) -> str:
        by = "" if self._estimate is None else f" by {type(self._estimate).__name__}"
        return f"<Concurrency {self.name!r}: {self._inside} of {self.limit:g} inside{by}>"
