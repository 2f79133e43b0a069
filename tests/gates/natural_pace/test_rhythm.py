"""What was held back comes at a walking pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante import Call, Controller, NaturalPace, ServiceClass
from andante.gates.natural_pace.part import PartsGate
from andante.gates.natural_pace.rhythm import Rhythm
from andante.simulate import ClientClass, Engine, Request, profile, replay_controller, service_classes
from andante.simulate.imperfect import stopped
from andante.testing import Visitor

CLIENTS = [ClientClass("chat", share=1, value=1, ttft=1.0, itl=0.06, leaves_without_first=30.0)]


def test_one_at_first_then_twice_the_pace() -> None:
    """Without a pace one start in 100 ms; at ten calls a second, three."""
    part = Rhythm()
    gate = PartsGate(part)
    gate.bind((ServiceClass("chat"),))
    gate.enter(Visitor(Call(), 0.0), 0.0)
    assert not part.room(Visitor(Call(), 0.05), 0.05)
    assert part.room(Visitor(Call(), 0.1), 0.1)
    for n in range(1000):
        part.flow.done.add(1.0, n / 10)
    assert part.most(99.9) == pytest.approx(3.0, rel=0.05)


@given(st.lists(st.floats(0, 0.2), max_size=60))
def test_never_more_than_its_measure(waits: list[float]) -> None:
    """Whoever asks whenever: no 100 ms hold more starts than were allowed."""
    part = Rhythm()
    gate = PartsGate(part)
    gate.bind((ServiceClass("chat"),))
    now, starts = 0.0, []
    for wait in waits:
        now += wait
        if gate.delay(Visitor(Call(), now), now) == 0:
            gate.enter(Visitor(Call(), now), now)
            starts.append(now)
    assert all(sum(start - 0.1 < other <= start for other in starts) <= part.most(now) for start in starts)


def test_after_a_stall_nobody_floods_the_engine() -> None:
    """The engine stands still for five seconds; what waited then comes in at twice the pace plus one in any 100 ms, and
    the first results of those let in keep their objective in 99 of 100 cases."""
    requests = [Request(n / 9, 300, 100, CLIENTS[0]) for n in range(9 * 60)]
    gate = NaturalPace()
    records = replay_controller(
        requests,
        stopped(Engine(profile("a100-8b")), 5.0, at=30.0),
        Controller(gate, classes=service_classes(CLIENTS)),
    )
    starts = sorted(r.entered for r in records if r.entered is not None and r.entered >= 34.0)
    busiest = max(sum(start - 0.1 < other <= start for other in starts) for start in starts)
    assert busiest <= 2 * 9.5 * 0.1 + 1
    after = sorted(r.ttft for r in records if r.ttft is not None and r.entered is not None and r.entered >= 35.5)
    assert after[int(0.99 * len(after))] <= 1.0
