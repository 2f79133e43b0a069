"""What a replay through a bare controller tells it, when it ends, and what becomes of each request."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.gates.concurrency import Concurrency
from andante.simulate.engine import Engine
from andante.simulate.mixes import MIXES
from andante.simulate.policies import admission, no_control
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.record import Fate, Record
from andante.simulate.replay import replay
from andante.simulate.shapes import draw, steady
from andante.simulate.slots import SlotEngine
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, Retry, service_classes
from andante.values import Cost, Ending, Outcome
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.gate import Entry
    from andante.ticket import Ticket

FLAT = EngineProfile(a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64)
CALM = ClientClass("calm", share=1)
A100 = PROFILES["a100-8b"]
CHAT = MIXES["chat"]
CLIENTS = [client for client, _ in CHAT]


class Ends(Gate):
    """Writes down what it hears of ends."""

    def __init__(self, places: int) -> None:
        super().__init__(name="ends")
        self.places = places
        self.inside = 0
        self.heard: list[tuple[Any, ...]] = []
        self.told = 0.0

    def delay(self, entry: Entry, now: float) -> float:
        return 0.0 if self.inside < self.places else float("inf")

    def enter(self, entry: Entry, now: float) -> None:
        self.inside += 1

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        self.inside -= 1
        self.heard.append(
            (now, outcome.ending, outcome.seconds, outcome.ttft, outcome.items, outcome.cost, entry.first, entry.last)
        )


class EachToken(Ends):
    """Hears of each token, too, and makes nothing of it."""

    def progress(self, entry: Entry, items: float, now: float) -> None:
        self.told += items


def chat(load: float = 12.0, seconds: float = 40.0, seed: int = 3) -> list[Request]:
    return draw(steady(), CHAT, load, seconds, seed=seed)


@pytest.mark.parametrize("places", [16, 96, 400])
def test_tokens_told_together_change_nothing(places: int) -> None:
    """Where no gate listens to each token, what ends tell (time to first token, items, last token, cost) and every
    decision are those of a run in which each token is told: also of clients that leave."""
    soft = service_classes([ClientClass(client.name, share=1) for client in CLIENTS])
    for classes in (service_classes(CLIENTS), soft):
        runs = []
        for gate in (Ends(places), EachToken(places)):
            controller = Controller(gate, classes=classes)
            records = replay_controller(chat(), A100, controller)
            accounted(records, controller)
            runs.append(([(r.fate, r.entered, r.over, r.reason) for r in records], gate.heard, gate.told))
        (fates, heard, told), (every_fate, every_heard, every_told) = runs
        assert fates == every_fate
        assert heard == every_heard
        assert told == 0.0 < every_told


def test_a_gate_that_listens_in_one_class_only() -> None:
    """A class whose own gate listens hears each token; the calls of the others end the same as ever."""
    gate = EachToken(1000)
    interactive, *others = service_classes(CLIENTS)
    controller = Controller(Ends(60), classes=[changed(interactive, gates=(gate,)), *others])
    records = replay_controller(chat(), A100, controller)
    accounted(records, controller)
    mine = [r for r in records if r.request.client.name == "interactive" and r.fate is Fate.DONE]
    assert mine
    assert gate.told >= sum(r.request.output_tokens for r in mine)
    shared = controller.plan.gates[0]
    assert isinstance(shared, Ends)
    for _, ending, _, _, items, cost, _, _ in shared.heard:
        assert cost is not None
        if ending is Ending.DONE:
            assert items == cost.output_tokens


@pytest.mark.parametrize("tells", ["streams", "ends"])
def test_what_the_gateway_is_told(tells: Any) -> None:
    """ "ends": no token, no time to first token, but the usage with the end; "streams": all of it."""
    gate = EachToken(8)
    request = Request(0.5, 40, 5, CALM, told=30, cached=8)
    records = replay_controller([request], FLAT, Controller(gate, classes=service_classes([CALM])), tells=tells)
    ((now, ending, seconds, ttft, items, cost, first, _),) = gate.heard
    assert (ending, cost) == (Ending.DONE, Cost(input_tokens=40, output_tokens=5, cached_tokens=8))
    assert (now, seconds) == (records[0].over, pytest.approx(0.5, abs=1e-4))
    assert records[0].ttft == pytest.approx(0.1, abs=1e-4)  # the client sees its tokens, whatever the gateway hears
    if tells == "ends":
        assert (ttft, items, first, gate.told) == (None, 0, None, 0)
    else:
        assert (ttft, items, gate.told) == (pytest.approx(0.1, abs=1e-4), 5, 5)


@pytest.mark.parametrize("tells", ["streams", "ends"])
def test_both_drivers_tell_the_same(tells: Any) -> None:
    """Law 11: an admission on an event loop hears the same ends, with the same usage."""
    gates = [EachToken(40), EachToken(40)]
    requests = chat(seconds=20.0)
    bare = replay_controller(requests, A100, Controller(gates[0], classes=service_classes(CLIENTS)), tells=tells)
    loop = replay(requests, A100, admission(CLIENTS, lambda: [gates[1]]), tells=tells)
    assert [r.fate for r in bare] == [r.fate for r in loop]
    told = [Counter((e[1], e[4], e[5]) for e in gate.heard) for gate in gates]
    assert told[0] == told[1]
    assert gates[0].told == gates[1].told
    assert (gates[0].told == 0) == (tells == "ends")


def test_the_replay_ends_when_told() -> None:
    """At `until` whoever is there leaves, once; who would come later has no record; both drivers agree."""
    requests = chat(load=20.0)
    controller = Controller(Concurrency(64), classes=service_classes(CLIENTS))
    bare = replay_controller(requests, A100, controller, until=25.0)
    fates = accounted(bare, controller)
    assert [r.request for r in bare] == [r for r in requests if r.at < 25.0]
    assert max(r.over or 0.0 for r in bare) == 25.0
    assert fates[Fate.LEFT] >= 64
    loop = replay(requests, A100, admission(CLIENTS, lambda: [Concurrency(64)]), until=25.0)
    assert [r.fate for r in bare] == [r.fate for r in loop]
    assert replay(requests, A100, no_control, until=0) == []


def test_any_engine_model_plugs_in() -> None:
    """An engine in place of its profile is the same replay; another model serves as well, with a loop and without."""
    requests = chat(seconds=10.0)
    classes = service_classes(CLIENTS)
    engine = Engine(A100)
    ours = replay_controller(requests, engine, Controller(Concurrency(64), classes=classes))
    theirs = replay_controller(requests, A100, Controller(Concurrency(64), classes=classes))
    assert [r.over for r in ours] == [r.over for r in theirs]
    assert engine.submitted == engine.finished + engine.cancelled > 0
    small = [Request(r.at, 20, 5, CALM) for r in requests]
    bare = replay_controller(small, SlotEngine(), Controller(classes=service_classes([CALM])))
    loop = replay(small, SlotEngine(), no_control)
    assert [r.over for r in bare] == pytest.approx([r.over for r in loop], abs=1e-6)


def refusing(retry: Retry | None) -> tuple[list[Record], Controller[Ticket]]:
    """Two places, a client class that waits 0.2 s for its first token, and a rush."""
    hasty = ClientClass("hasty", share=1, ttft=0.3, leaves=5.0)
    requests = [Request(0.01 * n, 4, 5, hasty) for n in range(8)]
    controller = Controller(Concurrency(2), classes=service_classes([hasty]))
    return replay_controller(requests, FLAT, controller, retry=retry), controller


def test_a_refused_client_comes_again() -> None:
    """One retry: more offers, one record a request; who is served at the second try counts once, from its arrival."""
    without, controller = refusing(None)
    fates = accounted(without, controller)
    assert fates[Fate.REFUSED] == 6
    records, controller = refusing(Retry(after=1.0))
    again = accounted(records, controller)
    offered = sum(lane.offered for lane in controller.plan.lanes)
    assert 8 < offered <= 16
    assert again[Fate.DONE] > fates[Fate.DONE]
    late = [r for r in records if r.fate is Fate.DONE and r.entered is not None and r.entered > r.request.at + 1.0]
    assert late
    assert not any(r.met for r in late)  # the objective counts from the first arrival
    endless, controller = refusing(Retry(times=9, after=0.5))
    assert accounted(endless, controller)[Fate.DONE] == 8


def test_who_has_no_time_for_a_retry_is_refused() -> None:
    """Patience bounds the retries: a client that would have left by then has its refusal as its fate; one that is
    between two attempts at the end of the replay has left."""
    hasty = ClientClass("hasty", share=1, ttft=0.3, leaves=0.9)
    requests = [Request(0.0, 4, 50, hasty)] * 3
    controller = Controller(Concurrency(1), classes=service_classes([hasty]))
    records = replay_controller(requests, FLAT, controller, retry=Retry(after=2.0))
    assert accounted(records, controller) == {Fate.LEFT: 1, Fate.REFUSED: 2}


@pytest.mark.parametrize("run", [replay, replay_controller])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tells": "tokens"}, "tells"),
        ({"tells": None}, "tells"),
        ({"until": -1}, "until"),
        ({"until": float("nan")}, "until"),
        ({"until": "5"}, "until"),
        ({"until": True}, "until"),
    ],
)
def test_bad_arguments(run: Callable[..., Any], arguments: dict[str, Any], named: str) -> None:
    """What makes no sense is named before anything runs."""
    decides = no_control if run is replay else Controller()
    with pytest.raises(ConfigurationError, match=named):
        run([], FLAT, decides, **arguments)


@pytest.mark.parametrize("times", [(1.0, 0.5), (0.0, float("nan")), (float("inf"),)])
@pytest.mark.parametrize("run", [replay, replay_controller])
def test_requests_ascend(run: Callable[..., Any], times: tuple[float, ...]) -> None:
    """Arrivals out of order would make time run backwards."""
    decides = no_control if run is replay else Controller(classes=service_classes([CALM]))
    with pytest.raises(ConfigurationError, match="ascend"):
        run([Request(at, 4, 5, CALM) for at in times], FLAT, decides)


@pytest.mark.parametrize(
    ("times", "after"),
    [(0, 1.0), (-1, 1.0), (True, 1.0), (1.5, 1.0), (1, 0), (1, -1.0), (1, float("nan")), (1, float("inf"))],
)
def test_bad_retries(times: Any, after: Any) -> None:
    """A retry at once, or none at all, is a mistake."""
    with pytest.raises(ConfigurationError, match=r"times|after"):
        Retry(times=times, after=after)


def test_a_retry_waits_as_long_as_it_is_told() -> None:
    """The longer of what the client would wait and what the refusal asks for."""
    retry = Retry(after=1.0)
    assert [retry.wait(told) for told in (None, 0.0, 0.5, 3.0)] == [1.0, 1.0, 1.0, 3.0]
