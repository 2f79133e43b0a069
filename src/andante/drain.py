"""How fast the calls of a class move up while they wait. Pure."""

from __future__ import annotations

from math import exp


class DrainRate:
    """Calls a second that leave a lane for the inside, measured only while calls wait in it.

    A sum and a time, both forgotten with the time constant `memory` (seconds): what the class may wait, so that a
    trough is believed to come back. Unknown until calls have waited for a third of that.
    """

    __slots__ = ("_grain", "_since", "_sum", "_time", "memory")

    def __init__(self, memory: float = 60.0) -> None:
        self._since: float | None = None
        self._set(memory)

    def remember(self, memory: float) -> None:
        """Forget by this time constant from now on, and everything if it is another one."""
        if memory != self.memory:
            self._set(memory)

    def begin(self, now: float) -> None:
        """From now on, calls wait."""
        self._since = now

    def pause(self, now: float) -> None:
        """From now on, none waits."""
        self._pass(now)
        self._since = None

    def count(self, now: float) -> None:
        """One that waited has started."""
        if self._since is not None and now - self._since > self._grain:
            self._pass(now)
        self._sum += 1

    def rate(self, now: float) -> float | None:
        """Calls a second, or None where too little is known."""
        if self._since is not None and now - self._since > self._grain:
            self._pass(now)
        return self._sum / self._time if self._time > self.memory / 3 else None

    def _set(self, memory: float) -> None:
        self.memory = memory
        self._grain = 1e-4 * memory  # steps smaller than that are taken together, which is as exact and saves exp()
        self._sum = self._time = 0.0

    def _pass(self, now: float) -> None:
        if self._since is None or now <= self._since:
            return
        kept = exp((self._since - now) / self.memory)
        self._sum *= kept
        self._time = self._time * kept + self.memory * (1 - kept)
        self._since = now
