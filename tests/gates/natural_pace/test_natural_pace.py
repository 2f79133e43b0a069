"""NaturalPace finds what an engine can sustain, and nothing it holds is lost."""

from __future__ import annotations

from math import inf, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante import Call, Concurrency, Controller, Cost, Ending, Gate, Outcome, ServiceClass, State
from andante.gates.natural_pace import IntertokenGate, Knee, MemoryCeiling, NaturalPace, PrefillWindow
from andante.gates.natural_pace.least_squares import Line
from andante.gates.natural_pace.prefill import FirstResultLine
from andante.simulate import ClientClass, EngineProfile, Request, profile, replay_controller, score, service_classes
from andante.testing import Visitor, gate_contract

CLIENTS = [
    ClientClass("interactive", share=50, value=3, ttft=1.0, itl=0.06, leaves_without_first=10.0),
    ClientClass("standard", share=30, value=2, e2e=30.0, leaves=60.0),
    ClientClass("batch", share=20, value=1, e2e=600.0),
]
LENGTHS = [(300, 1.0, 120, 0.8, 4096), (700, 1.0, 180, 0.8, 512), (1000, 0.8, 250, 0.8, 4096)]
CLASSES = (ServiceClass("chat", ttft=1.0, itl=0.05), ServiceClass("batch"))


def arrivals(load: float, seconds: float, seed: int) -> list[Request]:
    """Poisson arrivals at `load` times 10.27 calls/s, what a saturated a100-8b serves of this mix."""
    draw, at, requests = Random(seed), 0.0, []
    while (at := at + draw.expovariate(load * 10.27)) < seconds:
        kind = draw.choices(range(3), (50, 30, 20))[0]
        prompt, spread, output, width, longest = LENGTHS[kind]
        requests.append(
            Request(
                at,
                max(1, min(8192, int(draw.lognormvariate(log(prompt), spread)))),
                max(2, min(longest, int(draw.lognormvariate(log(output), width)))),
                CLIENTS[kind],
            )
        )
    return requests


def value(gate: Gate, requests: list[Request]) -> float:
    controller = Controller(gate, classes=service_classes(CLIENTS))
    result = score(replay_controller(requests, profile("a100-8b"), controller), CLIENTS).value
    assert not controller.inside
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("load", "better_by"), [(0.5, -0.006), (1.5, 0.005), (3.0, 0.03)])
def test_as_good_as_the_best_static_limit(load: float, better_by: float) -> None:
    """Untold, it serves as much value in time as the best limit of a sweep, and more under overload."""
    requests = arrivals(load, 120, seed=5)
    best = max(value(Concurrency(limit), requests) for limit in (48, 64, 80, 96, 128))
    assert value(NaturalPace(), requests) >= best + better_by


def test_a_silent_start_lets_no_crowd_in() -> None:
    """While no first result has come there is no evidence, and one prompt at a time is on its way."""
    controller = Controller(NaturalPace(), classes=CLASSES)
    tickets = [controller.offer(Call(Cost(input_tokens=100), service="chat"), n * 0.01) for n in range(50)]
    for tick in range(9):
        controller.step(0.5 + tick * 0.05)
    assert sum(ticket.state is State.ADMITTED for ticket in tickets) == 1


def test_one_terrible_first_sample_is_soon_forgotten() -> None:
    """A first result after five seconds of silence does not poison the line: five samples on it tells the truth."""
    line = FirstResultLine()
    line.learn(60, 5.0)
    for ahead in (100, 200, 150, 400, 300, 250):
        line.learn(ahead, 0.02 + 0.001 * ahead)
    assert line.predict(300) == pytest.approx(0.32, rel=0.35)


@pytest.mark.parametrize(("alone", "each", "most"), [(0.010, 0.004, 8), (0.0, 0.010, 2)])
def test_with_one_more(alone: float, each: float, most: int) -> None:
    """The gate looks at the gap that one more would make: 42.5 ms allow eight where a step takes 10 ms + 4 ms a call.

    Where company is all there is, a second one buys nothing, and the knee stops there.
    """
    gate = IntertokenGate()
    gate.bind(CLASSES)
    inside: list[Visitor] = []
    now = 0.0
    while gate.delay(Visitor(Call(), now), now) == 0 and len(inside) < 20:
        inside.append(Visitor(Call(), now))
        gate.enter(inside[-1], now)
        for _ in range(100):
            now += alone + each * len(inside)
            for visitor in inside:
                gate.progress(visitor, 1, now)
                visitor.first = visitor.first or now
                visitor.last = now
    assert len(inside) == most


