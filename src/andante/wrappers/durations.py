"""How long a piece of work takes, learned from how long it took."""

from __future__ import annotations

from collections import deque
from math import ceil

KEPT = 64  # the latest so many durations count
NEEDED = 5  # below so many nothing is predicted
ASKED_AGAIN = 16  # a prediction that keeps everybody away is put to the test at every so many


class Durations:
    """The latest durations of one kind of work, and their quantile.

    A prediction that says "too long" would never be corrected, since the work is then not run any more: `fits` says
    yes to every 16th that it would turn away.

    Args:
        quantile: which share of the durations lies at or below the prediction; above 0, up to 1. Default 0.9.
    """

    __slots__ = ("_kept", "_quantile", "_turned_away")

    def __init__(self, quantile: float = 0.9) -> None:
        self._quantile = quantile
        self._kept: deque[float] = deque(maxlen=KEPT)
        self._turned_away = 0

    def took(self, seconds: float) -> None:
        """One took so long, or was stopped after so long."""
        self._kept.append(seconds)

    @property
    def predicted(self) -> float | None:
        """Seconds that the next one will take, in all but one case of ten; None until five are known."""
        if len(self._kept) < NEEDED:
            return None
        return sorted(self._kept)[ceil(self._quantile * len(self._kept)) - 1]

    def fits(self, seconds: float) -> bool:
        """Whether the next one is expected to end within `seconds`. Where nothing is known, yes."""
        predicted = self.predicted
        if predicted is None or predicted <= seconds:
            return True
        self._turned_away += 1
        return self._turned_away % ASKED_AGAIN == 0
