"""A rate: so many requests or tokens a second, minute, hour or day."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Literal

from andante.errors import ConfigurationError, CostTooLarge
from andante.gate import Gate
from andante.gates.parameters import Unit, finite, flag, measure
from andante.gates.window import SlidingWindow

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.values import Outcome

Period = Literal["second", "minute", "hour", "day"]

_PERIODS: dict[str, float] = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_TINY = 1e-7  # seconds: a delay below this is none
_BACK = -1.0  # seconds: a clock that goes back further than this was started anew
_UNSEEN = inf  # the stamp of a level that no time belongs to yet


class TokenBucket(Gate):
    """At most `rate` units per period, with at most `burst` at once after idling.

    A bucket of `burst` units fills at the rate. A call goes in when what it reserves is there, takes it, and settles
    when it leaves: a surplus comes back (never above the burst), a deficit is charged and may leave a debt that the
    next calls wait for. So nobody enters on an empty bucket, and only a settlement empties it further. It is the
    generic cell rate algorithm (ITU-T I.371), kept as a level and the time of that level.

    **What a window can hold.** Any window of T seconds holds at most `burst + rate * (T + 10 ms)` units, plus what
    calls used beyond their reservation; the 10 ms are lateness of an event loop's timers, which is repaid. So with the
    default burst a limit of 60 requests per minute lets at most 61 into any minute, and a token limit, whose default
    burst is one period's rate, at most twice its rate after idling. Where the other side counts strictly, say
    `strict_window=True`.

    **`strict_window=True`**: besides, no half-open window of one period ever holds more than `rate` units, each
    counted when its call entered (a deficit: when it was settled). The period is cut into 1,024 slots, and a slot
    counts until it has been over for a whole period: memory stays bounded, and a steady demand gets at least
    1,024/1,025 (99.9 %) of the rate. Lateness is not repaid, since that could overfill a window: with `burst=1` each
    late timer (about 1 ms on asyncio) is lost, so give a high rate a burst of some milliseconds' worth.

    Args:
        rate: units per period; finite, above 0. May be set while calls wait: what was earned stays, and everybody who
            waits is planned anew. The change counts from the moment the gate is next asked, which is at once where
            somebody waits; until then the lower of both rates holds. Set it in the thread of the admission.
        per: the period, "second", "minute", "hour" or "day".
        unit: what is counted: "requests", "tokens" (input and output), "input_tokens" or "output_tokens".
        burst: the most units that may go in at once; finite, above 0. A call that asks for more is refused at once
            (`CostTooLarge`); one that asks for 0 is free. Default 1 for requests; for tokens one period's rate, also
            when that changes. May be set while calls wait, like the rate.
        strict_window: see above. Default False.
        count_cached: whether input tokens that the backend had cached count. Default True.
        name: what metrics and errors call it. Default "token_bucket".

    Raises:
        ConfigurationError: for a value that makes no sense, naming it.
    """

    def __init__(
        self,
        rate: float,
        per: Period = "second",
        *,
        unit: Unit = "requests",
        burst: float | None = None,
        strict_window: bool = False,
        count_cached: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if per not in _PERIODS:
            raise ConfigurationError(f"per must be one of {', '.join(_PERIODS)}, not {per!r}", path="per")
        self.per: Period = per
        self.unit: Unit = unit
        self._measure = measure(unit, count_cached=flag(count_cached, "count_cached"))
        self._by_request = unit == "requests"
        self._period = _PERIODS[per]
        self._window = SlidingWindow(self._period) if flag(strict_window, "strict_window") else None
        self.repays_lateness = self._window is None
        self._rate, self._per_second = self._checked(rate)
        self._given_burst = None if burst is None else finite(burst, "burst", above=True)
        self._burst = self._most = 0.0
        self._level = inf
        self._stamp = _UNSEEN
        self._before: tuple[float, float, float] | None = None  # stamp, lowest rate and burst, until a time is seen
        self._resize()

    # What may be set while calls wait. ------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Units per period."""
        return self._rate

    @rate.setter
    def rate(self, value: float) -> None:
        rate, per_second = self._checked(value)
        self._change(rate, per_second, self._given_burst)

    @property
    def burst(self) -> float:
        """The most units that may go in at once."""
        return self._burst

    @burst.setter
    def burst(self, value: float) -> None:
        self._change(self._rate, self._per_second, finite(value, "burst", above=True))

    @property
    def strict_window(self) -> bool:
        """Whether no window of the period may hold more than the rate."""
        return self._window is not None

    # The gate. ------------------------------------------------------------------------------------------------------

    def delay(self, entry: Entry, now: float) -> float:
        cost = entry.cost
        need = cost.requests if self._by_request else self._measure(cost)
        elapsed = now - self._stamp
        if elapsed > 0.0:
            short = need - self._level - elapsed * self._per_second
        else:
            if elapsed < _BACK:
                self._anchor(now)
            short = need - self._level
        if short <= 0.0 and need <= self._most and self._window is None:
            return 0.0
        return self._wait(entry, need, short, now)

    def enter(self, entry: Entry, now: float) -> None:
        cost = entry.cost
        need = cost.requests if self._by_request else self._measure(cost)
        elapsed = now - self._stamp
        if elapsed > 0.0:
            level = self._level + elapsed * self._per_second
            self._level = (level if level < self._burst else self._burst) - need
            self._stamp = now
        else:
            if elapsed < _BACK:
                self._anchor(now)
            self._level -= need
        if self._window is not None:
            self._window.enter(entry, need, now)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        cost, reserved = outcome.cost, entry.cost
        if cost is not reserved or self._window is not None:
            surplus = 0.0 if cost is None else self._measure(reserved) - self._measure(cost)
            if surplus or self._window is not None:
                self._give_back(entry, surplus, now)

    def undo(self, entry: Entry, now: float) -> None:
        self._give_back(entry, self._measure(entry.cost), now)

    def snapshot(self, now: float) -> dict[str, Any]:
        """`rate`, `per`, `unit`, `burst`, `level` (units there now; negative: debt), `debt`; `headroom` where the burst
        is a second's worth of the rate or more (a smaller one is empty after every call, and says nothing); under
        strict_window also `window_used` (units of the current window)."""
        level = self._level_at(now)
        share = level / self._burst
        state = {
            "rate": self._rate,
            "per": self.per,
            "unit": self.unit,
            "burst": self._burst,
            "level": level,
            "debt": -level if level < 0.0 else 0.0,
        }
        if self._window is not None:
            used = state["window_used"] = self._window.used(now)
            share = min(share, 1.0 - used / self._rate)
        if self._window is not None or self._burst >= self._per_second:
            state["headroom"] = max(0.0, share)
        return state

    def dump(self) -> dict[str, Any]:
        """The level as of the last entry or exit; under strict_window also what is in the window."""
        return {"level": self._level} | ({} if self._window is None else {"window": self._window.dump()})

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over a level; it has been filling for `age` seconds, and goes on from the moment it is next asked."""
        age = finite(age, "age")
        level = finite(state.get("level", self._burst), "level", least=-1e300)
        if self._window is not None:
            self._window.load(state.get("window", []), age)
        self._level = min(self._burst, level + age * self._per_second)
        self._stamp, self._before = _UNSEEN, None

    # ----------------------------------------------------------------------------------------------------------------

    def _wait(self, entry: Entry, need: float, short: float, now: float) -> float:
        """The delay, where it is not simply 0."""
        if not need:
            return 0.0
        if need > self._most:
            raise CostTooLarge(
                f"the call asks {self.name} for {need:g} {self.unit}, which never holds more than {self._most:g} "
                f"(rate {self._rate:g} per {self.per}, burst {self._burst:g}): split the call, or enlarge the "
                f"{'burst' if need > self._burst else 'rate'}",
                gate=self.name,
                service=entry.service,
            )
        wait = short / self._per_second if short > 0.0 else 0.0
        if self._window is not None:
            wait = max(wait, self._window.delay(need, self._rate, now))
        # A wait that the clock cannot express would never end.
        return wait if wait >= _TINY and now + wait > now else 0.0

    def _give_back(self, entry: Entry, surplus: float, now: float) -> None:
        """A surplus comes back, up to the burst; a deficit (negative) is charged, into debt if need be."""
        elapsed = now - self._stamp
        if elapsed < _BACK:
            self._anchor(now)
        level = self._level + elapsed * self._per_second if elapsed > 0.0 else self._level
        if level <= self._burst and level + surplus <= self._burst:
            self._level += surplus  # the stamp stays: a late step may ask as of a moment before now
        else:
            self._level = min(self._burst, min(self._burst, level) + surplus)
            self._stamp = max(self._stamp, now)
        if self._window is not None:
            self._window.leave(entry, surplus, now)

    def _level_at(self, now: float) -> float:
        since, per_second, burst = self._before or (self._stamp, self._per_second, self._burst)
        return min(burst, self._level + max(0.0, now - since) * per_second)

    def _anchor(self, now: float) -> None:
        """The first time seen: after a start, a restart, a change of the rate, or on a clock that was started anew."""
        self._level, self._stamp, self._before = self._level_at(now), now, None
        if self._window is not None:
            self._window.anchor(now)

    def _checked(self, rate: float) -> tuple[float, float]:
        rate = finite(rate, "rate", above=True)
        per_second = rate / self._period
        if not per_second:
            raise ConfigurationError(
                f"rate must be more than {rate:g} per {self.per}, which is 0 to a float", path="rate"
            )
        return rate, per_second

    def _change(self, rate: float, per_second: float, given_burst: float | None) -> None:
        """New limits. When they came is not known before a time is seen again; until then the lower ones count."""
        since, slowest, least = self._before or (self._stamp, self._per_second, self._burst)
        self._rate, self._per_second, self._given_burst = rate, per_second, given_burst
        self._resize()
        self._before = (since, min(slowest, per_second), min(least, self._burst))
        self._stamp = _UNSEEN
        self.changed()

    def _resize(self) -> None:
        """The burst, after it or the rate was set. A level above it is cut, one below it stays."""
        default = 1.0 if self._by_request else self._rate
        self._burst = default if self._given_burst is None else self._given_burst
        self._most = self._burst if self._window is None else min(self._burst, self._rate)
        self._level = min(self._level, self._burst)

    def __repr__(self) -> str:
        strict = ", strict window" if self._window is not None else ""
        return (
            f"<TokenBucket {self.name!r}: {self._rate:g} {self.unit} per {self.per}, burst {self._burst:g}{strict}, "
            f"level {self._level if abs(self._level) > _TINY else 0.0:.4g} when last used>"
        )
