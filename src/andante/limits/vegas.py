"""How many calls seem to stand in a queue inside the backend."""

from __future__ import annotations

from math import ceil, inf, log10
from typing import Any

from andante.gates.parameters import finite
from andante.limits.learned import LearnedLimit
from andante.limits.round_trip import Round

_ENOUGH = 10  # calls that make a round; fewer where the limit is less


class Vegas(LearnedLimit):
    """The queue inside the backend is estimated as `limit * (1 - fastest / mean)`, of the times of calls, and held
    between 3 and 6 steps.

    After Brakmo and Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet" (1995), with the rules
    of `VegasLimit` in Netflix's concurrency-limits: a step is the whole part of log10(limit), at least 1; a queue of at
    most one step adds six to the limit, below three adds one, above six takes one away, and so does an OVERLOADED call.
    Nothing else changes while less than half of the limit is in use. The fastest time is forgotten after `probe` times
    the limit's number of calls, so that a backend that has become slower is believed. As in the paper, and not as in
    that library, the limit changes once per round trip: by the mean time of the next ten calls (or as many as the limit
    allows) that began after the last change. The library's probe comes after a random share of `probe`; here, after all
    of it.

    Known weaknesses: with answers of different length the fastest is the shortest, not the least delayed, so the limit
    stays too low, and one lucky time holds it down until it is forgotten. A backend that is busy when it is measured
    takes the delay for its own time: under lasting overload the limit creeps up at each probe, bounded only by
    `maximum`. Where refusals come without delay, it goes up by six steps and down by one at a time, around the right
    limit.

    Args:
        initial: the limit to begin with (default 20).
        minimum: its lower bound, 1 or more (default 1).
        maximum: its upper bound (default 1,000).
        probe: forget the fastest time after this many times the limit's number of calls; 1 or more (default 30).

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(self, *, initial: float = 20, minimum: float = 1, maximum: float = 1000, probe: float = 30) -> None:
        super().__init__(initial, minimum, maximum)
        self.probe = finite(probe, "probe", least=1.0)
        self._fastest = inf
        self._calls = 0  # since the fastest time was last forgotten
        self._round = Round()

    def dump(self) -> dict[str, Any]:
        """The limit, the fastest time (seconds) and for how many calls it has been believed."""
        fastest = {} if self._fastest == inf else {"fastest": self._fastest}
        return super().dump() | {"calls": self._calls} | fastest

    def _restore(self, state: dict[str, Any], *, fresh: bool) -> None:
        fastest = finite(state["fastest"], "fastest", above=True) if "fastest" in state else self._fastest
        calls = int(finite(state.get("calls", self._calls), "calls"))
        if fresh:
            self._fastest, self._calls = fastest, calls
        self._round.begin(-inf)

    @property
    def _step(self) -> int:
        return max(1, int(log10(self._limit)))

    def _reduced(self) -> float:
        return self._limit - self._step

    def _overload(self, took: float | None, now: float) -> bool:
        news = super()._overload(took, now)
        if news:
            self._round.begin(now)
        return news

    def _done(self, took: float, inside: int, now: float) -> None:
        self._calls += 1
        if self._calls >= self.probe * self._limit:
            self._calls, self._fastest = 0, self._round.fastest
        self._fastest = min(self._fastest, took)
        self._round.add(took, inside, now)
        if self._round.calls >= min(_ENOUGH, int(self._limit)):
            if self._round.inside * 2 >= self._limit:
                self._judge()
            self._round.begin(now)

    def _judge(self) -> None:
        step = self._step
        queue = ceil(self._limit * (1 - self._fastest / self._round.mean))
        if queue <= step:
            self._move(self._limit + 6 * step)
        elif queue < 3 * step:
            self._move(self._limit + step)
        elif queue > 6 * step:
            self._move(self._limit - step)
