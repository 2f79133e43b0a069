"""An engine model around another one, which changes one thing about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andante.simulate.engine import EngineModel, Step
    from andante.simulate.job import Job


class Around:
    """Passes everything on to `engine`. What stands around a model overrides what it changes.

    Attributes:
        engine: the model inside.
    """

    def __init__(self, engine: EngineModel) -> None:
        self.engine = engine

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""
        return self.engine.idle

    def submit(self, job: Job) -> None:
        """`job` arrives at the engine."""
        self.engine.submit(job)

    def cancel(self, job: Job) -> bool:
        """The client of `job` left."""
        return self.engine.cancel(job)

    def step(self, now: float) -> Step:
        """The step of the model inside."""
        return self.engine.step(now)
