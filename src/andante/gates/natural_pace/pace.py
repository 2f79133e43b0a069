"""The parts together: the natural pace of one backend, in the mode that fits what can be seen of it."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

from andante.gates.natural_pace.engine_memory import CLOSE_AT, EngineMemory
from andante.gates.natural_pace.intertoken import Company
from andante.gates.natural_pace.knee import Bend
from andante.gates.natural_pace.memory import Ceiling
from andante.gates.natural_pace.part import PartsGate
from andante.gates.natural_pace.prefill import Window
from andante.gates.natural_pace.rhythm import Rhythm
from andante.gates.natural_pace.slots import Slots
from andante.gates.natural_pace.twin import Twin
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.gates.natural_pace.part import Part
    from andante.reading import Signal
    from andante.service import ServiceClass
    from andante.values import Outcome

_log = logging.getLogger(__name__)

FIRST, STREAMS, WHOLE = "first call", "streams", "whole calls"
_CROWD, _ONE_MORE = 4, 1.0  # calls inside before anything was seen, and seconds for each
_SILENT = 24  # calls in a row without a word before their end: streams are over


class NaturalPace(PartsGate):
    """Lets in as many calls as the backend can carry within the classes' objectives, without being told a number.

    It looks at what whoever makes the calls can see, and works in the mode that this allows:

    - *streams* (calls report their output: `guard` does it for generators and SDK streams, `permit.progress` by hand):
      **inter-token gate** (with one more, the gap between tokens stays under a share of the smallest `itl` objective,
      and company still pays), **prefill window** (prompts on their way give their first results within 0.4 of the
      smallest `ttft` objective, at most 0.5 s), **memory ceiling** (what is inside stays under a ceiling that is cut
      when a stream stands still while the others go on), **slots** (a backend that queues inside is not overfilled).
    - *whole calls* (nothing is seen but starts and ends): the **twin**, a small model of the backend that is learned
      from the ends, in place of gate and window. The weaker mode where memory runs out or calls queue inside.
    - without any `itl` objective the **knee** stands in for the inter-token gate, in both: the number inside at which
      one more buys no throughput. Uniform backends (embeddings) need nothing else.

    In every mode the **rhythm** lets no more than twice the pace and one start in any 100 ms, so that what a stall or a
    burst has held back is seen a few at a time. Which mode it is shows in `repr`, in the snapshot and in the log. Until
    the first call has told something, one call is inside, and one more each second, up to four. The less urgent classes
    stop a little earlier: that is the headroom. Its forecasts of the first result and of the end let the line refuse
    what would be late.

    Prompt sizes are `Cost.input_tokens` (wrong by a factor of two does little harm); output lengths are learned per
    class. One gateway per backend.

    Args:
        memory: a `Signal` with the share (0 to 1) of the backend's memory for contexts that is in use, such as vLLM's
            KV cache usage: an extra ceiling, and worth having for whole calls. Default: none.
        memory_close_at: no start above that share. Default 0.92.
        memory_stale_after: seconds after which a reading says nothing any more. Default 5.
        name: what metrics and errors call it. Default "natural_pace".

    Raises:
        ConfigurationError: for a `memory` without `read()`, or a bound that is no share or no time.
    """

    def __init__(
        self,
        *,
        memory: Signal | None = None,
        memory_close_at: float = CLOSE_AT,
        memory_stale_after: float = 5.0,
        name: str | None = None,
    ) -> None:
        self._company, self._window, self._ceiling, self._slots = Company(), Window(), Ceiling(), Slots()
        self._twin, self._knee, self._rhythm = Twin(), Bend(), Rhythm()
        self._told = (
            ()
            if memory is None
            else (EngineMemory(memory, self._ceiling, close_at=memory_close_at, stale_after=memory_stale_after),)
        )
        self.mode = FIRST
        self._knew = True  # whether the calls told their output tokens, when last looked at
        self._gaps = self._firsts = False  # whether any class has an itl objective, a ttft objective
        super().__init__(
            self._company,
            self._window,
            self._ceiling,
            self._slots,
            self._twin,
            self._knee,
            *self._told,
            self._rhythm,
            name=name,
        )

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        super().bind(classes)
        self._gaps = any(c.itl is not None for c in classes)
        self._firsts = any(c.ttft is not None for c in classes)
        self.use(*self._parts_for(self.mode))

    def _parts_for(self, mode: str) -> tuple[Part, ...]:
        blind = mode == WHOLE and self._twin.law.ended > 0 and not self._twin.told  # gaps cannot be told from ends
        knee = () if self._gaps and not blind else (self._knee,)
        streams = (*((self._company,) if self._gaps else ()), self._window, self._ceiling, self._slots)
        whole = (self._twin,) if self._gaps or self._firsts else ()
        if mode == STREAMS:
            return (*streams, *knee, *self._told, self._rhythm)
        if mode == WHOLE:
            return (*whole, *knee, *((self._ceiling,) if self._told else ()), *self._told, self._rhythm)
        return (*streams, *whole, *knee, *self._told, self._rhythm)

    def _turn(self, mode: str) -> None:
        self.mode = mode
        self.use(*self._parts_for(mode))
        _log.info("%s works by %s: %s", self.name, mode, ", ".join(part.name for part in self.parts))

    # Deciding. ------------------------------------------------------------------------------------------------------

    def delay(self, entry: Entry, now: float) -> float:
        if self.mode is FIRST:
            return 0.0 if self._first_may(now) else inf
        return super().delay(entry, now)

    def _first_may(self, now: float) -> bool:
        """No evidence, no crowd: one call, and one more a second, up to four."""
        oldest = next(iter(self.flow.streams.values()), None)
        return oldest is None or len(self.flow.streams) < min(_CROWD, 1 + (now - oldest.started) // _ONE_MORE)

    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        flow = self.flow
        if not flow.streams:
            return 0.0, 0.0  # it starts: a forecast that is wrong could never be put right, were all refused by it
        if self.mode is WHOLE:
            if not (self._gaps or self._firsts):
                return 0.0, flow.expects(entry) * flow.per_token
            first = self._twin.first_result(flow.prompt(entry), now)
            return first, first + flow.expects(entry) * max(flow.per_token, self._twin.itl(now))
        first = self._window.forecast(entry, now)
        return first, first + flow.expects(entry) * max(flow.per_token, self._company.now())

    def haunts(self, now: float) -> float:
        return self._window.line.predict(self.flow.ahead_at(now)) if self.mode is STREAMS else 0.0

    # Seeing. --------------------------------------------------------------------------------------------------------

    def streams(self) -> None:
        if self.mode is not STREAMS:
            self._turn(STREAMS)

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        super().leave(entry, outcome, now)
        quiet = self.flow.quiet
        if self.mode is WHOLE and self._knew != self._twin.told:
            self._knew = self._twin.told
            self.use(*self._parts_for(WHOLE))
        if quiet and (self.mode is FIRST or (self.mode is STREAMS and quiet >= _SILENT)):
            self._turn(WHOLE)

    # People and restarts. -------------------------------------------------------------------------------------------

    def binds(self, now: float) -> str | None:
        if self.mode is FIRST:
            return None if self._first_may(now) else "first_call"
        return super().binds(now)

    def snapshot(self, now: float) -> dict[str, Any]:
        """As its parts, and `mode`."""
        return {"mode": self.mode, **super().snapshot(now)}

    def dump(self) -> dict[str, Any]:
        """The mode, the line of first results, the shares, the ceiling, the twin and the knee."""
        line = self._window.line
        ceiling = self._ceiling.ceiling
        return {
            "mode": WHOLE if self.mode is WHOLE else FIRST,  # streams tell at once that they are
            "alpha": line.alpha,
            "beta": line.beta,
            "share": self._company.share.value,
            "late": self._company.late.value,
            "ceiling": None if ceiling == inf else ceiling,
            "twin": self._twin.dump(),
            "knee": self._knee.dump(),
        }

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over what `dump` gave; a ceiling older than ten minutes is forgotten. Nonsense in `state` is ignored."""
        alpha, beta = state.get("alpha"), state.get("beta")
        if is_number(alpha) and is_number(beta) and 0 <= alpha < inf and 0 < beta < inf:
            self._window.line.restore(float(alpha), float(beta))
        for name, share in (("share", self._company.share), ("late", self._company.late)):
            value = state.get(name)
            if is_number(value) and 0.3 <= value <= share.most:
                share.value = float(value)
        ceiling = state.get("ceiling")
        self._ceiling.ceiling = float(ceiling) if is_number(ceiling) and 0 < ceiling < inf and age <= 600 else inf
        for part, name in ((self._twin, "twin"), (self._knee, "knee")):
            if isinstance(saved := state.get(name), dict):
                part.load(saved, age)
        mode = state.get("mode")
        if mode == WHOLE and age <= 600:
            self._turn(WHOLE)

    def __repr__(self) -> str:
        flow = self.flow
        return f"<NaturalPace {self.name!r}, {self.mode}: {flow.inside} inside, {flow.ahead:g} tokens ahead>"
