"""The backend's own word on its memory, where somebody reads it: an extra ceiling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gates.natural_pace.part import Part
from andante.reading import Signal
from andante.values import is_number

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.gates.natural_pace.memory import Ceiling
    from andante.values import Outcome

_log = logging.getLogger(__name__)

CLOSE_AT = 0.92  # of the memory for contexts (vLLM's KV cache usage): no start above
STALL_AT = 0.97  # above, calls are about to be put aside: as good as a stall that was seen


class EngineMemory(Part):
    """No start while the signal says that more than `close_at` of the memory is in use; a stall above `STALL_AT`.

    A reading that is missing, no number, or older than `stale_after` seconds says nothing: this part is then out of the
    way, the others go on by what they see, and `snapshot` says `blind`.
    """

    name = "engine_memory"

    def __init__(
        self, signal: Signal, ceiling: Ceiling, *, close_at: float = CLOSE_AT, stale_after: float = 5.0
    ) -> None:
        super().__init__()
        if not isinstance(signal, Signal):
            raise ConfigurationError(f"memory must have read() -> Reading, not {signal!r}", path="memory")
        for what, number, most in (("memory_close_at", close_at, 1.0), ("memory_stale_after", stale_after, 3600.0)):
            if not is_number(number) or not 0 < number <= most:
                raise ConfigurationError(f"{what} must be above 0 and at most {most:g}, not {number!r}", path=what)
        self.signal = signal
        self.close_at = close_at
        self.stale_after = stale_after
        self._ceiling = ceiling
        self._failed = False

    def _used(self, now: float) -> float | None:
        try:
            return self.signal.read().known(now, self.stale_after)
        except Exception:  # it is asked while a call enters: an error here would leave the call half inside
            if not self._failed:
                self._failed = True
                _log.exception("%r cannot be read; %s goes on without it", self.signal, self.name)
            return None

    def room(self, entry: Entry, now: float) -> bool:
        used = self._used(now)
        return used is None or used <= self.close_at

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        self._look(now)

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        self._look(now)

    def _look(self, now: float) -> None:
        used = self._used(now)
        if used is not None and used > STALL_AT:
            self._ceiling.stall(now)

    def snapshot(self, now: float) -> dict[str, Any]:
        """`used` (share of the memory; None while blind), `blind`."""
        used = self._used(now)
        return {"used": used, "blind": used is None}
