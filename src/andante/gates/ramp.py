"""The way back after a pause: a few calls first, then more and more, so that those who waited do not storm in."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andante.gate import Entry


class Ramp:
    """Rounds of calls: `first` of them, then `factor` times as many each time that a whole round went well.

    It is over after a round that was never full, for then nobody was held back who could now storm in. Calls that
    entered before `begin` are not known here, and say nothing.

    Args:
        first: how many may be inside in the first round.
        factor: how much larger each round is than the last.

    Attributes:
        size: how many may be inside in this round.
    """

    __slots__ = ("_factor", "_first", "_fullest", "_new", "_went_well", "size")

    def __init__(self, first: int, factor: float) -> None:
        self._first = first
        self._factor = factor
        self._new: dict[Entry, bool] = {}  # calls inside, and whether they went well
        self._went_well = 0  # calls of this round that did
        self._fullest = 0  # the most that were inside at once, in this round
        self.size = first

    @property
    def inside(self) -> int:
        """How many calls of the ramp are inside."""
        return len(self._new)

    @property
    def first_round(self) -> bool:
        """Whether no round is through yet."""
        return self.size == self._first

    @property
    def full(self) -> bool:
        """Whether nobody more may enter now."""
        return len(self._new) >= self.size

    @property
    def headroom(self) -> float:
        """The share of this round that is free; none in the first, which only probes."""
        return 0.0 if self.first_round else max(0.0, 1.0 - len(self._new) / self.size)

    def begin(self) -> None:
        """The first round, anew. Who is inside says nothing any more."""
        self._new.clear()
        self._start(self._first)

    def enter(self, entry: Entry) -> None:
        """`entry` goes in, as one of this round."""
        self._new[entry] = False

    def __contains__(self, entry: object) -> bool:
        return entry in self._new

    def well(self, entry: Entry) -> bool:
        """`entry` went well, which counts once. True: the ramp is over."""
        if self._new.get(entry) is not False:
            return False
        self._new[entry] = True
        self._fullest = max(self._fullest, len(self._new))
        self._went_well += 1
        if self._went_well < self.size:
            return False
        if self._fullest < self.size:
            self._new.clear()
            return True
        self._start(ceil(self.size * self._factor))
        return False

    def gone(self, entry: Entry) -> None:
        """`entry` is out: its place is free, however it ended."""
        self._new.pop(entry, None)

    def _start(self, size: int) -> None:
        self.size, self._went_well, self._fullest = size, 0, 0
