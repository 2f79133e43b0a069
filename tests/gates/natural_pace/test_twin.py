"""The twin finds an engine's law of a step from starts and ends alone, and nothing that ends can spoil it."""

from __future__ import annotations

import json
from math import inf, isfinite, nan
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andante import Call, Concurrency, Controller, Cost, Ending, Gate, Outcome, ServiceClass
from andante.gates.natural_pace.nnls import nonnegative
from andante.gates.natural_pace.part import PartsGate
from andante.gates.natural_pace.step_law import COLD, StepLaw
from andante.gates.natural_pace.twin import Twin
from andante.gates.natural_pace.virtual_prefill import Prefill
from andante.simulate import ClientClass, EngineProfile, Request, profile, replay_controller, score, service_classes
from andante.testing import Visitor, gate_contract
from tests.gates.natural_pace.test_natural_pace import CLIENTS, arrivals

if TYPE_CHECKING:
    from andante.gate import Entry

CLASSES = (ServiceClass("chat", ttft=1.0, itl=0.05), ServiceClass("batch", e2e=600.0))


class TwinGate(PartsGate):
    """The twin as the only part."""

    def __init__(self) -> None:
        self.twin = Twin()
        super().__init__(self.twin)

    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        first = self.twin.first_result(self.flow.prompt(entry), now)
        return first, first + self.flow.expects(entry) * self.twin.itl(now)

    def dump(self) -> dict[str, Any]:
        return self.twin.dump()

    def load(self, state: dict[str, Any], age: float) -> None:
        self.twin.load(state, age)


def served(gate: Gate, requests: list[Request], engine: EngineProfile, clients: list[ClientClass] = CLIENTS) -> float:
    """Value within objectives where only ends are told."""
    controller = Controller(gate, classes=service_classes(clients))
    result = score(replay_controller(requests, engine, controller, tells="ends"), clients).value
    assert not controller.inside
    return result


# Nonnegative least squares. ------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=4, max_size=12), st.data())
def test_nonnegative_least_squares(rows: list[list[float]], data: st.DataObject) -> None:
    """The answer is the optimum (Karush, Kuhn, Tucker): x >= 0, no gradient where x > 0, none that pulls up."""
    y = data.draw(st.lists(st.floats(-3, 3), min_size=len(rows), max_size=len(rows)))
    a = [[sum(r[i] * r[j] for r in rows) + 0.01 * (i == j) for j in range(3)] for i in range(3)]
    b = [sum(r[i] * v for r, v in zip(rows, y, strict=True)) for i in range(3)]
    x = nonnegative(a, b)
    for i in range(3):
        pull = b[i] - sum(a[i][j] * x[j] for j in range(3))
        assert x[i] >= 0
        assert pull <= 1e-6 * (1 + abs(b[i]))
        if x[i] > 1e-9:
            assert pull >= -1e-6 * (1 + abs(b[i]))


def test_a_coefficient_comes_back() -> None:
    """Unconstrained, the second would be negative at first sight of the first alone; the optimum has both."""
    assert nonnegative([[1.0, 0.5], [0.5, 1.0]], [2.0, 1.5]) == pytest.approx([5 / 3, 2 / 3])
    assert nonnegative([[1.0, 0.9], [0.9, 1.0]], [1.0, -1.0]) == [1.0, 0.0]
    assert nonnegative([[1.0]], [-1.0]) == [0.0]


# The law of a step. --------------------------------------------------------------------------------------------------


def teach(law: StepLaw, t: tuple[float, float, float, float], calls: int, scale: float = 1.0) -> None:
    """Calls of a backend whose law is known, of all sizes, in the order of a fixed pattern."""
    for k in range(calls):
        output, n = 20 + 37 * k % 180, 1 + 11 * k % 40
        size, prefill = 300.0 * (1 + 7 * k % 90), 100.0 * (1 + 13 * k % 50)
        took = scale * (t[0] * output + t[1] * n * output + t[2] * size * output + t[3] * prefill)
        law.learn(output, n, size, prefill, took)


LAWS = [
    (11e-3, 39e-6, 81e-9, 64e-6),  # a large engine: steps are mostly fixed
    (0.2e-3, 2.3e-3, 0.0, 0.9e-3),  # four slots on a processor: company is all there is
    (32e-3, 60e-6, 48e-9, 136e-6),
]


