"""Gateways that hear imperfectly: what they hear by hand, and that no call is lost by it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.gates.concurrency import Concurrency
from andante.simulate.engine import Engine
from andante.simulate.hearsay import Chunks, Late, misjudged, prefix_cached
from andante.simulate.job import Job
from andante.simulate.mixes import MIXES
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.record import Fate
from andante.simulate.shapes import draw, steady
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, service_classes
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from andante.gate import Entry
    from andante.ticket import Ticket
    from andante.values import Outcome

FLAT = EngineProfile(a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64)
CALM = ClientClass("calm", share=1)
A100 = PROFILES["a100-8b"]
CHAT = MIXES["chat"]
CLIENTS = [client for client, _ in CHAT]


class Ear(Gate):
    """Writes down what it hears, and of whom."""

    def __init__(self) -> None:
        super().__init__(name="ear")
        self.tokens: dict[Entry, list[tuple[float, float]]] = defaultdict(list)
        self.ends: dict[Entry, tuple[float, Outcome]] = {}

    def progress(self, entry: Entry, items: float, now: float) -> None:
        self.tokens[entry].append((now, items))

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        assert entry not in self.ends
        self.ends[entry] = (now, outcome)


def ear_and_controller(*gates: Gate) -> tuple[Ear, Controller[Ticket]]:
    ear = Ear()
    return ear, Controller(ear, *gates, classes=service_classes(CLIENTS))


@pytest.mark.parametrize("counted", [True, False])
def test_chunks_by_hand(counted: bool) -> None:
    """Of 11 tokens in chunks of 4: the first at once, then 4, 4, and the last 2 with the end."""
    ear = Ear()
    controller = Controller(ear, classes=service_classes([CALM]))
    replay_controller([Request(0.0, 4, 11, CALM)], FLAT, Chunks(controller, 4, counted=counted))
    ((_, heard),) = ear.tokens.items()
    assert [at for at, _ in heard] == pytest.approx([0.1, 0.5, 0.9, 1.1], abs=1e-4)
    assert [items for _, items in heard] == ([1, 4, 4, 2] if counted else [1, 1, 1, 1])
    ((_, outcome),) = ear.ends.values()
    assert outcome.items == (11 if counted else 4)
    assert outcome.cost is not None
    assert outcome.cost.output_tokens == 11


def test_chunks_of_one_are_streams() -> None:
    """Chunks of one token change nothing."""
    requests = draw(steady(), CHAT, 12.0, 15.0)
    heard = []
    for tokens in (None, 1):
        ear, controller = ear_and_controller(Concurrency(64))
        records = replay_controller(requests, A100, Chunks(controller, tokens) if tokens else controller)
        heard.append(([r.over for r in records], list(ear.tokens.values())))
    assert heard[0] == heard[1]


def test_chunks_lose_nothing() -> None:
    """All tokens of every complete answer are told, in fewer pieces; nobody is lost, also of clients that leave."""
    requests = draw(steady(), CHAT, 14.0, 20.0)
    ear, controller = ear_and_controller(Concurrency(300))
    records = replay_controller(requests, A100, Chunks(controller, 4))
    fates = accounted(records, controller)
    assert fates[Fate.DONE] > 100
    for entry, (_, outcome) in ear.ends.items():
        assert outcome.items == sum(items for _, items in ear.tokens[entry])
        assert all(items == 4 for _, items in ear.tokens[entry][1:-1])
    done = [r for r in records if r.fate is Fate.DONE]
    assert sum(o.items or 0 for _, o in ear.ends.values()) >= sum(r.request.output_tokens for r in done)


def test_late_news_by_hand() -> None:
    """Each token is heard up to 50 ms late, in order; the end after the last token; the client sees it in time."""
    ear = Ear()
    controller = Controller(ear, classes=service_classes([CALM]))
    (record,) = replay_controller([Request(0.0, 4, 200, CALM)], FLAT, Late(controller, 0.25, seed=3))
    ((entry, heard),) = ear.tokens.items()
    true = [0.1 * n for n in range(1, 201)]
    delays = [at - when for (at, _), when in zip(heard, true, strict=True)]
    assert all(-1e-9 <= delay <= 0.25 + 1e-3 for delay in delays)
    assert max(delays) > 0.2
    assert min(delays) < 0.05
    assert all(a <= b for (a, _), (b, _) in pairwise(heard))
    assert ear.ends[entry][0] >= heard[-1][0]
    assert record.over == pytest.approx(20.0, abs=1e-3)


def test_late_news_lose_nothing() -> None:
    """The controller's books close, though it learns of every end later than the client."""
    requests = draw(steady(), CHAT, 14.0, 20.0)
    ear, controller = ear_and_controller(Concurrency(64))
    records = replay_controller(requests, A100, Late(Chunks(controller, 4), 0.05))
    accounted(records, controller)
    after = {(r.over, r.fate) for r in records}
    assert len(ear.ends) == sum(lane.started for lane in controller.plan.lanes)
    assert after


