"""The parts together: the natural pace of one backend."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gates.natural_pace.intertoken import Company
from andante.gates.natural_pace.memory import Ceiling
from andante.gates.natural_pace.part import PartsGate
from andante.gates.natural_pace.prefill import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.service import ServiceClass


class NaturalPace(PartsGate):
    """Lets in as many streams as the backend can carry within the classes' objectives, without being told a number.

    It watches what whoever relays the streams can see: starts, first results, the gaps between output tokens, ends. A
    call starts when nothing is inside, or when every part agrees:

    - **inter-token gate**: with one more, the gap between tokens would stay under a share of the smallest `itl`
      objective (0.85 at first; misses lower it, hits under pressure raise it), and company still pays;
    - **prefill window**: the prompts on their way, with this one, would give their first results within 0.4 of the
      smallest `ttft` objective (at most 0.5 s);
    - **memory ceiling**: prompts and expected answers inside stay under a ceiling that is cut when a stream stands
      still while the others go on.

    The less urgent classes stop a little earlier: that is the headroom. Its forecasts of the first result and of the
    end let the line refuse what would be late.

    It is for *streams*: every call has to report its output (`guard` does it for generators and SDK streams,
    `permit.progress` by hand). Calls that report nothing are let in one at a time. Prompt sizes are
    `Cost.input_tokens`. One gateway per backend.

    Args:
        name: what metrics and errors call it. Default "natural_pace".

    Raises:
        ConfigurationError: when an admission takes it whose classes have neither an itl nor a ttft objective: there is
            nothing to steer by.
    """

    def __init__(self, *, name: str | None = None) -> None:
        self._company, self._window, self._ceiling = Company(), Window(), Ceiling()
        super().__init__(self._company, self._window, self._ceiling, name=name)

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        if all(c.itl is None and c.ttft is None for c in classes):
            raise ConfigurationError(
                "NaturalPace steers by objectives: give at least one service class an itl or ttft objective",
                path="classes",
            )
        super().bind(classes)

    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        first = self._window.line.predict(self.flow.ahead_at(now) + self.flow.prompt(entry))
        return first, first + self.flow.expects(entry) * max(self.flow.per_token, self._company.now())

    def haunts(self, now: float) -> float:
        return self._window.line.predict(self.flow.ahead)

    def dump(self) -> dict[str, Any]:
        """The line of first results, the shares, and the ceiling."""
        line = self._window.line
        ceiling = self._ceiling.ceiling
        return {
            "alpha": line.alpha,
            "beta": line.beta,
            "share": self._company.share.value,
            "late": self._company.late.value,
            "ceiling": None if ceiling == inf else ceiling,
        }

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over what `dump` gave; a ceiling older than ten minutes is forgotten."""
        self._window.line.restore(float(state["alpha"]), float(state["beta"]))
        self._company.share.value = float(state["share"])
        self._company.late.value = float(state["late"])
        ceiling = state.get("ceiling")
        self._ceiling.ceiling = inf if ceiling is None or age > 600 else float(ceiling)