@pytest.mark.parametrize("t", LAWS)
def test_it_finds_the_law(t: tuple[float, float, float, float]) -> None:
    """From ends alone: the step within 2 % and the price of one more within 10 %, at 5 and at 35 calls inside."""
    law = StepLaw()
    teach(law, t, 400)
    for n, size in ((5, 4000.0), (35, 20000.0)):
        true = t[0] + t[1] * n + t[2] * size
        assert law.base(n, size) == pytest.approx(true, rel=0.02)
        more = t[1] + 500 * t[2]
        assert law.base(n + 1, size + 500) - law.base(n, size) == pytest.approx(more, rel=0.1)
    assert law.per_prefill == pytest.approx(t[3], rel=0.05)


@pytest.mark.parametrize("factor", [0.5, 2.0, 3.0])
def test_it_follows_a_drift_and_back(factor: float) -> None:
    """FC-40: the backend becomes slower or faster. Forty calls later the law has followed, and it comes back."""
    law, t = StepLaw(), LAWS[0]
    teach(law, t, 300)
    before = law.base(20, 12000)
    teach(law, t, 40, factor)
    assert law.base(20, 12000) == pytest.approx(factor * before, rel=0.1)
    teach(law, t, 40)
    assert law.base(20, 12000) == pytest.approx(before, rel=0.1)
    assert law.t[0] > 0


@pytest.mark.parametrize("wrong", [1e-9, 1e-3, 60.0, 1e6])
@pytest.mark.parametrize("at", [0, 100])
def test_one_sample_spoils_nothing(wrong: float, at: int) -> None:
    """FC-39: one answer out of a cache, or one that hung for days, first of all or later, is soon forgotten."""
    law, t = StepLaw(), LAWS[0]
    teach(law, t, at)
    law.learn(100, 10, 6000, 500, wrong)
    if at:
        assert law.base(20, 12000) == pytest.approx(t[0] + 20 * t[1] + 12000 * t[2], rel=0.3)
    teach(law, t, 30)
    assert law.base(20, 12000) == pytest.approx(t[0] + 20 * t[1] + 12000 * t[2], rel=0.2)


weird = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -1.0, 1e308, 5e-324, inf, nan]))


@given(st.lists(st.tuples(weird, weird, weird, weird, weird), max_size=60))
def test_nonsense_leaves_the_law_finite(samples: list[tuple[float, float, float, float, float]]) -> None:
    """Whatever a call claims, coefficients stay finite, 0 or more, and a step takes some time."""
    law = StepLaw()
    teach(law, LAWS[0], 10)
    for sample in samples:
        law.learn(*sample)
    assert all(isfinite(t) and t >= 0 for t in law.t)
    assert 0.25 <= law.corr <= 4
    assert 0 < law.base(3, 1000) < inf
    assert 0 <= law.company(3, 1000) <= 1


# The virtual queue. --------------------------------------------------------------------------------------------------


@given(st.floats(0, 1e5), st.floats(0, 1e4), st.floats(1e-5, 1e-2), st.lists(st.floats(0, 5), max_size=6))
def test_the_virtual_queue_drains_alike_in_one_go(
    waiting: float, rate: float, each: float, pauses: list[float]
) -> None:
    """It does not matter how often one looks, no token is lost, and no rate is above what the backend can do."""
    start = Prefill(waiting, 0.0, rate)
    here = start
    for pause in pauses:
        here = here.after(pause, each)
    there = start.after(sum(pauses), each)
    assert here.waiting == pytest.approx(there.waiting, abs=1e-6 * (1 + waiting))
    assert here.waiting + here.done == pytest.approx(waiting)
    assert here.rate == pytest.approx(there.rate, rel=1e-6, abs=1e-6)
    assert 0 <= here.rate <= max(rate, 1 / each) * (1 + 1e-9)


# The twin. -----------------------------------------------------------------------------------------------------------


def run_alone(gate: TwinGate, step: float, each: float, calls: int, crowd: int, told: bool = True) -> float:
    """A backend whose step takes `step + each * n` seconds and that prefills in no time; calls of 20 to 80 tokens from
    a crowd that is always there. Returns how many are inside on average, once half of the calls have started."""
    draw = Random(3)
    inside: dict[Visitor, list[int]] = {}
    now, started = 0.0, 0
    steps = company = 0
    while started < calls or inside:
        while started < calls and len(inside) < crowd:
            visitor = Visitor(Call(Cost(input_tokens=20)), now)
            if gate.delay(visitor, now) > 0:
                break
            visitor.started = now
            gate.enter(visitor, now)
            inside[visitor] = [0, draw.randint(20, 80)]
            started += 1
        if calls / 2 < started < calls:
            steps, company = steps + 1, company + len(inside)
        now += step + each * len(inside)
        for visitor, length in list(inside.items()):
            length[0] += 1
            if length[0] == length[1]:
                cost = Cost(input_tokens=20, output_tokens=length[0]) if told else visitor.cost
                gate.leave(visitor, Outcome(Ending.DONE, now - visitor.arrived, None, 0.0, cost), now)
                del inside[visitor]
    return company / max(1, steps)


