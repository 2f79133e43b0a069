"""What the classes' objectives ask of a backend, and how much less of it the less urgent may use."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from andante.gates.natural_pace.flow import Flow
    from andante.gates.natural_pace.share import Share
    from andante.service import ServiceClass

GAPS = (1.0, 0.97, 0.92)  # of a goal for gaps, by rank: the less urgent stop earlier, and that is the headroom
FIRSTS = (1.0, 0.7, 0.4)  # of a goal for first results, by rank
FIRST, FIRST_MOST = 0.4, 0.5  # of the smallest ttft objective, and seconds, that may be spent in the backend

_PRESSED = 2.0  # seconds for which a refusal means that a higher share would be used


def by_rank(shares: Sequence[float], rank: int) -> float:
    """The share for a class of that rank; the last one for all that come after."""
    return shares[min(rank, len(shares) - 1)]


def first_goal(classes: Iterable[ServiceClass], share: float = FIRST, most: float = FIRST_MOST) -> float:
    """Seconds to a first result that prompts inside may cause; inf where no class has a ttft objective."""
    firsts = [float(c.ttft) for c in classes if c.ttft is not None]  # type: ignore[arg-type]
    return min(most, share * min(firsts)) if firsts else inf


class GapGoal:
    """Seconds between tokens that the most urgent class may cause.

    A share of the smallest `itl` objective; less where a class with an `e2e` objective alone would not get its longest
    answers within a share of that. Both shares are corrected by what is missed.

    Attributes:
        itl: the smallest itl objective; inf where there is none.
        share, late: of the itl and the e2e objectives that is aimed for.
        refused_at: when a call was last kept waiting by it.
    """

    def __init__(self, share: Share, late: Share) -> None:
        self.share = share
        self.late = late
        self.itl = inf
        self.refused_at = -inf
        self._guarded: dict[int, float] = {}  # rank -> itl objective
        self._ends: dict[int, float] = {}  # rank -> e2e objective of classes with no other

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        """The service classes, in rank order."""
        self._guarded = {rank: float(c.itl) for rank, c in enumerate(classes) if c.itl is not None}  # type: ignore[arg-type]
        self._ends = {
            rank: float(c.e2e)  # type: ignore[arg-type]
            for rank, c in enumerate(classes)
            if c.e2e is not None and c.itl is None and c.ttft is None
        }
        self.itl = min(self._guarded.values(), default=inf)

    def seconds(self, flow: Flow) -> float:
        """The goal; inf where no class has an itl objective."""
        if self.itl == inf:
            return inf
        goal = self.share.value * self.itl
        for rank, e2e in self._ends.items():
            longest = flow.lengths_of(rank).quantile
            if longest > 0:
                goal = min(goal, self.late.value * e2e / longest)
        return goal

    def learn(self, rank: int, gap: float | None, took: float, now: float) -> None:
        """A call has ended: its mean gap (None: it tells nothing of gaps), and its seconds."""
        pressed = now - self.refused_at <= _PRESSED
        objective = self._guarded.get(rank)
        if objective is not None and gap is not None:
            self.share.learn(gap > objective, pressed)
        end = self._ends.get(rank)
        if end is not None:
            self.late.learn(took > end, pressed)
