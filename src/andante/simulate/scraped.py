"""A signal that an engine model gives of itself, read now and then and told late, as a scraped gauge is."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.reading import NEVER, Reading
from andante.simulate.around import Around
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.simulate.engine import Engine, EngineModel, Step


class Scraped(Around):
    """An engine model and, at the same time, a `Signal`: give it to the gate that reads, and to the replay as engine.

    Samples are taken when a step begins; while the engine is idle there are none, so the last one grows old.

    Args:
        engine: the model inside.
        measure: what is read, such as `lambda: kv_use(engine)`.
        every: seconds between two samples (default 0.5); 0: at each step.
        age: seconds until a sample can be seen (default 0). Its reading says truly when it was taken.
        source: what the readings say they are.

    Attributes:
        engine: the model inside.
    """

    def __init__(
        self,
        engine: EngineModel,
        measure: Callable[[], float],
        *,
        every: float = 0.5,
        age: float = 0.0,
        source: str = "simulated",
    ) -> None:
        for name, value in (("every", every), ("age", age)):
            if not is_number(value) or not 0 <= value < inf:
                raise ConfigurationError(
                    f"{name} must be a finite number of seconds, 0 or more, not {value!r}", path=name
                )
        super().__init__(engine)
        self._measure = measure
        self._every = every
        self._age = age
        self._source = source
        self._next = -inf
        self._reading = NEVER
        self._unseen: deque[Reading] = deque()

    def read(self) -> Reading:
        """The newest sample that can be seen since the engine last began a step."""
        return self._reading

    def step(self, now: float) -> Step:
        """The step of the model inside; before it, perhaps, a sample."""
        if now >= self._next:
            self._next = now + self._every
            self._unseen.append(Reading(self._measure(), now, self._source))
        while self._unseen and self._unseen[0].at + self._age <= now:
            self._reading = self._unseen.popleft()
        return super().step(now)

    def __repr__(self) -> str:
        return f"<Scraped {self._reading.value} of {self.engine!r}>"


def kv_use(engine: Engine) -> float:
    """The share of its KV cache that `engine` uses, 0 to 1."""
    return engine.kv_used / engine.profile.kv
