"""A model of one LLM serving engine: continuous batching, step by step, pure and deterministic."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from andante.errors import ConfigurationError
from andante.simulate.job import Job, JobState

if TYPE_CHECKING:
    from andante.simulate.profiles import EngineProfile


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. Its results are there `seconds` after it began, at `at`.

    Attributes:
        at: when it ends.
        seconds: how long it takes; 0 for an engine with nothing to do.
        prefill: prefill tokens computed.
        tokens: every job that got one token, those of `first` and `finished` included, in order of admission.
        first: jobs whose first token it was.
        finished: jobs whose last token it was.
        preempted: jobs that lost their place, the last admitted first.
    """

    at: float
    seconds: float
    prefill: int
    tokens: tuple[Job, ...]
    first: tuple[Job, ...]
    finished: tuple[Job, ...]
    preempted: tuple[Job, ...]


class EngineModel(Protocol):
    """What a replay asks of an engine: `Engine` is one; any other model of a backend plugs in by these four."""

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""

    def submit(self, job: Job) -> None:
        """`job` arrives at the engine. Raises ConfigurationError for one that it could never serve."""

    def cancel(self, job: Job) -> bool:
        """The client of `job` left; False where there was nothing to cancel."""

    def step(self, now: float) -> Step:
        """What the engine does next, from `now` on. It sets `first`, `end` and `state` of the jobs it serves."""


