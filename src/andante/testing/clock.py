"""A clock that a test moves by hand, for the pure parts."""

from __future__ import annotations

from math import isfinite

from andante.errors import ConfigurationError
from andante.values import Seconds, seconds


class ManualClock:
    """A clock that stands still until it is told otherwise. Call it for the time.

    Args:
        start: the time it shows first, in seconds (default 0).

    Raises:
        ConfigurationError: `start` is not a finite number of seconds.
    """

    def __init__(self, start: Seconds = 0.0) -> None:
        self._now = _finite(start, "start")

    def __call__(self) -> float:
        """The time, in seconds."""
        return self._now

    def advance(self, by: Seconds) -> float:
        """Let `by` seconds pass (0 or more) and return the time then. A clock never goes back: ConfigurationError."""
        self._now += _finite(by, "by")
        return self._now

    def advance_to(self, at: Seconds) -> float:
        """Move to exactly the time `at` and return it; ConfigurationError where that would be back."""
        at = _finite(at, "at")
        if at < self._now:
            message = f"at must be {self._now!r} s or later, since a clock never goes back; not {at!r}"
            raise ConfigurationError(message, path="at")
        self._now = at
        return at

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._now:g} s>"


def _finite(value: Seconds, name: str) -> float:
    number = seconds(value, name)
    if not isfinite(number):
        raise ConfigurationError(f"{name} must be finite, not {value!r}", path=name)
    return number
