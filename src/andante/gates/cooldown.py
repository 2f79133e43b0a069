"""The server said "slow down": everybody on this limit stays away, then one tries, then a few, then all."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.gates.parameters import finite
from andante.gates.ramp import Ramp
from andante.values import Ending, Seconds, seconds

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.values import Outcome

_DONE, _OVERLOADED = Ending.DONE, Ending.OVERLOADED
_TINY = 1e-7  # seconds: a delay below this is none
_BACK = 1.0  # seconds: a clock that goes back further than this was started anew


class Cooldown(Gate):
    """A pushback that one call hears holds every call on the same limit.

    Open, it lets everybody in. A call that leaves OVERLOADED begins a **hold**: nobody enters for as long as the server
    asked (`outcome.retry_after`), or, where it asked for nothing, for `initial` seconds. Of several holds the one that
    ends last counts. The delay during a hold is exact and so a good `Retry-After`.

    After the hold **one probe** enters; the others wait for how it ends. A probe that is cancelled, undone or ends
    IGNORED returns its place, and the next call probes. A probe pushed back begins the next hold, `factor` times as
    long as the last, up to `maximum` (or as the server asks, where that is longer).

    A probe that is DONE, or whose first result comes, begins the **ramp**, in rounds of 2, 4, 8, ... (each `ramp` times
    the last): in a round of n, n of the new calls may be inside, and after n of them went well the next round begins.
    The gate is open again after a round that was never full, for then nobody was held back who could now storm in. A
    new call that is pushed back ends the ramp as it ends the probe.

    Calls that entered before the hold tell nothing new: they do not count as probes when they end well, and do not
    lengthen the next hold when they are pushed back too, unless the server asks for a longer one.

    A time-out counts as a pushback without a wait, and so does a `DeadlineOverrun`: a caller's own deadline that ran
    out while the backend worked. Where some callers have deadlines that healthy calls miss, let the admission's
    `classify` say IGNORED for it, or leave this gate out.

    Args:
        initial: seconds of the first hold where the server asked for none; finite, above 0. Default 1.
        factor: how much longer each hold is when the calls after the last one were pushed back; 1 or more. Default 2.
        maximum: the longest hold of that sort, in seconds. Default 60.
        ramp: how much larger each round is than the last; above 1. Default 2.
        maximum_hold: the longest hold that a server is granted, in seconds; longer ones, infinite too, are cut to it.
            A server's wait that is negative or no number counts as none. Default 3,600.
        name: what metrics and errors call it. Default "cooldown".

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(
        self,
        *,
        initial: Seconds = 1.0,
        factor: float = 2.0,
        maximum: Seconds = 60.0,
        ramp: float = 2.0,
        maximum_hold: Seconds = 3600.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.initial = finite(seconds(initial, "initial", positive=True), "initial")
        self.factor = finite(factor, "factor", least=1.0)
        self.maximum = finite(seconds(maximum, "maximum", positive=True), "maximum")
        self.ramp = finite(ramp, "ramp", least=1.0, above=True)
        self.maximum_hold = finite(seconds(maximum_hold, "maximum_hold", positive=True), "maximum_hold")
        if self.maximum < self.initial:
            raise ConfigurationError(
                f"maximum must be at least initial ({self.initial:g} s), not {self.maximum:g} s", path="maximum"
            )
        self._open = True
        self._until = -inf  # when the hold ends
        self._backoff = self.initial  # the length of the latest hold of our own choice
        self._ramp = Ramp(1, self.ramp)  # the calls that entered after the hold
        self._seen = -inf  # the time of the latest exit
        self._left: float | None = None  # seconds left of a hold from before a restart, until the clock is seen

    # The gate. ------------------------------------------------------------------------------------------------------

    def delay(self, entry: Entry, now: float) -> float:
        if self._open:
            return 0.0
        return self._held(now) or (inf if self._ramp.full else 0.0)

    def enter(self, entry: Entry, now: float) -> None:
        if not self._open and not self._held(now):
            self._ramp.enter(entry)

    def progress(self, entry: Entry, items: float, now: float) -> None:
        """The first result of a new call is as good as its end: a stream may take minutes."""
        if not self._open:
            self._well(entry)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        ending = outcome.ending
        if self._open and ending is not _OVERLOADED:
            return
        self._see(now)
        if ending is _OVERLOADED:
            self._pushed_back(entry in self._ramp, self._asked(outcome.retry_after), now)
            return
        if ending is _DONE:
            self._well(entry)
        self._ramp.gone(entry)

    def undo(self, entry: Entry, now: float) -> None:
        self._ramp.gone(entry)

    def hold(self, wait: Seconds, now: float) -> None:
        """Hold everybody for `wait` seconds from `now`, and then probe: for pushback that no call's outcome told.

        Shorter than a hold that is on, it changes nothing. `maximum_hold` applies. Raises ConfigurationError for a
        negative wait or NaN.
        """
        self._see(now)
        self._begin(now + min(seconds(wait, "wait"), self.maximum_hold))
        self.changed()

    def snapshot(self, now: float) -> dict[str, Any]:
        """`state` ("open", "holding", "probing", "ramping"), `until` (absolute, or None), `limit` and `inside` (of new
        calls, while probing and ramping), `headroom`."""
        if self._open:
            return {"state": "open", "until": None, "headroom": 1.0}
        left = self._until - now if self._left is None else self._left
        if left >= _TINY:
            return {"state": "holding", "until": now + left, "headroom": 0.0}
        ramp = self._ramp
        return {
            "state": "probing" if ramp.first_round else "ramping",
            "until": None,
            "limit": ramp.size,
            "inside": ramp.inside,
            "headroom": ramp.headroom,
        }

    def dump(self) -> dict[str, Any]:
        """Nothing while open, else the `backoff` reached and the seconds `left` of the hold. These are as of the last
        exit, so that a restart may lengthen a hold and never shortens it."""
        if self._open:
            return {}
        left = self._left if self._left is not None else max(0.0, self._until - self._seen)
        return {"left": left, "backoff": self._backoff}

    def load(self, state: dict[str, Any], age: float) -> None:
        """Go on with a hold, `age` seconds later, from the moment the gate is next asked; then probe."""
        age = finite(age, "age")
        if "left" not in state:
            return
        left = finite(state["left"], "left")
        self._begin(-inf)
        self._backoff = min(max(finite(state.get("backoff", self.initial), "backoff"), self.initial), self.maximum)
        self._left = max(0.0, min(left, max(self.maximum_hold, self.maximum)) - age)

    # ----------------------------------------------------------------------------------------------------------------

    def _asked(self, retry_after: object) -> float | None:
        """What the server asked for, as far as it makes sense."""
        if isinstance(retry_after, bool) or not isinstance(retry_after, (int, float)) or not retry_after >= 0:
            return None
        return float(min(retry_after, self.maximum_hold))

    def _pushed_back(self, new: bool, asked: float | None, now: float) -> None:
        if self._open:
            self._begin(now + (self.initial if asked is None else asked))
        elif new:
            self._backoff = min(self.maximum, self._backoff * self.factor)
            self._begin(now + max(self._backoff, asked or 0.0))
        elif asked is not None:
            self._begin(now + asked)

    def _begin(self, until: float) -> None:
        self._open = False
        self._until = max(self._until, until)
        self._ramp.begin()

    def _well(self, entry: Entry) -> None:
        if self._ramp.well(entry):
            self._open, self._until, self._backoff = True, -inf, self.initial

    def _held(self, now: float) -> float:
        """Seconds left of the hold; 0 where the clock cannot express them."""
        self._anchor(now)
        wait = self._until - now
        return wait if wait >= _TINY and now + wait > now else 0.0

    def _see(self, now: float) -> None:
        self._anchor(now)
        self._seen = max(self._seen, now)

    def _anchor(self, now: float) -> None:
        """The first time seen after a restart, or on a clock that was started anew."""
        if self._left is not None:
            self._until, self._left, self._seen = now + self._left, None, now
        elif now < self._seen - _BACK:
            self._until += now - self._seen
            self._seen = now

    def __repr__(self) -> str:
        if self._open:
            return f"<Cooldown {self.name!r}: open>"
        left = self._left if self._left is not None else self._until - self._seen
        if left >= _TINY:
            return f"<Cooldown {self.name!r}: holding, {left:.3g} s left at the last exit>"
        return f"<Cooldown {self.name!r}: {self._ramp.inside} of {self._ramp.size} inside after a hold>"
