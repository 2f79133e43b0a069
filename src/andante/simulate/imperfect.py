"""Imperfections of an engine: steps of uneven length, freezes, silence. Each goes around any engine model."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp, floor, inf, isfinite
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.around import Around
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.simulate.engine import EngineModel, Step


class Retimed(Around):
    """An engine whose steps take another time than the model around which this stands says.

    Args:
        engine: any engine model, another `Retimed` included.
        ends: `f(now, seconds)`: when a step ends that begins at `now` and would take `seconds`; not before `now`.
        name: what it is called.

    Attributes:
        engine: the model inside.
    """

    def __init__(self, engine: EngineModel, ends: Callable[[float, float], float], *, name: str = "retimed") -> None:
        super().__init__(engine)
        self._ends = ends
        self._name = name

    def step(self, now: float) -> Step:
        """The step of the model inside, with its own end."""
        step = super().step(now)
        if step.seconds == 0:
            return step
        at = self._ends(now, step.seconds)
        for job in step.first:
            job.first = at
        for job in step.finished:
            job.end = at
        return replace(step, at=at, seconds=at - now)

    def __repr__(self) -> str:
        return f"<{self._name} {self.engine!r}>"


def noisy(engine: EngineModel, sigma: float = 0.2, *, seed: int = 0) -> Retimed:
    """Each step's time is multiplied by a log-normal number of mean 1; `sigma` is that of its logarithm."""
    if not is_number(sigma) or not 0 <= sigma < inf:
        raise ConfigurationError(f"sigma must be a finite number >= 0, not {sigma!r}", path="sigma")
    draw = random.Random(seed)
    return Retimed(
        engine, lambda now, seconds: now + seconds * exp(draw.gauss(-sigma * sigma / 2, sigma)), name="noisy"
    )


def slowed(engine: EngineModel, factor: Callable[[float], float]) -> Retimed:
    """Steps take `factor(now)` times as long: an engine whose speed drifts. The factor must be above 0."""

    def ends(now: float, seconds: float) -> float:
        by = factor(now)
        if not is_number(by) or not 0 < by < inf:
            raise ConfigurationError(f"factor({now:g}) must be a finite number above 0, not {by!r}", path="factor")
        return now + seconds * by

    return Retimed(engine, ends, name="slowed")


def freezes(engine: EngineModel, seconds: float = 1.0, *, every: float = 30.0) -> Retimed:
    """The engine stands still for `seconds` at `every`, 2 `every`, 3 `every` ... seconds; work goes on where it was."""
    _seconds(seconds=seconds, every=every)
    if seconds >= every:
        raise ConfigurationError(
            f"freezes of {seconds:g} s each {every:g} s leave no time to work; make them shorter", path="seconds"
        )

    def pause(t: float) -> tuple[float, float]:
        begins = max(1, floor(t / every)) * every
        if begins + seconds <= t:
            begins += every
        return begins, begins + seconds

    return Retimed(engine, lambda now, work: _with_pauses(now, work, pause), name="freezing")


def stopped(engine: EngineModel, seconds: float, *, at: float = 0.0) -> Retimed:
    """The engine does nothing from `at` for `seconds`, as while it loads its model; what it holds, it keeps."""
    _seconds(seconds=seconds)
    if not is_number(at) or not 0 <= at < inf:
        raise ConfigurationError(f"at must be a finite time in seconds, 0 or more, not {at!r}", path="at")
    until = at + seconds

    def pause(t: float) -> tuple[float, float]:
        return (at, until) if t < until else (inf, inf)

    return Retimed(engine, lambda now, work: _with_pauses(now, work, pause), name="stopped")


def silent_first(engine: EngineModel, seconds: float) -> Retimed:
    """The engine answers nothing for `seconds` after its first call came: its weights are loaded on demand."""
    _seconds(seconds=seconds)
    until: float | None = None

    def ends(now: float, work: float) -> float:
        nonlocal until
        if until is None:
            until = now + seconds
        return max(now, until) + work

    return Retimed(engine, ends, name="silent at first")


def _with_pauses(now: float, work: float, pause: Callable[[float], tuple[float, float]]) -> float:
    """When `work` seconds, begun at `now`, are done; `pause(t)` is the first pause that ends after `t`."""
    while True:
        begins, ends = pause(now)
        if now + work <= begins:
            return now + work
        work -= max(0.0, begins - now)
        now = ends


def _seconds(**values: float) -> None:
    for name, value in values.items():
        if not is_number(value) or not isfinite(value) or value <= 0:
            raise ConfigurationError(f"{name} must be a finite number of seconds above 0, not {value!r}", path=name)
