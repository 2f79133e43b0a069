"""An engine of a few slots, as llama.cpp's server is one: no gain from batching, prompts in one piece."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.engine import Step
from andante.simulate.job import Job, JobState
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SlotProfile:
    """The timing of a `SlotEngine`: a step takes `step + prompt * P + stream * B` ms for P prompt tokens computed in it
    and B sequences that decode in it.

    Attributes:
        slots: most sequences at once (default 4).
        step: ms a step takes at least.
        prompt: ms per prompt token.
        stream: ms per decoding sequence: throughput hardly grows with their number.
        prompts: most prompts processed in one step, each in one piece.

    The defaults are those of the policy study, after llama.cpp's server with 4 slots and one thread on a CPU (measured
    there: a gap of 2.3 to 2.7 ms alone, 1 ms per prompt token).
    """

    slots: int = 4
    step: float = 0.2
    prompt: float = 0.9
    stream: float = 2.3
    prompts: int = 1

    def __post_init__(self) -> None:
        for name in ("slots", "prompts"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"SlotProfile.{name} must be a whole number above 0, not {value!r}", path=name)
        for name in ("step", "prompt", "stream"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < inf or (name == "step" and value == 0):
                bound = "above 0" if name == "step" else ">= 0"
                raise ConfigurationError(
                    f"SlotProfile.{name} must be a finite number of ms {bound}, not {value!r}", path=name
                )


SLOT_PROFILES: Mapping[str, SlotProfile] = MappingProxyType({"slots-4": SlotProfile(), "slots-2": SlotProfile(slots=2)})
"""llama.cpp-like engines of the policy study; `slots-2` has the same times and two slots."""


class SlotEngine:
    """A few slots, each with one sequence; whoever finds none waits inside, first come, first served, without a limit.

    1. Waiting prompts are processed in one piece, at most `profile.prompts` in a step: meanwhile every stream stands
       still, and gets its token when that long step ends.
    2. A call takes a slot when its prompt is processed, gets its first token with it, and keeps the slot to the end.
    3. A waiting call whose client left is processed all the same, in its turn: the server learns too late. It costs its
       prompt and gives nothing. A call that has its slot frees it before the next step.

    Time is an argument; nothing is random.
    """

    def __init__(self, profile: SlotProfile | None = None) -> None:
        self.profile = profile or SlotProfile()
        self._waiting: OrderedDict[Job, None] = OrderedDict()
        self._decoding: dict[Job, None] = {}

    @property
    def waiting(self) -> int:
        """Jobs that wait for a slot, those whose client left included."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs in a slot."""
        return len(self._decoding)

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""
        return not (self._waiting or self._decoding)

    def submit(self, job: Job) -> None:
        """`job` waits for a slot. Raises ConfigurationError for a job that was submitted before."""
        if job.state is not JobState.NEW:
            raise ConfigurationError(f"{job!r} was submitted before; make a new Job for a new attempt", path="job")
        job.state = JobState.WAITING
        self._waiting[job] = None

    def cancel(self, job: Job) -> bool:
        """The client left. False, and nothing changes, for a job that has finished, was cancelled or never came."""
        if job.state not in (JobState.WAITING, JobState.DECODING):
            return False
        self._decoding.pop(job, None)  # a waiting one stays: its prompt is processed in its turn
        job.state = JobState.CANCELLED
        return True

    def step(self, now: float) -> Step:
        """Does one step that begins at `now` and tells what will be there at its end."""
        profile, decoding = self.profile, self._decoding
        streams, prompt = list(decoding), 0
        first: list[Job] = []
        seats = profile.slots - len(streams)
        for _ in range(min(seats, profile.prompts, len(self._waiting))):
            job, _none = self._waiting.popitem(last=False)
            computed = job.prompt_tokens - job.cached_tokens
            prompt += computed
            job.prefilled += computed
            if job.state is JobState.WAITING:
                job.state = JobState.DECODING
                first.append(job)
        if not streams and not prompt:
            return Step(now, 0.0, 0, (), (), (), ())
        seconds = (profile.step + profile.prompt * prompt + profile.stream * len(streams)) / 1000
        at = now + seconds
        finished: list[Job] = []
        for job in (*streams, *first):
            job.generated += 1
            if job.first is None:
                job.first = at
            if job.generated == job.output_tokens:
                job.state, job.end = JobState.FINISHED, at
                decoding.pop(job, None)
                finished.append(job)
            else:
                decoding[job] = None
        return Step(at, seconds, prompt, (*streams, *first), tuple(first), tuple(finished), ())

    def __repr__(self) -> str:
        return f"<SlotEngine: {self.running} of {self.profile.slots} slots, {self.waiting} waiting>"
