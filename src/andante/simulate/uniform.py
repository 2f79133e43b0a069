"""Uniform backends, which answer each call in one piece: a service with workers, an embedder that takes batches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.engine import Step
from andante.simulate.job import Job, JobState
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """A service whose workers are shared by all calls inside. With n calls inside, each takes

        seconds * max(1, n / workers) * max(1, n / thrashes) ** steepness

    so that throughput is flat between `workers` and `thrashes` calls and falls beyond.

    Attributes:
        workers: calls that it serves at full speed.
        seconds: of one call alone.
        thrashes: calls inside above which they get into each other's way; inf: never.
        steepness: how much (default 1: beyond `thrashes` the time of a call grows with the square of n).
        tick: seconds after which the speed follows a change of n at the latest (default 0.01).
    """

    workers: int
    seconds: float
    thrashes: float = inf
    steepness: float = 1.0
    tick: float = 0.01

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise ConfigurationError(
                f"ServiceProfile.workers must be a whole number above 0, not {self.workers!r}", path="workers"
            )
        for name in ("seconds", "tick", "thrashes", "steepness"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0 or (name != "thrashes" and not isfinite(value)):
                raise ConfigurationError(f"ServiceProfile.{name} must be a number above 0, not {value!r}", path=name)

    def slower(self, inside: int) -> float:
        """How many times as long a call takes with so many inside."""
        crowding: float = max(1.0, inside / self.thrashes) ** self.steepness
        return max(1.0, inside / self.workers) * crowding


@dataclass(frozen=True, slots=True)
class BatchProfile:
    """A backend that takes what waits as one batch, which takes `fixed + each * calls` seconds.

    Attributes:
        most: calls in a batch.
        fixed: seconds per batch.
        each: seconds per call in it.
    """

    most: int
    fixed: float
    each: float

    def __post_init__(self) -> None:
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise ConfigurationError(
                f"BatchProfile.most must be a whole number above 0, not {self.most!r}", path="most"
            )
        for name in ("fixed", "each"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < inf:
                raise ConfigurationError(
                    f"BatchProfile.{name} must be a finite number of seconds >= 0, not {value!r}", path=name
                )
        if self.fixed + self.each == 0:
            raise ConfigurationError("BatchProfile: a batch cannot take no time; set fixed or each", path="fixed")


UNIFORM_PROFILES: Mapping[str, ServiceProfile | BatchProfile] = MappingProxyType(
    {
        "http-20": ServiceProfile(workers=20, seconds=0.2),
        "http-8-thrashing": ServiceProfile(workers=8, seconds=2.0, thrashes=12),
        "embedder": BatchProfile(most=64, fixed=0.010, each=0.0005),
        "embedder-slow": BatchProfile(most=64, fixed=0.005, each=0.002),
    }
)
"""The uniform backends of the policy study. It does not give the law by which the thrashing one slows down; here it is
a call's time growing with the square of the calls inside."""


class ServiceEngine:
    """A service of `ServiceProfile`: all calls inside progress at one speed, which falls as they become more.

    Each answer comes in one piece, which counts as one token told, however many it has; lengths do not matter.
    """

    def __init__(self, profile: ServiceProfile) -> None:
        self.profile = profile
        self._served = 0.0  # seconds of work that a call inside from the beginning would have got
        self._ends: list[tuple[float, int, Job]] = []  # at which `_served` a call is done
        self._serial = count()
        self._inside = 0

    @property
    def running(self) -> int:
        """Calls inside."""
        return self._inside

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""
        return not self._inside

    def submit(self, job: Job) -> None:
        """`job` is inside. Raises ConfigurationError for a job that was submitted before."""
        _begin(job, JobState.DECODING)
        heappush(self._ends, (self._served + self.profile.seconds, next(self._serial), job))
        self._inside += 1

    def cancel(self, job: Job) -> bool:
        """The client left, and the service stops at once."""
        if job.state is not JobState.DECODING:
            return False
        job.state = JobState.CANCELLED
        self._inside -= 1
        return True

    def step(self, now: float) -> Step:
        """Until the next call is done, at most one `tick`."""
        ends = self._ends
        while ends and ends[0][2].state is JobState.CANCELLED:
            heappop(ends)
        if not ends:
            return Step(now, 0.0, 0, NOTHING, NOTHING, NOTHING, NOTHING)
        slower = self.profile.slower(self._inside)
        seconds = min((ends[0][0] - self._served) * slower, self.profile.tick)
        self._served += seconds / slower
        at = now + seconds
        done: list[Job] = []
        while ends and ends[0][0] <= self._served + 1e-9:
            job = heappop(ends)[2]
            if job.state is JobState.DECODING:
                done.append(job)
        self._inside -= len(done)
        return _whole(done, at, seconds)

    def __repr__(self) -> str:
        return f"<ServiceEngine: {self._inside} inside, {self.profile.workers} workers>"


class BatchEngine:
    """A backend of `BatchProfile`: batch after batch, first come, first served; who comes meanwhile waits inside.

    Each answer comes in one piece, which counts as one token told, however many it has; lengths do not matter.
    """

    def __init__(self, profile: BatchProfile) -> None:
        self.profile = profile
        self._waiting: OrderedDict[Job, None] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Calls that wait for a batch."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""
        return not self._waiting

    def submit(self, job: Job) -> None:
        """`job` waits for the next batch. Raises ConfigurationError for a job that was submitted before."""
        _begin(job, JobState.WAITING)
        self._waiting[job] = None

    def cancel(self, job: Job) -> bool:
        """The client left. A call in the batch that is being computed stays in it."""
        if job.state is not JobState.WAITING:
            return False
        del self._waiting[job]
        job.state = JobState.CANCELLED
        return True

    def step(self, now: float) -> Step:
        """One batch."""
        batch = [self._waiting.popitem(last=False)[0] for _ in range(min(self.profile.most, len(self._waiting)))]
        if not batch:
            return Step(now, 0.0, 0, NOTHING, NOTHING, NOTHING, NOTHING)
        seconds = self.profile.fixed + self.profile.each * len(batch)
        return _whole(batch, now + seconds, seconds)

    def __repr__(self) -> str:
        return f"<BatchEngine: {self.waiting} waiting for batches of {self.profile.most}>"


def _begin(job: Job, state: JobState) -> None:
    if job.state is not JobState.NEW:
        raise ConfigurationError(f"{job!r} was submitted before; make a new Job for a new attempt", path="job")
    job.state = state


def _whole(jobs: list[Job], at: float, seconds: float) -> Step:
    """A step that ends with these jobs, each in one piece."""
    prompts = 0
    for job in jobs:
        job.state, job.first, job.end = JobState.FINISHED, at, at
        job.generated = job.output_tokens
        job.prefilled = job.prompt_tokens - job.cached_tokens
        prompts += job.prefilled
    done = tuple(jobs)
    return Step(at, seconds, prompts, done, done, done, ())
