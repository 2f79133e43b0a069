"""A scraped gauge: how often it is read, how late it is seen, and what a gate makes of it."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.reading import NEVER, Reading, Signal
from andante.simulate.engine import Engine
from andante.simulate.imperfect import noisy
from andante.simulate.job import Job
from andante.simulate.mixes import MIXES
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.scraped import Scraped, kv_use
from andante.simulate.shapes import draw, steady
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import service_classes
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from andante.gate import Entry

FLAT = EngineProfile(a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64)
CHAT = MIXES["chat"]


def seen(every: float, age: float) -> list[Reading]:
    """What is read after each of 12 steps of 0.1 s; one more token of KV each, from 10 on."""
    engine = Engine(FLAT)
    signal = Scraped(engine, lambda: kv_use(engine), every=every, age=age)
    assert isinstance(signal, Signal)
    assert signal.read() is NEVER
    signal.submit(Job(10, 100))
    readings = []
    for n in range(12):
        signal.step(n / 10)
        readings.append(signal.read())
    return readings


def test_samples_by_hand() -> None:
    """Each step, each half second, and each half second but seen 0.3 s late: with the true time of the sample."""
    assert [r.value for r in seen(0.0, 0.0)] == pytest.approx([0.0, *(n / 1000 for n in range(10, 21))])
    assert [r.at for r in seen(0.5, 0.0)] == [0.0] * 5 + [0.5] * 5 + [1.0] * 2
    assert [r.at for r in seen(0.5, 0.3)] == [-inf] * 3 + [0.0] * 5 + [0.5] * 4


class Watch(Gate):
    """Shut above 85 % of the KV cache, as far as it is known."""

    def __init__(self, signal: Signal, stale_after: float) -> None:
        super().__init__(name="watch")
        self.signal, self.stale_after = signal, stale_after

    def delay(self, entry: Entry, now: float) -> float:
        used = self.signal.read().known(now, self.stale_after)
        return inf if used is not None and used > 0.85 else 0.0

    def look(self, now: float) -> float:
        return now + 0.1


def test_old_news_help_less() -> None:
    """On an engine with little KV a gate serves more by a fresh gauge than by one that is 10 s old; nothing is lost by
    either."""
    clients = [client for client, _ in CHAT]
    requests = draw(steady(), CHAT, 6.0, 40.0, seed=3)
    values = []
    for every, age in ((0.1, 0.0), (0.5, 10.0)):
        engine = Engine(PROFILES["rtx4090-8b"])
        signal = Scraped(noisy(engine, 0.1), lambda engine=engine: kv_use(engine), every=every, age=age)
        gate = Watch(signal, stale_after=60.0)
        controller = Controller(gate, classes=service_classes(clients))
        records = replay_controller(requests, signal, controller)
        accounted(records, controller)
        assert engine.submitted == engine.finished + engine.cancelled
        values.append(sum(r.request.client.value for r in records if r.met))
    assert values[0] > 1.2 * values[1]


@pytest.mark.parametrize("bad", [-1, nan, inf, True, "1", None])
def test_bad_numbers(bad: Any) -> None:
    """Times that make no sense are named."""
    for name in ("every", "age"):
        with pytest.raises(ConfigurationError, match=name):
            Scraped(Engine(FLAT), lambda: 0.0, **{name: bad})
