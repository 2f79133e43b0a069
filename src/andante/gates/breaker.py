"""The backend is broken: leave it alone for a while, then let a few look whether it is whole again."""

from __future__ import annotations

import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.gates.parameters import finite, whole
from andante.gates.ramp import Ramp
from andante.trouble import broken
from andante.values import Ending, Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.gate import Entry
    from andante.values import Outcome

_log = logging.getLogger("andante")

_DONE, _OVERLOADED = Ending.DONE, Ending.OVERLOADED
_TINY = 1e-7  # seconds: a delay below this is none
_BACK = 1.0  # seconds: a clock that goes back further than this was started anew
_PIECES = 10  # the window moves on in so many pieces


class Breaker(Gate):
    """Holds everybody while most calls fail.

    Closed, it lets everybody in and counts how calls end, over the last `window` seconds: DONE is a success, OVERLOADED
    is a failure, and so is an error for which `failed` says True. Anything else (cancelled, the caller's own mistake)
    counts as neither. Once `least` calls have ended in the window and at least `share` of them failed, it opens.

    Open, nobody enters for `pause` seconds. The delay is exact, and so a good `Retry-After`; a class whose objectives
    cannot wait that long is refused at once. Then `probes` calls may enter: one that fails opens it again, for `factor`
    times as long as before, up to `maximum`. Once as many went well (or gave their first result), rounds of twice as
    many follow, until a round is never full, and it is closed, with an empty window. A probe that is cancelled, undone
    or ends as neither returns its place.

    Calls that entered before it opened say nothing any more: an old success does not close it, an old failure does not
    lengthen the pause. Whoever gets an answer such as 429 with a time to wait wants a `Cooldown` beside it: that acts
    at the first one.

    Args:
        share: of failures among the calls that ended, at which it opens; above 0, up to 1. Default 0.5.
        window: seconds over which calls are counted. Default 30.
        least: how many calls must have ended in the window before the share means anything. Default 10.
        probes: how many may look whether it is whole again. Default 3.
        pause: seconds for which it stays open at first. Default 5.
        factor: how much longer each further pause is; 1 or more. Default 2.
        maximum: the longest pause, in seconds. Default 60.
        failed: `failed(error) -> bool`, asked about the error of a call that ended IGNORED. Default
            `andante.trouble.broken`: connections that fail, and HTTP statuses of 500 and above.
        name: what metrics and errors call it. Default "breaker".

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(
        self,
        share: float = 0.5,
        window: Seconds = 30.0,
        probes: int = 3,
        *,
        least: int = 10,
        pause: Seconds = 5.0,
        factor: float = 2.0,
        maximum: Seconds = 60.0,
        failed: Callable[[BaseException], bool] = broken,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.share = finite(share, "share", above=True)
        if self.share > 1:
            raise ConfigurationError(f"share must be above 0 and at most 1, not {share!r}", path="share")
        self.window = finite(seconds(window, "window", positive=True), "window")
        self.least = whole(least, "least", 1)
        self.probes = whole(probes, "probes", 1)
        self.pause = finite(seconds(pause, "pause", positive=True), "pause")
        self.factor = finite(factor, "factor", least=1.0)
        self.maximum = finite(seconds(maximum, "maximum", positive=True), "maximum")
        if self.maximum < self.pause:
            raise ConfigurationError(
                f"maximum must be at least pause ({self.pause:g} s), not {self.maximum:g} s", path="maximum"
            )
        if not callable(failed):
            raise ConfigurationError(f"failed must be a function of an error, not {failed!r}", path="failed")
        self._failed = failed
        self._reported = False  # that `failed` raised
        self._pieces: deque[list[float]] = deque()  # [when it began, calls that ended, of these failures]
        self._closed = True
        self._until = -inf  # when the pause ends
        self._length = self.pause  # of the latest pause
        self._ramp = Ramp(self.probes, 2.0)
        self._seen = -inf  # the time of the latest exit

    # The gate. ------------------------------------------------------------------------------------------------------

    def delay(self, entry: Entry, now: float) -> float:
        if self._closed:
            return 0.0
        return self._paused(now) or (inf if self._ramp.full else 0.0)

    def enter(self, entry: Entry, now: float) -> None:
        if not self._closed and not self._paused(now):
            self._ramp.enter(entry)

    def progress(self, entry: Entry, items: float, now: float) -> None:
        """The first result of a probe is as good as its end: a stream may take minutes."""
        if not self._closed:
            self._went_well(entry)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        self._anchor(now)
        self._seen = max(self._seen, now)
        verdict = self._verdict(outcome)
        if self._closed:
            if verdict is not None:
                self._count(verdict, now)
        elif verdict is True:
            self._went_well(entry)
        elif verdict is False and entry in self._ramp:
            self._length = min(self.maximum, self._length * self.factor)
            self._open(now)
        self._ramp.gone(entry)

    def undo(self, entry: Entry, now: float) -> None:
        self._ramp.gone(entry)

    def snapshot(self, now: float) -> dict[str, Any]:
        """`state` ("closed", "open", "probing", "ramping"), `failures` (their share in the window; None where too few
        calls ended), `until` (absolute, or None), `limit` and `inside` (while probing and ramping), `headroom`."""
        ended, failed = self._totals(now)
        failures = failed / ended if ended >= self.least else None
        if self._closed:
            return {"state": "closed", "failures": failures, "until": None, "headroom": 1.0}
        if left := self._paused(now):
            return {"state": "open", "failures": failures, "until": now + left, "headroom": 0.0}
        ramp = self._ramp
        state = "probing" if ramp.first_round else "ramping"
        return {
            "state": state,
            "failures": failures,
            "until": None,
            "limit": ramp.size,
            "inside": ramp.inside,
            "headroom": ramp.headroom,
        }

    # ----------------------------------------------------------------------------------------------------------------

    def _verdict(self, outcome: Outcome) -> bool | None:
        """True: it went well; False: it failed; None: it says nothing."""
        if outcome.ending is _DONE:
            return True
        if outcome.ending is _OVERLOADED:
            return False
        error = outcome.error
        if not isinstance(error, Exception):
            return None
        try:
            return False if self._failed(error) else None
        except Exception:
            if not self._reported:
                self._reported = True
                _log.exception("failed of breaker %r raised; such calls count as neither", self.name)
            return None

    def _went_well(self, entry: Entry) -> None:
        if self._ramp.well(entry):
            self._closed, self._length = True, self.pause
            self._pieces.clear()

    def _open(self, now: float) -> None:
        self._closed = False
        self._until = now + self._length
        self._ramp.begin()
        self._pieces.clear()

    def _count(self, well: bool, now: float) -> None:
        pieces = self._pieces
        if not pieces or now >= pieces[-1][0] + self.window / _PIECES:
            pieces.append([now, 0.0, 0.0])
        pieces[-1][1] += 1
        pieces[-1][2] += not well
        while pieces[0][0] <= now - self.window:
            pieces.popleft()
        ended, failed = self._totals(now)
        if ended >= self.least and failed >= self.share * ended:
            self._open(now)

    def _paused(self, now: float) -> float:
        """Seconds left of the pause; 0 where the clock cannot express them."""
        self._anchor(now)
        wait = self._until - now
        return wait if wait >= _TINY and now + wait > now else 0.0

    def _anchor(self, now: float) -> None:
        """A clock that was started anew: what was counted on the old one moves with it."""
        back = self._seen - now
        if back > _BACK:
            self._until -= back
            self._seen = now
            for piece in self._pieces:
                piece[0] -= back

    def _totals(self, now: float) -> tuple[float, float]:
        """How many calls ended in the window, and how many of them failed."""
        recent = [piece for piece in self._pieces if piece[0] > now - self.window]
        return sum(piece[1] for piece in recent), sum(piece[2] for piece in recent)

    def __repr__(self) -> str:
        if self._closed:
            ended, failed = self._totals(self._seen)
            return f"<Breaker {self.name!r}: closed, {failed:g} of {ended:g} failed>"
        if self._until - self._seen >= _TINY:
            return f"<Breaker {self.name!r}: open, {self._until - self._seen:.3g} s left at the last exit>"
        return f"<Breaker {self.name!r}: {self._ramp.inside} of {self._ramp.size} inside after a pause>"
