"""A change of the limit shows only in calls that began after it: when is there news?"""

from __future__ import annotations

from collections import deque
from math import inf

_UNKNOWN = 1.0  # seconds: a round trip before any was measured (RFC 6298, section 2.1)
_REMEMBERED = 9  # times of which the middle one is the round trip: four terrible ones do not move it far
_TINY = 1e-6  # seconds: began "at" the change, up to rounding
_BACK = 1.0  # seconds: a clock that goes back further than this was started anew


class RoundTrips:
    """Lets one cut through per round trip: what the calls before a cut tell afterwards is the same overload once more.

    A round trip is the median of the last nine times of calls that were done; 1 s before the first.
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_REMEMBERED)
        self._cut = -inf

    @property
    def seconds(self) -> float:
        """One round trip."""
        times = sorted(self._times)
        return times[(len(times) - 1) // 2] if times else _UNKNOWN

    def done(self, took: float) -> None:
        """A call that was done took so long."""
        self._times.append(took)

    def since_cut(self, took: float, now: float) -> bool:
        """Whether a call that took so long and ended `now` began after the last cut."""
        if now < self._cut - _BACK:
            self._cut = -inf
        return now - took >= self._cut - _TINY

    def cut(self, took: float | None, now: float) -> bool:
        """Whether an overload, heard `now` of a call that took so long (None: unknown), is news. If so it is the last
        cut from now on."""
        if not self.since_cut(took or 0.0, now) or now - self._cut < self.seconds:
            return False
        self._cut = now
        return True

    def restart(self) -> None:
        """There was no cut; the times stay."""
        self._cut = -inf


class Round:
    """The calls that began after the last change of the limit, until they are enough to judge it.

    Attributes:
        calls: how many have ended.
        mean: their mean time, in seconds.
        fastest: the least of their times.
        inside: the most calls that were inside when one of them ended.
    """

    __slots__ = ("_began", "calls", "fastest", "inside", "mean")

    def __init__(self) -> None:
        self.begin(-inf)

    def begin(self, now: float) -> None:
        """The limit changed, or was judged and kept: whoever starts from `now` on counts."""
        self._began = now
        self.calls = 0
        self.mean = 0.0
        self.fastest = inf
        self.inside = 0

    def add(self, took: float, inside: int, now: float) -> None:
        """A call was done, if it began in this round."""
        if now < self._began - _BACK:
            self.begin(-inf)
        if now - took < self._began - _TINY:
            return
        self.calls += 1
        self.mean += (took - self.mean) / self.calls
        self.fastest = min(self.fastest, took)
        self.inside = max(self.inside, inside)
