"""A signal that says what a test tells it to say."""

from __future__ import annotations

from andante.reading import NEVER, Reading


class ScriptedSignal:
    """Says what it was told last; nothing at all at first.

    Args:
        source: what its readings call it.
    """

    def __init__(self, source: str = "scripted") -> None:
        self.source = source
        self._reading = NEVER

    def say(self, value: float | None, at: float) -> None:
        """From now on: `value` (None: missing), read at `at` (seconds). It grows stale until it is told anew."""
        self._reading = Reading(value, at, self.source)

    def read(self) -> Reading:
        """What it was told last."""
        return self._reading

    def __repr__(self) -> str:
        return f"<ScriptedSignal {self.source!r}: {self._reading.value!r} at {self._reading.at:g}>"
