"""What a signal says: one number, when it was read, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Protocol, runtime_checkable

from andante.values import is_number


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at something. Missing and stale are a third state beside idle and full, never one of them.

    Attributes:
        value: what was read; None where nothing was to be had.
        at: when, on the clock of the admission, seconds; -inf for never.
        source: where it came from, for people.
    """

    value: float | None
    at: float
    source: str = "signal"

    def known(self, now: float, stale_after: float) -> float | None:
        """The value, if there is one, it is a finite number, and it is at most `stale_after` seconds old."""
        value = self.value
        if not is_number(value) or not isfinite(value) or not now - self.at <= stale_after:
            return None
        return float(value)


NEVER = Reading(None, -inf)
"""Nothing was read yet."""


@runtime_checkable
class Signal(Protocol):
    """Something that can be asked at any moment what it last saw: no waiting, no I/O."""

    def read(self) -> Reading:
        """The last reading."""
        ...
