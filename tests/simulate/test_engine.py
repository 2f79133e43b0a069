"""The step engine: the rules of continuous batching, kept exactly, whatever comes and whoever leaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.simulate.engine import Engine
from andante.simulate.job import Job, JobState
from andante.simulate.profiles import EngineProfile

ROOMY = EngineProfile(a=10.0, b=0.1, c=0.5, d=0.001, e=0.0, kv=100_000, seqs=64, mbt=256)
TIGHT = EngineProfile(a=7.0, b=0.05, c=0.3, d=0.01, e=0.0001, kv=60, seqs=4, mbt=16)


class Plain:
    """The rules once more, word for word, one token at a time: slow, and too simple to be wrong in the same way."""

    def __init__(self, profile: EngineProfile) -> None:
        self.profile = profile
        self.waiting: list[list[int]] = []  # [number, prompt, output, generated, held, decoding]
        self.running: list[list[int]] = []

    def step(self, now: float) -> tuple[float, list[int], list[int], list[int]]:
        p = self.profile
        budget, prefill, pairs, decoding, context = p.mbt, 0, 0.0, 0, 0
        preempted: list[int] = []
        got: list[list[int]] = []

        def held() -> int:
            return sum(job[4] for job in self.running)

        def serve(job: list[int], chunk: int) -> None:
            nonlocal budget, prefill, pairs
            prefill += chunk
            pairs += chunk * (job[4] + chunk / 2)
            job[4] += chunk
            budget -= chunk
            if job[4] == job[1] + job[3]:
                got.append(job)

        for job in list(self.running):
            if job not in self.running:
                break  # preempted in this very step, and all after it
            need = 1 if job[5] else min(job[1] + job[3] - job[4], budget)
            while held() + need > p.kv:
                last = self.running.pop()
                last[4] = last[5] = 0
                self.waiting.insert(0, last)
                preempted.append(last[0])
                if last is job:
                    break
            if job not in self.running:
                break
            if job[5]:
                decoding += 1
                context += job[4]
                job[4] += 1
                budget -= 1
                got.append(job)
            else:
                serve(job, need)
        while not preempted and budget > 0 and self.waiting and len(self.running) < p.seqs:
            job = self.waiting[0]
            chunk = min(job[1] + job[3], budget)
            if held() + chunk > p.kv:
                break
            self.running.append(self.waiting.pop(0))
            serve(job, chunk)
        for job in got:
            job[3] += 1
            job[5] = 1
        finished = [job for job in got if job[3] == job[2]]
        self.running = [job for job in self.running if job not in finished]
        if not prefill and not decoding:
            return now, [], [], preempted
        at = now + p.step_ms(prefill, decoding, context, pairs) / 1000
        return at, [job[0] for job in got], sorted(job[0] for job in finished), preempted

    def cancel(self, number: int) -> None:
        self.waiting = [job for job in self.waiting if job[0] != number]
        self.running = [job for job in self.running if job[0] != number]


def drain(engine: Engine, now: float = 0.0) -> float:
    for _ in range(100_000):
        if engine.idle:
            return now
        now = engine.step(now).at
    raise AssertionError(f"never idle: {engine!r}")


profiles = st.builds(
    EngineProfile,
    a=st.just(7.0),
    b=st.just(0.05),
    c=st.just(0.3),
    d=st.just(0.01),
    e=st.sampled_from([0.0, 0.001]),
    kv=st.integers(30, 70),
    seqs=st.integers(1, 6),
    mbt=st.integers(6, 24),
)
lengths = st.tuples(st.integers(1, 18), st.integers(1, 12))
# A history: jobs that come, steps, and jobs (by number) whose client leaves.
events = st.one_of(lengths, st.just("step"), st.just("step"), st.integers(0, 20))
histories = st.builds(
    lambda burst, rest: [*burst, *rest], st.lists(lengths, min_size=1, max_size=8), st.lists(events, max_size=60)
)


@given(profiles, histories)
def test_the_same_as_the_rules_word_for_word(profile: EngineProfile, history: list[Any]) -> None:
    """Every step yields the tokens, ends, preemptions and times of the plain reading of the rules, cancels included."""
    engine, plain = Engine(profile), Plain(profile)
    jobs: list[Job] = []
    now = 0.0
    for event in [*history, *["step"] * 400]:
        if isinstance(event, tuple):
            job = Job(*event, tag=len(jobs))
            jobs.append(job)
            engine.submit(job)
            plain.waiting.append([job.tag, *event, 0, 0, 0])
        elif isinstance(event, int):
            if event < len(jobs):
                engine.cancel(jobs[event])
                plain.cancel(event)
        else:
            step = engine.step(now)
            at, tokens, finished, preempted = plain.step(now)
            assert step.at == pytest.approx(at, abs=1e-12)
            assert [job.tag for job in step.tokens] == tokens
            assert sorted(job.tag for job in step.finished) == finished
            assert [job.tag for job in step.preempted] == preempted
            assert engine.kv_used == sum(job[4] for job in plain.running)
            assert engine.waiting == len(plain.waiting)
            assert engine.running == len(plain.running)
            now = step.at


@given(profiles, histories)
def test_room_conservation_and_exact_counts(profile: EngineProfile, history: list[Any]) -> None:
    """KV is never above capacity; no job is lost or doubled; a job gets exactly its tokens; at the end all is free."""
    engine = Engine(profile)
    jobs: list[Job] = []
    seen: dict[Job, int] = {}
    firsts: list[Job] = []
    now = 0.0
    while history or not engine.idle:
        event = history.pop(0) if history else "step"
        if isinstance(event, tuple):
            jobs.append(Job(*event))
            engine.submit(jobs[-1])
        elif isinstance(event, int):
            if event < len(jobs):
                before = jobs[event].state
                assert engine.cancel(jobs[event]) is (before not in {JobState.FINISHED, JobState.CANCELLED})
        else:
            step = engine.step(now)
            assert (step.seconds > 0) is bool(step.tokens or step.prefill)
            now = step.at
            firsts += step.first
            for job in step.tokens:
                seen[job] = seen.get(job, 0) + 1
        assert 0 <= engine.kv_used <= profile.kv
        assert engine.running <= profile.seqs
        assert engine.submitted == engine.finished + engine.cancelled + engine.running + engine.waiting
        for job in jobs:
            assert engine.generated(job) == seen.get(job, 0) <= job.output_tokens
    assert engine.kv_used == engine.running == engine.waiting == 0
    assert len(firsts) == len(set(firsts))
    for job in jobs:
        if job.state is JobState.FINISHED:
            assert job.generated == job.output_tokens
            assert job.first is not None
            assert job.end is not None
            assert job.first <= job.end
            assert job.prefilled >= job.prompt_tokens
        else:
            assert job.state is JobState.CANCELLED
            assert job.end is None
    assert engine.finished + engine.cancelled == len(jobs)
    assert engine.generated_tokens == sum(seen.values())
    assert engine.prefill_tokens == sum(job.prefilled for job in jobs)


@given(st.lists(lengths, min_size=1, max_size=12), st.integers(0, 60))
def test_cancel_at_any_point_frees_everything(sizes: list[tuple[int, int]], steps: int) -> None:
    """FC-20: every client leaves, wherever its job is: the next step finds an engine as if nobody had come."""
    engine = Engine(TIGHT)
    jobs = [Job(*size) for size in sizes]
    for job in jobs:
        engine.submit(job)
    now = 0.0
    for _ in range(steps):
        now = engine.step(now).at
    for job in jobs:
        engine.cancel(job)
        assert engine.cancel(job) is False
    assert engine.idle
    assert engine.kv_used == 0
    assert engine.step(now).seconds == 0
    fresh, again = Job(10, 5), Job(10, 5)
    engine.submit(fresh)
    after = drain(engine, now) - now
    other = Engine(TIGHT)
    other.submit(again)
    assert after == pytest.approx(drain(other))


def test_deterministic() -> None:
    """The same jobs at the same times give the same steps, to the last bit."""

    def times() -> list[float | None]:
        engine = Engine(TIGHT)
        jobs = [Job(5 + n % 13, 3 + n % 7) for n in range(200)]
        for job in jobs:
            engine.submit(job)
        drain(engine)
        assert engine.preemptions > 0
        return [time for job in jobs for time in (job.first, job.end)]

    assert times() == times()


def test_the_time_of_a_step() -> None:
    """step = a + b*P + c*B + d*K, in ms; prefill is chunked by the budget, which decoding jobs use first."""
    engine = Engine(ROOMY)
    engine.submit(Job(100, 3))
    step = engine.step(0.0)
    assert step.seconds == pytest.approx((10 + 0.1 * 100) / 1000)
    assert [len(step.tokens), len(step.first), len(step.finished)] == [1, 1, 0]
    engine.submit(Job(300, 1))
    step = engine.step(1.0)
    assert step.prefill == 255
    assert step.seconds == pytest.approx((10 + 0.1 * 255 + 0.5 + 0.001 * 100) / 1000)
    step = engine.step(2.0)
    assert step.prefill == 45
    assert len(step.tokens) == len(step.finished) == 2
    assert engine.idle


def test_attention_pairs() -> None:
    """With e, a chunk costs chunk * (context before it + chunk / 2) more."""
    profile = EngineProfile(a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, kv=1000, seqs=8, mbt=8)
    engine = Engine(profile)
    engine.submit(Job(12, 1))
    assert engine.step(0.0).seconds == pytest.approx((1 + 8 * 4) / 1000)
    assert engine.step(0.0).seconds == pytest.approx((1 + 4 * (8 + 2)) / 1000)


def test_preemption_takes_the_last_admitted_and_recomputes() -> None:
    """Where KV runs out the newest goes back to the front, recomputes prompt and answer so far, and nobody is admitted
    in that step."""
    profile = EngineProfile(a=1.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=24, seqs=4, mbt=64)
    engine = Engine(profile)
    old, new, behind = Job(10, 8), Job(10, 8), Job(1, 1)
    engine.submit(old)
    engine.submit(new)
    for _ in range(3):
        engine.step(0.0)
    engine.submit(behind)
    step = engine.step(0.0)
    assert step.preempted == (new,)
    assert step.tokens == (old,)
    assert step.prefill == 0
    assert (engine.waiting, engine.kv_used) == (2, 13)
    drain(engine)
    assert new.prefilled == 10 + 13
    assert new.preemptions == 1
    assert new.generated == 8
    assert behind.end is not None
    assert new.first is not None


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    """Not even where the first chunk would fit into the room that the preempted one left."""
    profile = EngineProfile(a=1.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=24, seqs=4, mbt=6)
    engine = Engine(profile)
    old, new = Job(10, 10), Job(10, 10)
    engine.submit(old)
    engine.submit(new)
    steps = [engine.step(0.0)]
    while not steps[-1].preempted:
        steps.append(engine.step(0.0))
    assert steps[-1].preempted == (new,)
    assert (steps[-1].prefill, engine.running, engine.waiting) == (0, 1, 1)
    assert engine.kv_used + 5 <= profile.kv
    assert engine.step(0.0).prefill == 5


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5", None, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens"])
def test_bad_jobs(name: str, value: Any) -> None:
    """A token count that is no whole number above 0 is refused by name."""
    with pytest.raises(ConfigurationError, match=name):
        Job(**({"prompt_tokens": 1, "output_tokens": 1} | {name: value}))


def test_a_job_is_served_once_and_must_fit() -> None:
    """A job that could only preempt itself for ever, or was submitted before, is refused; nothing changes."""
    engine = Engine(TIGHT)
    with pytest.raises(ConfigurationError, match="60 KV tokens"):
        engine.submit(Job(50, 11))
    fits = Job(50, 10)
    engine.submit(fits)
    with pytest.raises(ConfigurationError, match="submitted before"):
        engine.submit(fits)
    assert engine.submitted == 1
    drain(engine)
    assert engine.kv_peak <= 60
    assert engine.cancel(Job(1, 1)) is False


def test_repr() -> None:
    """The state one would ask for."""
    engine = Engine(TIGHT)
    job = Job(20, 2)
    engine.submit(job)
    assert repr(engine) == "<Engine: 0 of 4 running, 1 waiting, KV 0 of 60, 0 finished>"
    engine.step(0.0)
    assert repr(job) == "<Job 20+2 prefilling, 0 generated>"
