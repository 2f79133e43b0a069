"""Additive increase, multiplicative decrease."""

from __future__ import annotations

from andante.gates.parameters import share
from andante.limits.learned import LearnedLimit
from andante.values import Seconds, seconds


class AIMD(LearnedLimit):
    """One more for each round of calls that went well; `backoff` times the limit when one was OVERLOADED or took longer
    than `timeout`.

    After Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
    networks" (1989), with the constants of `AIMDLimit` in Netflix's concurrency-limits, but a least limit of 1. As
    there, the limit grows only while at least half of it is in use: what idles proves nothing. Two things differ from
    it, and belong together: the limit is cut once per round trip, not once per failed call, so a burst of refusals is
    one cut; and a call that went well adds 1 / limit, which is 1 per round (RFC 5681, section 3.1), not 1 per call.
    Calls that began before a cut add nothing.

    Known weaknesses: it learns from failures alone, so it must overload the backend again and again, and a backend that
    never refuses takes it to `maximum` unless `timeout` is a time that calls there exceed when it is busy; one slow
    answer counts as overload, however long it was meant to be. Neither ratchets: an overload costs at most
    1 - `backoff` per round trip, and from `minimum` it regains one call per round.

    Args:
        initial: the limit to begin with (default 20).
        minimum: its lower bound, 1 or more (default 1).
        maximum: its upper bound (default 200).
        backoff: what the limit is multiplied by; above 0, below 1 (default 0.9).
        timeout: seconds above which a call that was done counts as overload; None: never (default 5).

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(
        self,
        *,
        initial: float = 20,
        minimum: float = 1,
        maximum: float = 200,
        backoff: float = 0.9,
        timeout: Seconds | None = 5.0,
    ) -> None:
        super().__init__(initial, minimum, maximum)
        self.backoff = share(backoff, "backoff")
        self.timeout = seconds(timeout, "timeout", positive=True)

    def _reduced(self) -> float:
        return self._limit * self.backoff

    def _done(self, took: float, inside: int, now: float) -> None:
        if took > self.timeout:
            self._overload(took, now)
        elif inside * 2 >= self._limit and self._trips.since_cut(took, now):
            self._move(self._limit + 1 / self._limit)
