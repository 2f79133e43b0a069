"""A limit between two bounds that is learned from how calls end: what all estimates here have in common."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gates.parameters import finite
from andante.limits.round_trip import RoundTrips
from andante.values import Ending, is_number

if TYPE_CHECKING:
    from andante.values import Outcome

_OLD = 600.0  # seconds after which what was learned of times is not believed any more


class LearnedLimit:
    """`limit`, always a finite number from `minimum` to `maximum`. Subclasses say what moves it.

    Calls that are IGNORED, or whose time is missing, NaN, infinite, 0 or negative, teach nothing; an OVERLOADED call
    needs no time, and its time never counts as one of an answer.
    """

    def __init__(self, initial: float, minimum: float, maximum: float) -> None:
        self.minimum = finite(minimum, "minimum", least=1.0)
        self.maximum = finite(maximum, "maximum", least=1.0)
        if self.maximum < self.minimum:
            raise ConfigurationError(
                f"maximum must be at least the minimum of {self.minimum:g}, not {maximum!r}", path="maximum"
            )
        self._limit = finite(initial, "initial", least=1.0)
        if not self.minimum <= self._limit <= self.maximum:
            raise ConfigurationError(
                f"initial must be from {self.minimum:g} (minimum) to {self.maximum:g} (maximum), not {initial!r}",
                path="initial",
            )
        self._trips = RoundTrips()

    @property
    def limit(self) -> float:
        """How many calls may be inside. `Concurrency` counts whole places of it."""
        return self._limit

    def sample(self, outcome: Outcome, inside: int, now: float) -> None:
        """Learn from a call that ended `now` (seconds, of any clock) while `inside` calls, itself included, were
        inside."""
        if not is_number(now) or not isfinite(now) or outcome.ending is Ending.IGNORED:
            return
        took = _time(outcome.seconds)
        if outcome.ending is Ending.OVERLOADED:
            self._overload(took, now)
        elif took is not None:
            self._trips.done(took)
            self._done(took, inside, now)

    def dump(self) -> dict[str, Any]:
        """What was learned, as JSON-able values."""
        return {"limit": self._limit}

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over what `dump` gave, `age` seconds later: the limit, within the bounds of now; what was learned of
        times only if that is at most 600 s ago. What `state` does not hold stays.

        Raises:
            ConfigurationError: for a state or an age that makes no sense, naming it; then nothing is taken over.
        """
        age = finite(age, "age")
        _check_dict(state)
        limit = finite(state.get("limit", self._limit), "limit")
        self._restore(state, fresh=age <= _OLD)
        self._move(limit)
        self._trips.restart()

    # What a subclass does. ------------------------------------------------------------------------------------------

    def _reduced(self) -> float:
        """The limit after an overload: less than now."""
        raise NotImplementedError

    def _done(self, took: float, inside: int, now: float) -> None:
        """A call was done in `took` seconds, which make sense."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any], *, fresh: bool) -> None:
        """Check all that `dump` added to the limit, then take it over where it is `fresh`. The limit follows."""

    # What it does with it. ------------------------------------------------------------------------------------------

    def _overload(self, took: float | None, now: float) -> bool:
        """One cut, if this overload is news; whether it was."""
        news = self._trips.cut(took, now)
        if news:
            self._move(min(self._limit, self._reduced()))
        return news

    def _move(self, limit: float) -> None:
        if isfinite(limit):
            self._limit = min(self.maximum, max(self.minimum, limit))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._limit:.4g}, from {self.minimum:g} to {self.maximum:g}>"


def _check_dict(state: object) -> None:
    if not isinstance(state, dict):
        raise ConfigurationError(f"state must be a dict, as dump() gave it, not {state!r}", path="state")


def _time(seconds: object) -> float | None:
    """`seconds`, if a call can have taken so long."""
    return float(seconds) if is_number(seconds) and isfinite(seconds) and seconds > 0 else None
