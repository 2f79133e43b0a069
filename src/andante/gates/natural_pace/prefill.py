"""The prefill window: no more prompt tokens on their way than the time to first token allows."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.gates.natural_pace.goals import FIRST, FIRST_MOST, FIRSTS, by_rank, first_goal
from andante.gates.natural_pace.part import Part, PartsGate
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.service import ServiceClass

_KEPT = 0.98  # forgetting, per sample
_CLIP = 4.0  # a sample counts at most so many times what the line, or the best of the first ones, says


class FirstResultLine:
    """seconds to the first result = alpha + beta * prompt tokens ahead: robust against silence and crowds.

    A sample counts with the weight of its relative error, 1 / clip(predicted, y/3, 3 y)^2, and at most `_CLIP` times
    what is predicted; the first five at most `_CLIP` times the smallest of them per token.
    """

    def __init__(self) -> None:
        self.alpha = 0.0
        self.beta = 1e-4
        self.samples = 0
        self._early: list[tuple[float, float]] = []
        self._sums = [0.0] * 5

    def predict(self, ahead: float) -> float:
        """Seconds to the first result with so many prompt tokens ahead, its own included."""
        return self.alpha + self.beta * ahead

    def learn(self, ahead: float, took: float) -> None:
        """One first result."""
        if ahead <= 0 or took <= 0:
            return
        self.samples += 1
        if self.samples <= 5:
            self._early.append((ahead, took))
            least = min(y / x for x, y in self._early)
            self._sums = [0.0] * 5
            for x, y in self._early:
                self._add(x, min(y, _CLIP * least * x))
        else:
            self._add(ahead, min(took, _CLIP * self.predict(ahead)))
        self._fit()

    def restore(self, alpha: float, beta: float) -> None:
        """Begin with a line that was learned before. The first new sample counts as much as all of it."""
        self.alpha, self.beta = alpha, beta

    def _add(self, x: float, y: float) -> None:
        expected = min(3 * y, max(y / 3, self.predict(x)))
        weight = 1 / (expected * expected)
        new = (weight, weight * x, weight * y, weight * x * x, weight * x * y)
        self._sums = [old * _KEPT + one for old, one in zip(self._sums, new, strict=True)]

    def _fit(self) -> None:
        w, x, y, xx, xy = self._sums
        spread = w * xx - x * x
        if self.samples >= 6 and spread > 1e-9 * w * xx:
            beta = (w * xy - x * y) / spread
            alpha = (y - beta * x) / w
            if beta > 0 and alpha >= 0:
                self.alpha, self.beta = alpha, beta
                return
        self.alpha, self.beta = 0.0, y / x


class Window(Part):
    """No start while the prompts on their way, with the new one, would take longer than the goal; while there is no
    evidence yet; or while the oldest open call already waits longer."""

    name = "prefill_window"

    def __init__(self, share: float = FIRST, most: float = FIRST_MOST) -> None:
        super().__init__()
        self.line = FirstResultLine()
        self.share = share
        self.most = most
        self.goal = inf

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        self.goal = first_goal(classes, self.share, self.most)

    def room(self, entry: Entry, now: float) -> bool:
        flow, goal = self.flow, self.goal
        if goal == inf:
            return True
        ahead = flow.ahead_at(now)
        if ahead <= 0:
            return True
        if not self.line.samples:
            return False
        oldest = next(iter(flow.opening.values()), None)
        if oldest is not None and now - oldest.started > goal:
            return False
        return self.forecast(entry, now) <= goal * by_rank(FIRSTS, entry.rank)

    def forecast(self, entry: Entry, now: float) -> float:
        """Seconds to its first result, if `entry` started now."""
        return self.line.predict(self.flow.ahead_at(now) + self.flow.prompt(entry))

    def first(self, stream: Stream, now: float) -> None:
        self.line.learn(stream.ahead, now - stream.started)

    def headroom(self, now: float) -> float:
        ahead = self.flow.ahead_at(now)
        return 1 - self.line.predict(ahead) / self.goal if ahead > 0 and self.goal < inf else 1.0

    def snapshot(self, now: float) -> dict[str, Any]:
        """`alpha` (s), `beta` (s per prompt token), `goal` (s; None: no ttft objective), `samples`."""
        goal = None if self.goal == inf else self.goal
        return {"alpha": self.line.alpha, "beta": self.line.beta, "goal": goal, "samples": self.line.samples}


class PrefillWindow(PartsGate):
    """Keeps the prompts that are on their way small enough for the classes' objectives for the first result.

    Seconds to the first result are learned as a line over the prompt tokens ahead; a call starts when the line, with
    its own prompt added, stays under `share` of the smallest ttft objective (at most `most` seconds), less for the less
    urgent classes. Without a ttft objective it is always open.

    Args:
        share: of the smallest ttft objective that may be spent in the backend (default 0.4).
        most: seconds, the bound on that (default 0.5).
        name: what metrics and errors call it. Default "prefill_window".

    Raises:
        ConfigurationError: for a `share` or `most` that is no number above 0.
    """

    def __init__(self, *, share: float = FIRST, most: float = FIRST_MOST, name: str | None = None) -> None:
        for what, number in (("share", share), ("most", most)):
            if not is_number(number) or not number > 0:
                raise ConfigurationError(f"PrefillWindow.{what} must be above 0, not {number!r}", path=what)
        self.window = Window(share, most)
        super().__init__(self.window, name=name)

    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        if not self.flow.streams:
            return 0.0, 0.0  # a line that is wrong could never be put right, were all refused by it
        first = self.window.forecast(entry, now)
        return first, first

    def haunts(self, now: float) -> float:
        return self.window.line.predict(self.flow.ahead_at(now))