def test_wrong_sizes() -> None:
    """Told sizes are off by up to 2x, either way alike, and nothing else changes; the usage at the end is true."""
    requests = draw(steady(), CHAT, 14.0, 20.0)
    wrong = misjudged(requests, 2.0, seed=1)
    factors = [(w.told or 0) / r.prompt_tokens for w, r in zip(wrong, requests, strict=True) if r.prompt_tokens > 50]
    assert 0.49 < min(factors) < 0.6
    assert 1.8 < max(factors) < 2.01
    assert 0.4 < sum(factor > 1 for factor in factors) / len(factors) < 0.6
    assert [(w.at, w.prompt_tokens, w.output_tokens) for w in wrong] == [
        (r.at, r.prompt_tokens, r.output_tokens) for r in requests
    ]
    assert wrong == misjudged(requests, 2.0, seed=1) != misjudged(requests, 2.0, seed=2)
    ear, controller = ear_and_controller(Concurrency(64))
    records = replay_controller(wrong, A100, controller)
    accounted(records, controller)
    assert {e.cost.input_tokens for e in ear.ends} <= {float(w.told or 0) for w in wrong}
    done = sum(r.request.prompt_tokens for r in records if r.fate is Fate.DONE)
    told = sum(o.cost.input_tokens for _, o in ear.ends.values() if o.ending.value == "done" and o.cost is not None)
    assert told == done


def test_a_cached_prefix_is_not_computed() -> None:
    """FLAT computes 64 tokens a step: of 200 tokens with 120 cached it needs two steps in place of four; the KV of the
    whole prompt is held all the same, and what was preempted finds the cache again."""
    by_hand = EngineProfile(a=100.0, b=1.0, c=0.0, d=0.0, e=0.0, kv=260, seqs=4, mbt=64)
    engine = Engine(by_hand)
    job = Job(200, 3, cached_tokens=120)
    engine.submit(job)
    step = engine.step(0.0)
    assert (step.prefill, engine.kv_used) == (64, 184)
    assert (engine.step(1.0).prefill, job.first) == (16, pytest.approx(1.116))
    engine.step(2.0)
    engine.step(3.0)
    assert (job.prefilled, engine.kv_used, engine.idle) == (80, 0, True)

    crowd = [Job(100, 60, cached_tokens=60) for _ in range(3)]
    for each in crowd:
        engine.submit(each)
    now = 10.0
    while not engine.idle:
        now = engine.step(now).at
        assert engine.kv_used <= 260
    assert engine.preemptions
    assert [each.generated for each in crowd] == [60, 60, 60]
    assert engine.kv_used == 0
    preempted = [each for each in crowd if each.preemptions]
    assert all(40 < each.prefilled <= (40 + 60) * (1 + each.preemptions) for each in preempted)

    requests = draw(steady(), CHAT, 20.0, 25.0)
    half = prefix_cached(requests, seed=1)
    assert all(0 <= r.cached <= 0.6 * r.prompt_tokens for r in half)
    assert any(r.cached >= 0.3 * r.prompt_tokens for r in half)
    values = []
    for calls in (requests, half):
        controller = Controller(Concurrency(64), classes=service_classes(CLIENTS))
        records = replay_controller(calls, A100, controller)
        accounted(records, controller)
        values.append(sum(r.request.client.value for r in records if r.met))
    assert values[1] > values[0]


@pytest.mark.parametrize("bad", [0, -1, nan, inf, True, "8", None])
def test_bad_numbers(bad: Any) -> None:
    """What makes no sense is named."""
    controller = Controller()
    for make in (
        lambda: Chunks(controller, bad),
        lambda: Late(controller, bad),
        lambda: misjudged([], bad),
        lambda: prefix_cached([], bad, 0.0),
        lambda: Job(10, 10, cached_tokens=bad if bad != 0 or bad is True else 10),
    ):
        if make.__code__.co_names == ("prefix_cached",) and bad == 0:
            continue  # no cache at all is fine
        with pytest.raises(ConfigurationError):
            make()
