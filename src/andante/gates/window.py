"""A sliding window that never holds more than its limit, in bounded memory. The strict part of `TokenBucket`."""

from __future__ import annotations

from collections import deque
from math import floor, fsum, inf
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.gates.parameters import finite

if TYPE_CHECKING:
    from andante.gate import Entry

SLOTS = 1024
"""Into how many slots a period is cut."""

_SLACK = 1e-6  # Seconds by which every time is read late, so that the start of a slot, as a float, falls into it.
_ROUNDING = 1e-12  # Share of the limit by which sums of fractions may be off.
_GONE = -inf  # The slot of an amount that is forgotten.


class SlidingWindow:
    """What entered during the last `period` seconds, rounded so that it is never too little.

    What enters in a slot counts until that slot has been over for a whole period: between 1 and 1 + 1/1,024 periods.
    So no half-open window of the period holds more than the limit, and a steady demand gets at least 1,024/1,025 of it.
    """

    def __init__(self, period: float) -> None:
        self._width = period / SLOTS
        self._slots: deque[list[float]] = deque()  # [slot, amount], oldest first; only slots in which something entered
        self._used = 0.0  # the sum of all amounts in _slots
        self._latest = -inf  # the newest slot seen by an entry; time never goes back behind it
        self._summed = -inf  # the slot in which _used was last summed anew
        self._inside: dict[Entry, list[float]] = {}  # the slot in which each entered
        self._restored: list[list[float]] = []  # [slots ago, amount] of an earlier life, before any time was seen

    def delay(self, need: float, limit: float, now: float) -> float:
        """Seconds until `need` more fits under `limit`. Exact; inf if it never does."""
        free = limit - self._used + _ROUNDING * limit
        if free >= need:
            return 0.0
        oldest = self._slot(now) - SLOTS
        for slot, amount in self._slots:
            free += amount
            if free >= need:
                return 0.0 if slot < oldest else (slot + SLOTS + 1) * self._width - now
        return inf

    def enter(self, entry: Entry, need: float, now: float) -> None:
        """`need` enters now."""
        self._inside[entry] = self._add(need, now)

    def leave(self, entry: Entry, surplus: float, now: float) -> None:
        """`entry` is over. A surplus leaves the slot in which it entered; a deficit (negative) enters now."""
        slot = self._inside.pop(entry, None)
        if surplus < 0:
            self._add(-surplus, now)
        elif slot is not None and slot[0] != _GONE:
            self._used -= surplus
            slot[1] -= surplus

    def anchor(self, now: float) -> None:
        """The clock starts here: at the first time seen after `load`, or after it was set back."""
        latest = self._latest
        self._latest = here = floor((now + _SLACK) / self._width)
        self._summed = -inf
        if self._restored:
            for ago, amount in self._restored:
                # One slot later than it may have been: when in its slot the dump was made is not known.
                self._slots.append([here - max(0, floor(ago) - 1), amount])
            self._restored = []
            self._used = fsum(amount for _, amount in self._slots)
        elif latest > here:
            for slot in self._slots:
                slot[0] -= latest - here

    def used(self, now: float) -> float:
        """How much of the limit counts as used now."""
        oldest = self._slot(now) - SLOTS
        return fsum(amount for slot, amount in self._slots if slot >= oldest) + fsum(a for _, a in self._restored)

    def dump(self) -> list[list[float]]:
        """`[slots ago, amount]`, as of the latest entry, oldest first."""
        if self._restored:
            return [list(pair) for pair in self._restored]
        return [[self._latest - slot, amount] for slot, amount in self._slots if amount > 0]

    def load(self, state: object, age: float) -> None:
        """Take over what `dump` gave, `age` seconds later; `anchor` must follow before anything is asked."""
        if not isinstance(state, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in state):
            raise ConfigurationError(f"window must be a list of [slots ago, amount], not {state!r}", path="window")
        pairs = [[finite(ago, "window"), finite(amount, "window", above=True)] for ago, amount in state]
        self._forget(inf)
        self._restored = [[ago + age / self._width, amount] for ago, amount in sorted(pairs, reverse=True)]

    def _slot(self, now: float) -> float:
        return max(self._latest, floor((now + _SLACK) / self._width))

    def _add(self, amount: float, now: float) -> list[float]:
        here = self._latest = self._slot(now)
        self._forget(here - SLOTS)
        self._used += amount
        if self._slots and self._slots[-1][0] == here:
            slot = self._slots[-1]
            slot[1] += amount
        else:
            slot = [here, amount]
            self._slots.append(slot)
        return slot

    def _forget(self, oldest: float) -> None:
        slots = self._slots
        while slots and slots[0][0] < oldest:
            slot = slots.popleft()
            slot[0] = _GONE
            self._used -= slot[1]
        if not slots:
            self._used = 0.0
        elif self._summed < oldest:  # once a period: adding and subtracting fractions drifts
            self._used = fsum(amount for _, amount in slots)
            self._summed = oldest + SLOTS
