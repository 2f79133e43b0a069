"""Whether calls take longer than they used to."""

from __future__ import annotations

from math import inf
from typing import Any

from andante.gates.parameters import finite, share, whole
from andante.limits.learned import LearnedLimit
from andante.limits.round_trip import Round

_ENOUGH = 10  # calls that make a round; fewer where the limit is less
_WARM_UP = 10  # rounds whose plain mean begins the long average
_MOST = 0.5  # the least gradient: what one round can take away
_DECAY = 0.95  # of the long average per round, while it is more than twice the present time


class Gradient2(LearnedLimit):
    """The limit goes `smoothing` of the way towards `limit * gradient + queue`, where the gradient is
    `tolerance * usual / mean`, of the times of calls, at least 0.5 and at most 1.

    After `Gradient2Limit` in Netflix's concurrency-limits, with its constants, but a least limit of 1: `usual` is an
    exponential average over `window` rounds, which loses 5 % a round while it is more than twice the present time;
    nothing changes while less than half of the limit is in use. A round, which is one second there, is a round trip
    here: the next ten calls (or as many as the limit allows) that began after the last change. An OVERLOADED call,
    which that library takes for an ordinary time, counts as the gradient 0.5 without a `queue`, once per round trip: so
    it always lowers the limit.

    Known weaknesses: with answers of different length the gradient is noise. Slow calls alone never bring the limit
    below `queue / (1 - 0.5)`, which is 8 by default: a backend that bears fewer must refuse, or `queue` must be less.
    A lasting overload becomes usual, and the limit creeps up with it, bounded only by `maximum`. One terrible time
    among the first becomes usual too; it is halved in 14 rounds, in which the limit grows by at most
    `smoothing * queue` each.

    Args:
        initial: the limit to begin with (default 20).
        minimum: its lower bound, 1 or more (default 1).
        maximum: its upper bound (default 200).
        tolerance: how many times as long as usual a call may take; 1 or more (default 1.5).
        queue: calls that may stand in a queue inside the backend; 0 or more (default 4).
        smoothing: share of the way to go per round; above 0, below 1 (default 0.2).
        window: rounds of the long average, a whole number, 2 or more (default 600).

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(
        self,
        *,
        initial: float = 20,
        minimum: float = 1,
        maximum: float = 200,
        tolerance: float = 1.5,
        queue: float = 4,
        smoothing: float = 0.2,
        window: int = 600,
    ) -> None:
        super().__init__(initial, minimum, maximum)
        self.tolerance = finite(tolerance, "tolerance", least=1.0)
        self.queue = finite(queue, "queue")
        self.smoothing = share(smoothing, "smoothing")
        self.window = whole(window, "window", 2)
        self._usual = 0.0
        self._rounds = 0  # that `_usual` has seen
        self._round = Round()

    def dump(self) -> dict[str, Any]:
        """The limit, the usual time (seconds) and how many rounds it has seen."""
        return super().dump() | ({"usual": self._usual, "rounds": self._rounds} if self._rounds else {})

    def _restore(self, state: dict[str, Any], *, fresh: bool) -> None:
        if "usual" in state:
            usual = finite(state["usual"], "usual", above=True)
            rounds = int(finite(state.get("rounds"), "rounds", least=1.0))
            if fresh:
                self._usual, self._rounds = usual, rounds
        self._round.begin(-inf)

    def _reduced(self) -> float:
        return self._limit * (1 - self.smoothing * (1 - _MOST))

    def _overload(self, took: float | None, now: float) -> bool:
        news = super()._overload(took, now)
        if news:
            self._round.begin(now)
        return news

    def _done(self, took: float, inside: int, now: float) -> None:
        self._round.add(took, inside, now)
        if self._round.calls >= min(_ENOUGH, int(self._limit)):
            self._learn(self._round.mean)
            if self._round.inside * 2 >= self._limit:
                self._judge(self._round.mean)
            self._round.begin(now)

    def _learn(self, mean: float) -> None:
        self._rounds += 1
        weight = 1 / self._rounds if self._rounds <= _WARM_UP else 2 / (self.window + 1)
        self._usual += weight * (mean - self._usual)
        if self._usual > 2 * mean:
            self._usual *= _DECAY

    def _judge(self, mean: float) -> None:
        gradient = max(_MOST, min(1.0, self.tolerance * self._usual / mean))
        target = self._limit * gradient + self.queue
        self._move(self._limit + self.smoothing * (target - self._limit))