@pytest.mark.parametrize(
    ("step", "each", "least", "most"),
    [
        (0.010, 0.001, 31, 35),  # 0.88 x 50 ms allow 34 where a step takes 10 ms and 1 ms a call
        (0.010, 0.0, 100, 1000),  # company is free
        (0.0, 0.005, 1, 9),  # 0.88 x 50 ms allow 8
    ],
)
def test_as_many_as_the_goal_allows(step: float, each: float, least: float, most: float) -> None:
    """FC-38: from ends alone it finds how many the objective for gaps allows, and does not collapse below that."""
    gate = TwinGate()
    gate.bind([ServiceClass("chat", itl=0.05)])
    assert least <= run_alone(gate, step, each, 1500, 1000) <= most


def test_a_cold_start_lets_no_crowd_in() -> None:
    """Nothing has ended, so nothing is known: four are inside, however many come."""
    gate = TwinGate()
    gate.bind([ServiceClass("chat", itl=10.0)])
    for n in range(50):
        visitor = Visitor(Call(Cost(input_tokens=10)), n * 0.01)
        if gate.delay(visitor, n * 0.01) == 0:
            gate.enter(visitor, n * 0.01)
    assert gate.flow.inside == 4


def test_a_law_that_blames_prefill_lets_no_crowd_in() -> None:
    """FC-38's kind: where all prompts are alike, their cost and that of company look the same. After a rest no prompt
    is being prefilled; a crowd is measured by what it would have to prefill if it stayed."""
    gate = TwinGate()
    gate.bind([ServiceClass("chat", itl=0.05)])
    gate.load({"step": [0.0004, 0.0, 0.0, 0.0106], "ended": COLD, "told": True}, 0.0)
    for _ in range(500):
        visitor = Visitor(Call(Cost(input_tokens=20)), 0.0)
        if gate.delay(visitor, 0.0) == 0:
            gate.enter(visitor, 0.0)
    assert 8 <= gate.flow.inside <= 30


def test_a_call_that_tells_no_output() -> None:
    """Where no call tells its output the objective for gaps says nothing; where others do, it counts as their mean."""
    gate = TwinGate()
    gate.bind([ServiceClass("chat", itl=0.05)])
    run_alone(gate, 0.1, 0.0, 60, 8, told=False)
    assert gate.twin.law.ended == 60
    assert gate.twin.goal == inf
    told = TwinGate()
    told.bind([ServiceClass("chat", itl=0.05)])
    run_alone(told, 0.01, 0.001, 40, 4)
    before = told.twin.itl(1e3)
    run_alone(told, 0.01, 0.001, 40, 4, told=False)
    assert told.twin.goal < inf
    assert told.twin.itl(1e3) == pytest.approx(before, rel=0.2)


def test_what_has_ended_was_prefilled() -> None:
    """Evidence: however slow the law makes prefill, what ended is out of the virtual queue, with all before it."""
    gate = TwinGate()
    gate.bind(CLASSES)
    gate.load({"step": [0.01, 1e-5, 1e-8, 0.05], "ended": COLD, "told": True}, 0.0)
    first, second = (Visitor(Call(Cost(input_tokens=size)), 0.0) for size in (1000, 3000))
    gate.enter(first, 0.0)
    gate.enter(second, 0.0)
    assert gate.twin.prefill(1.0).waiting > 3900
    gate.leave(second, Outcome(Ending.DONE, 1.0, None, 0.0, Cost(input_tokens=3000, output_tokens=50)), 1.0)
    assert gate.twin.prefill(1.0).waiting == 0
    assert gate.twin.prefill(1.0).done == pytest.approx(4000)


def test_what_was_turned_away_teaches_nothing() -> None:
    """A 429 after two milliseconds is no fast call, and a call that was cancelled leaves the virtual queue."""
    gate = TwinGate()
    gate.bind(CLASSES)
    before = gate.twin.law.t
    for n in range(50):
        visitors = [Visitor(Call(Cost(input_tokens=500)), float(n)) for _ in range(2)]
        for visitor in visitors:
            gate.enter(visitor, float(n))
        gate.leave(visitors[0], Outcome(Ending.OVERLOADED, 0.002, None, 0.0, Cost(0.0)), n + 0.002)
        gate.leave(visitors[1], Outcome(Ending.IGNORED, 0.003, None, 0.0, visitors[1].cost), n + 0.003)
        assert gate.twin.prefill(n + 0.003).waiting == 0
    assert gate.twin.law.t == before
    assert gate.twin.law.ended == 0