class Engine:
    """Continuous batching with chunked prefill, a KV cache and preemption by recompute, as vLLM V1 schedules.

    1. A step has a budget of `profile.mbt` tokens. Running jobs are served first, in order of admission: one token each
       when decoding, the rest of the prompt (as far as the budget goes) otherwise.
    2. Where the KV cache has no room for them, the *last admitted* job is preempted: its KV is freed, it goes to the
       front of the waiting queue and later recomputes its prompt and everything it had generated.
    3. Then waiting jobs are admitted, first come first served, while there is budget, fewer than `profile.seqs` run,
       the first chunk fits, and nothing was preempted in this step. No KV is reserved for output to come.
    4. A job gets a token in the step that ends its prefill, one in each step after it, and frees its KV with the last.
    5. Cached tokens of a prompt are not computed, but the job holds their KV for itself: no job shares it.
    6. The queue has no limit, no deadline and sheds nothing.

    Time is an argument; nothing is random. A step costs O(1) Python work plus O(jobs that change their state), and one
    C-level copy of the list of decoding jobs. The rules 1 to 3 imply that at most one running job is not decoding, and
    that it is the last admitted; the implementation stands on that.
    """

    __slots__ = (
        "_context", "_count", "_decoding", "_ending", "_partial", "_used", "_waiting", "cancelled", "finished",
        "generated_tokens", "kv_peak", "preemptions", "prefill_tokens", "profile", "steps", "submitted",
    )  # fmt: skip

    def __init__(self, profile: EngineProfile) -> None:
        self.profile = profile
        self._waiting: OrderedDict[Job, None] = OrderedDict()
        self._decoding: dict[Job, None] = {}  # in order of admission
        self._partial: Job | None = None  # the one running job whose prefill is not complete
        self._ending: dict[int, dict[Job, None]] = {}  # decode count -> jobs whose last token it brings
        self._count = 0  # steps of decoding so far: every decoding job gets exactly one token in each
        self._context = 0  # tokens of context of all decoding jobs
        self._used = 0  # KV tokens held
        self.submitted = self.finished = self.cancelled = self.preemptions = self.steps = 0
        self.prefill_tokens = self.generated_tokens = self.kv_peak = 0

    # What it holds. -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Jobs that wait, preempted ones included."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs that run."""
        return len(self._decoding) + (self._partial is not None)

    @property
    def kv_used(self) -> int:
        """KV tokens held by running jobs."""
        return self._used

    @property
    def idle(self) -> bool:
        """True when a step would do nothing."""
        return not (self._decoding or self._waiting or self._partial)

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether such a job could ever be served: all its tokens together must fit into the KV cache."""
        return prompt_tokens + output_tokens <= self.profile.kv

    def generated(self, job: Job) -> int:
        """Output tokens of `job` so far."""
        return job.generated + (self._count - job._since if job.state is JobState.DECODING else 0)

    # What changes it. -----------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """`job` joins the end of the waiting queue; the next step may admit it.

        Raises ConfigurationError for a job that was submitted before, or that could never fit into the KV cache (it
        would be preempted by itself for ever).
        """
        if job.state is not JobState.NEW:
            raise ConfigurationError(f"{job!r} was submitted before; make a new Job for a new attempt", path="job")
        if not self.fits(job.prompt_tokens, job.output_tokens):
            raise ConfigurationError(
                f"{job!r} needs more than the engine's {self.profile.kv} KV tokens; leave it out or enlarge kv",
                path="job",
            )
        job.state = JobState.WAITING
        self._waiting[job] = None
        self.submitted += 1

    def cancel(self, job: Job) -> bool:
        """The client left: the job stops before the next step and its KV is free for that step.

        False, and nothing changes, for a job that has finished, was cancelled or was never submitted.
        """
        if job.state is JobState.WAITING:
            del self._waiting[job]
        elif job.state is JobState.PREFILLING:
            self._partial = None
            self._used -= job._done
        elif job.state is JobState.DECODING:
            self._stop_decoding(job)
        else:
            return False
        job.state = JobState.CANCELLED
        self.cancelled += 1
        return True

    def step(self, now: float) -> Step:
        """Does one step that begins at `now` and tells what will be there at its end.

        The engine's state is that of the step's end as soon as this returns; a job cancelled between now and `Step.at`
        keeps the token this step made, which its client no longer sees.
        """
        decoding, capacity = self._decoding, self.profile.kv
        preempted: list[Job] = []
        if self._used + len(decoding) > capacity:
            self._make_room(preempted)

        budget = self.profile.mbt - len(decoding)
        prefill, pairs = 0, 0.0
        ready: list[Job] = []  # prefill ends in this step
        self._used += len(decoding)
        job = self._partial
        if job is not None:
            chunk = min(job.prompt_tokens + job.generated - job._done, budget)
            if self._used + chunk > capacity:
                self._preempt_partial(preempted)
            else:
                prefill, pairs = chunk, chunk * (job._done + chunk / 2)
                budget -= chunk
                self._prefilled(job, chunk, ready)
        if not preempted:
            places = self.profile.seqs - len(decoding) - len(ready) - (self._partial is not None)
            while budget > 0 and places > 0 and self._waiting:
                job = next(iter(self._waiting))
                cached = job.cached_tokens
                chunk = min(job.prompt_tokens + job.generated - cached, budget)
                if self._used + cached + chunk > capacity:
                    break
                del self._waiting[job]
                places -= 1
                prefill += chunk
                pairs += chunk * (cached + chunk / 2)
                budget -= chunk
                job._done = cached
                self._used += cached
                self._prefilled(job, chunk, ready)

        if not decoding and not prefill:
            return Step(now, 0.0, 0, (), (), (), tuple(preempted))
        seconds = self.profile.step_ms(prefill, len(decoding), self._context, pairs) / 1000.0
        self.kv_peak = max(self.kv_peak, self._used)
        self.prefill_tokens += prefill
        self.steps += 1
        return self._emit(now + seconds, seconds, prefill, ready, preempted)

    def _prefilled(self, job: Job, chunk: int, ready: list[Job]) -> None:
        job._done += chunk
        job.prefilled += chunk
        self._used += chunk
        if job._done == job.prompt_tokens + job.generated:
            self._partial = None
            ready.append(job)
        else:
            self._partial = job
            job.state = JobState.PREFILLING

    def _emit(self, at: float, seconds: float, prefill: int, ready: list[Job], preempted: list[Job]) -> Step:
        """One token for every decoding job and every job whose prefill is complete."""
        decoding = self._decoding
        tokens = (*decoding, *ready)
        self.generated_tokens += len(tokens)
        finished: list[Job] = []
        if decoding:
            self._count += 1
            self._context += len(decoding)
            for job in tuple(self._ending.get(self._count, ())):
                self._stop_decoding(job)
                finished.append(job)
        first: list[Job] = []
        for job in ready:
            if job.first is None:
                job.first = at
                first.append(job)
            job.generated += 1
            if job.generated == job.output_tokens:
                self._used -= job._done
                finished.append(job)
            else:
                job.state = JobState.DECODING
                job._since = self._count
                job._stop = self._count + job.output_tokens - job.generated
                decoding[job] = None
                self._context += job._done
                self._ending.setdefault(job._stop, {})[job] = None
        for job in finished:
            job.state = JobState.FINISHED
            job.end = at
        self.finished += len(finished)
        return Step(at, seconds, prefill, tokens, tuple(first), tuple(finished), tuple(preempted))

    def _stop_decoding(self, job: Job) -> None:
        """Takes a job out of the batch and frees its KV; its counts become exact."""
        gained = self._count - job._since
        job.generated += gained
        held = job._done + gained
        del self._decoding[job]
        ending = self._ending[job._stop]
        del ending[job]
        if not ending:
            del self._ending[job._stop]
        self._context -= held
        self._used -= held

    def _make_room(self, preempted: list[Job]) -> None:
        """Preempts from the end until each remaining decoding job has room for one token."""
        if self._partial is not None:
            self._preempt_partial(preempted)
        while self._used + len(self._decoding) > self.profile.kv:
            job = next(reversed(self._decoding))
            self._stop_decoding(job)
            self._preempt(job, preempted)

    def _preempt_partial(self, preempted: list[Job]) -> None:
        job = self._partial
        assert job is not None
        self._partial = None
        self._used -= job._done
        self._preempt(job, preempted)

    def _preempt(self, job: Job, preempted: list[Job]) -> None:
        job._done = 0
        job.state = JobState.WAITING
        job.preemptions += 1
        self.preemptions += 1
        self._waiting[job] = None
        self._waiting.move_to_end(job, last=False)
        preempted.append(job)

    def __repr__(self) -> str:
        return (
            f"<Engine: {self.running} of {self.profile.seqs} running, {self.waiting} waiting, "
            f"KV {self._used} of {self.profile.kv}, {self.finished} finished>"
        )
