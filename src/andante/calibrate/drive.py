"""The climb itself: so many calls in flight, no more, for as long as the plan says. The one file here that waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import anyio

from andante.calibrate.climb import Bounds, Stop, Visit, knee, plan
from andante.calibrate.level import Level, measure, pooled
from andante.calibrate.sample import Effect, Report, Sample, Trouble
from andante.calibrate.target import Target, trouble_of
from andante.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

_ROW = 5  # so many faults in a row end a visit early
_PAUSE = 0.25  # seconds that a caller waits after a fault
_INSTANT = 0.001  # seconds: nobody is called more often than this by one caller


@dataclass
class Calibration:
    """What was measured so far; `calibrate` fills it, and it is whole at any time.

    Attributes:
        target: the name of what was called.
        bounds: how far it might go.
        visits: what was measured, in order.
        stop: why it ended; None while it runs, and when it was interrupted.
        probe: the first call, alone.
        calls: how many calls were sent.
        seconds: how long it has taken.
        prompt: mean input tokens of a call as the backend counts them, None where it does not.
    """

    target: str
    bounds: Bounds
    visits: list[Level] = field(default_factory=list)
    stop: Stop | None = None
    probe: Sample | None = None
    calls: int = 0
    seconds: float = 0.0
    prompt: float | None = None

    @property
    def levels(self) -> list[Level]:
        """The visits of each number together, ascending."""
        return pooled(self.visits)

    @property
    def alone(self) -> float:
        """How many seconds the probe took; 0 where there was none."""
        probe = self.probe
        return 0.0 if probe is None or probe.ended is None else probe.ended - probe.started

    @property
    def pace(self) -> Level | None:
        """The natural pace, if there is one."""
        return knee(self.levels, self.bounds)


async def first_call(target: Target, calibration: Calibration) -> Sample:
    """Make one call, alone: it shows whether the target answers, and how long a call takes."""
    clock = current_clock()
    calibration.calls += 1
    probe = calibration.probe = Sample(clock())
    try:
        with anyio.fail_after(calibration.bounds.timeout):
            await target.open()
    except Exception as error:
        probe.trouble, probe.ended = trouble_of(error), clock()
        return probe
    probe.started = clock()
    await _one(target, 0, probe, calibration.bounds.timeout, clock)
    return probe


async def calibrate(
    target: Target, calibration: Calibration, *, watch: Callable[[Visit, float], None] | None = None
) -> Calibration:
    """Climb until the plan says stop, and fill `calibration`.

    All calls are ended when it returns, is cancelled, or fails; what was measured until then stays in `calibration`.

    Args:
        target: what is called.
        calibration: new, or with the probe in it.
        watch: told of every visit and of the share of it (0 to 1) that is done.
    """
    clock = current_clock()
    began = clock()
    bounds = calibration.bounds
    until = began + bounds.seconds
    async with anyio.create_task_group() as group:
        crew = _Crew(target, bounds.timeout, clock, group, calibration)
        try:
            while not isinstance(step := plan(calibration.visits, bounds, until - clock(), calibration.alone), Stop):
                if crew.halted.is_set():
                    step = Stop("faults", f"{_ROW} calls in a row failed: {crew.last}")
                    break
                visit = _Visit(step, crew, clock, until, watch)
                try:
                    await visit.settle()
                    await visit.measure()
                finally:
                    level = visit.level()
                    if level is not None:
                        calibration.visits.append(level)
                    _note(calibration, crew, clock() - began)
            calibration.stop = step
        finally:
            group.cancel_scope.cancel()
    return calibration


def _note(calibration: Calibration, crew: _Crew, spent: float) -> None:
    calibration.seconds = spent
    prompts = [s.prompt for s in crew.samples if s.prompt is not None]
    calibration.prompt = sum(prompts) / len(prompts) if prompts else None


class _Visit:
    """One visit: the callers come one by one, calls settle, then it is measured."""

    def __init__(
        self,
        step: Visit,
        crew: _Crew,
        clock: Callable[[], float],
        until: float,
        watch: Callable[[Visit, float], None] | None,
    ) -> None:
        self._step, self._crew, self._clock, self._until = step, crew, clock, until
        self._watch = watch or (lambda _visit, _share: None)
        self._came = clock()
        self._begin = inf
        self._whole = False

    async def settle(self) -> None:
        """New callers come evenly over the first half of the time, so that they do not all start together."""
        step, crew = self._step, self._crew
        end = self._came + step.settle
        crew.want = step.n
        missing = [number for number in range(step.n) if number not in crew.running]
        for place, number in enumerate(missing):
            await self._sleep(self._came + step.settle / 2 * place / len(missing))
            crew.start(number)
        await self._sleep(end)
        while len(crew.running) > step.n and not crew.halted.is_set() and self._clock() < end + step.window:
            await self._sleep(self._clock() + step.window / 50)  # those that were too many finish their calls

    async def measure(self) -> None:
        """Let the window pass."""
        self._begin = self._clock()
        await self._sleep(self._begin + self._step.window)
        self._whole = not self._crew.halted.is_set() and self._clock() >= self._begin + self._step.window - 1e-9

    async def _sleep(self, until: float) -> None:
        """Until then, or until the callers are halted; at most to the end of all time."""
        until = min(until, self._until)
        total = self._step.settle + self._step.window
        while (now := self._clock()) < until and not self._crew.halted.is_set():
            self._watch(self._step, min(1.0, (now - self._came) / total))
            with anyio.move_on_after(min(0.2, until - now)):
                await self._crew.halted.wait()

    def level(self) -> Level | None:
        """What was measured. Of a visit that ended before its window there are no rates, only what went wrong.

        Troubles are those since the last visit, while calls settled too."""
        now, crew = self._clock(), self._crew
        begun = self._begin < now
        level = measure(crew.samples, self._step.n, self._begin if begun else self._came, now, whole=self._whole)
        if not begun:
            level = replace(level, calls=(), tokens=(), whole=False)
        level = replace(level, ended=max(crew.ended, crew.failed.total()), troubles=tuple(crew.failed.items()))
        crew.ended, crew.failed = 0, Counter()
        return level if begun or level.troubles else None


class _Crew:
    """The callers: each makes one call after the other. Number k works while `want` is above k."""

    def __init__(
        self,
        target: Target,
        timeout: float,
        clock: Callable[[], float],
        group: TaskGroup,
        calibration: Calibration,
    ) -> None:
        self._target, self._timeout, self._clock, self._group = target, timeout, clock, group
        self._calibration = calibration
        self._faults = 0
        self.ended = 0
        self.failed: Counter[Trouble] = Counter()
        self.last: Trouble | None = None
        self.want = 0
        self.running: set[int] = set()
        self.samples: list[Sample] = []
        self.halted = anyio.Event()

    def start(self, number: int) -> None:
        """Let caller `number` begin, unless it works already or all are halted."""
        if number not in self.running and not self.halted.is_set():
            self.running.add(number)
            self._group.start_soon(self._work, number)

    async def _work(self, number: int) -> None:
        try:
            while number < self.want and not self.halted.is_set():
                sample = Sample(self._clock())
                index = self._calibration.calls
                self._calibration.calls += 1
                self.samples.append(sample)
                await _one(self._target, index, sample, self._timeout, self._clock)
                self.ended += 1
                if sample.trouble is not None:
                    self._count(sample.trouble)
                    await anyio.sleep(_PAUSE)
                else:
                    self._faults = 0
                    if self._clock() - sample.started < _INSTANT:
                        await anyio.sleep(_INSTANT)
        finally:
            self.running.discard(number)

    def _count(self, trouble: Trouble) -> None:
        self.failed[trouble] += 1
        self.last = trouble
        self._faults += 1
        if trouble.effect is not Effect.FAULT or self._faults >= _ROW:
            self.halted.set()


async def _one(target: Target, index: int, sample: Sample, timeout: float, clock: Callable[[], float]) -> None:
    """One call into `sample`; every error of the target becomes its trouble."""
    with anyio.CancelScope(deadline=anyio.current_time() + timeout) as scope:

        def heard() -> None:
            scope.deadline = anyio.current_time() + timeout

        try:
            await target.call(index, Report(sample, clock, heard))
        except Exception as error:
            sample.trouble = trouble_of(error)
    if scope.cancelled_caught or (scope.cancel_called and sample.trouble is not None):  # httpcore makes an error of it
        what = "no output" if sample.first is None else "the stream stood still"
        sample.trouble = Trouble(f"{what} for {timeout:g} s", "", Effect.PUSHBACK)
    sample.ended = clock()