def test_it_keeps_the_laws_of_gates() -> None:
    """With no objectives it is always open; asking, entering and undoing leave no trace."""
    gate_contract(TwinGate)


times = st.one_of(st.floats(-1, 3), st.sampled_from([0.0, 1e-12, 1e9, -1e6]))
tokens = st.one_of(st.floats(0, 4000), st.sampled_from([0.0, 1.0, 1e12, 1e308]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), times, tokens, tokens), max_size=60))
def test_nothing_that_happens_breaks_it(plan: list[tuple[int, int, float, float, float]]) -> None:
    """Whatever comes and goes, twice, with time running backwards: what it says is finite, and empty it is open."""
    gate = TwinGate()
    gate.bind(CLASSES)
    inside: dict[int, Visitor] = {}
    now = 0.0
    for who, what, pause, prompt, output in plan:
        now += pause
        if what <= 1 and who not in inside:
            inside[who] = Visitor(Call(Cost(input_tokens=prompt)), now)
            gate.enter(inside[who], now)
        elif what == 4 and who in inside:
            gate.undo(inside.pop(who), now)
        elif who in inside:
            visitor = inside.pop(who)
            ending = (Ending.DONE, Ending.DONE, Ending.OVERLOADED, Ending.IGNORED)[who % 4]
            gate.leave(visitor, Outcome(ending, pause, None, 0.0, Cost(output_tokens=output)), now)
            gate.leave(visitor, Outcome(ending, pause, None, 0.0, Cost(output_tokens=output)), now)
        twin = gate.twin
        assert 0 < twin.itl(now) < inf
        assert 0 < twin.first_result(prompt, now) < inf
        assert twin.prefill(now).waiting >= 0
    json.dumps([gate.twin.snapshot(now), gate.twin.dump()], allow_nan=False)
    for visitor in inside.values():
        gate.undo(visitor, now)
    assert gate.twin.prefill(now).waiting == 0
    assert gate.delay(Visitor(Call(), now), now) == 0


# Over restarts. ------------------------------------------------------------------------------------------------------


def test_what_was_learned_survives_a_restart() -> None:
    """The law is there again; after a long rest only as where to begin, with a start as careful as a new one's."""
    gate = TwinGate()
    gate.bind(CLASSES)
    run_alone(gate, 0.01, 0.001, 200, 1000)
    state = json.loads(json.dumps(gate.dump()))
    soon, late = Twin(), Twin()
    soon.load(state, 60.0)
    late.load(state, 3600.0)
    assert soon.dump() == state
    assert soon.law.base(10, 500) == pytest.approx(gate.twin.law.base(10, 500))
    assert late.law.base(10, 500) == pytest.approx(gate.twin.law.base(10, 500))
    assert late.law.ended == 0


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"step": None},
        {"step": [nan, 0.0, 0.0, 0.0], "ended": 30},
        {"step": [-1.0, 0.0, 0.0, 0.0], "ended": 30},
        {"step": [0.0, 0.0, 0.0, 1.0], "ended": 30},
        {"step": ["1", 0, 0, 0], "ended": 30},
        {"step": [0.01, 0.0, 0.0], "ended": 30},
        {"step": [0.01, 0.0, 0.0, 0.0], "ended": nan, "share": inf, "late": True},
    ],
)
def test_nonsense_is_not_loaded(state: dict[str, Any]) -> None:
    """A state file that somebody edited does no harm."""
    twin = Twin()
    twin.load(state, 0.0)
    assert twin.dump() == Twin().dump()


# In front of the engine model. ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("load", "better_by"), [(0.5, -0.01), (1.5, 0.005), (3.0, 0.03)])
def test_as_good_as_the_best_static_limit(load: float, better_by: float) -> None:
    """Untold, and with no stream to look at, it serves as much value in time as the best limit of a sweep, and more."""
    requests, engine = arrivals(load, 120, seed=5), profile("a100-8b")
    best = max(served(Concurrency(limit), requests, engine) for limit in (48, 64, 80, 96, 128))
    assert served(TwinGate(), requests, engine) >= best + better_by
