"""How much of an objective to aim for, corrected by what was missed."""

from __future__ import annotations

from math import exp


class Share:
    """A share of an objective: a miss lowers it, a hit under pressure raises it, so that `miss` of the calls miss.

    v *= exp(-step (1 - miss)) at a miss; v *= exp(step miss) at a hit while something is held back; from 0.3 to `most`.
    """

    __slots__ = ("miss", "most", "step", "value")

    def __init__(self, value: float, *, miss: float, step: float, most: float) -> None:
        self.value = value
        self.miss = miss
        self.step = step
        self.most = most

    def learn(self, missed: bool, pressed: bool) -> None:
        """One call has ended."""
        if missed:
            self.value = max(0.3, self.value * exp(-self.step * (1 - self.miss)))
        elif pressed and self.value < self.most:
            self.value = min(self.most, self.value * exp(self.step * self.miss))