def test_a_large_model_is_not_held_at_one() -> None:
    """32 ms a token alone, 0.1 ms more for each in company: under 60 ms there is room for many, although twice 32 ms is
    too much. One more comes in to show it."""
    requests = [Request(n / 4, 200, 100, CLIENTS[0]) for n in range(4 * 60)]
    records = replay_controller(
        requests,
        EngineProfile(a=32.0, b=0.01, c=0.1, d=0.0, e=0.0, kv=10**6, seqs=256, mbt=2048),
        Controller(NaturalPace(), classes=service_classes(CLIENTS)),
    )
    assert sum(record.met for record in records) > 0.9 * len(requests)


def test_a_stall_cuts_the_ceiling() -> None:
    """A stream that stands still while the others go on was put aside: what is inside was too much."""
    gate = MemoryCeiling()
    gate.bind(CLASSES)
    inside = [Visitor(Call(Cost(input_tokens=1000)), 0.0) for _ in range(3)]
    for visitor in inside:
        gate.enter(visitor, 0.0)
    now = 0.0
    for step in range(100):
        now += 0.02
        for visitor in inside[: 3 if step < 20 else 2]:
            gate.progress(visitor, 1, now)
            visitor.last = now
    assert gate.snapshot(now)["memory_ceiling"]["stalls"] == 1
    assert gate.snapshot(now)["memory_ceiling"]["ceiling"] < gate.flow.size


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.floats(0, 0.3), st.integers(0, 5000)), max_size=80))
def test_nothing_is_lost(plan: list[tuple[int, int, float, int]]) -> None:
    """Whatever comes and goes in whatever order, at the end nothing is inside, ahead or held, and the gate is open."""
    gate = NaturalPace()
    gate.bind(CLASSES)
    inside: dict[int, Visitor] = {}
    now = 0.0
    for who, what, pause, prompt in plan:
        now += pause
        if what == 0 and who not in inside:
            inside[who] = Visitor(Call(Cost(input_tokens=prompt)), now)
            gate.enter(inside[who], now)
        elif what == 1 and who in inside:
            gate.progress(inside[who], 1, now)
            inside[who].last = now
        elif what == 2 and who in inside:
            ending = (Ending.DONE, Ending.OVERLOADED, Ending.IGNORED)[who % 3]
            cost = inside[who].cost
            gate.leave(inside.pop(who), Outcome(ending, 0.1, None, 1.0, cost), now)
        elif what == 3 and who in inside:
            gate.undo(inside.pop(who), now)
        flow = gate.flow
        assert flow.inside == len(inside)
        assert flow.ahead >= -1e-6
        assert flow.size >= -1e-6
    for visitor in inside.values():
        gate.undo(visitor, now)
    assert gate.flow.inside == 0
    gate.flow.lay(inf)
    assert gate.flow.ahead == pytest.approx(0, abs=1e-6)
    assert gate.delay(Visitor(Call(), now), now) == 0


@pytest.mark.parametrize("make", [IntertokenGate, PrefillWindow, MemoryCeiling, Knee])
def test_parts_keep_the_laws_of_gates(make: type[Gate]) -> None:
    gate_contract(make, exempt=("capacity",) if make is Knee else ())  # a knee that was found is not forgotten


def test_state_survives_a_restart() -> None:
    """What was learned is known again; a ceiling only for ten minutes."""
    gate = NaturalPace()
    state = gate.dump() | {"alpha": 0.05, "beta": 0.002, "ceiling": 5000.0, "knee": {"limit": 40.0}}
    soon, late = NaturalPace(), NaturalPace()
    soon.load(state, 60)
    late.load(state, 3600)
    assert soon.dump() == state
    assert late.dump() == state | {"ceiling": None, "knee": {"limit": 20.0}}


@given(st.floats(-5, 5), st.floats(-5, 5), st.lists(st.integers(0, 100), min_size=3, max_size=30))
def test_the_slope_of_a_straight_line(slope: float, base: float, xs: list[int]) -> None:
    """Points on a line give its slope, where x varies."""
    line = Line()
    for x in xs:
        line.fade(0.9)
        line.add(x, base + slope * x)
    if line.varies():
        assert line.slope() == pytest.approx(slope, abs=1e-3)
