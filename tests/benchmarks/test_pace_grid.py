"""The bound by which the natural pace is judged is one, and its scenarios are the same everywhere."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from andante import Concurrency, Controller
from andante.simulate import ClientClass, Request, replay_controller, service_classes
from benchmarks.pace import BASELINE, gate
from benchmarks.pace_grid import ENGINES, HASH, SHAPES, SHORT, Cell, bound, value, work

ENGINE = ENGINES["a100-8b"]


def client(name: str, value: float, e2e: float) -> ClientClass:
    return ClientClass(name, share=1, value=value, e2e=e2e)


def test_nothing_offered_is_nothing_served() -> None:
    """No calls, no value."""
    assert bound([], ENGINE, 10.0) == 0.0


def test_what_there_is_time_for_counts_whole() -> None:
    """One short call in a long window: its whole value."""
    assert bound([Request(0.0, 100, 10, client("a", 3, 60.0))], ENGINE, 60.0) == pytest.approx(3.0)


def test_what_there_is_no_time_for_counts_in_part() -> None:
    """A call of twice the window's work: half of its value, as the window is rounded outwards to whole slots."""
    one = client("a", 4, 1.0)
    seconds = work(ENGINE, 1, 40_000)
    served = bound([Request(0.0, 1, 40_000, one)], ENGINE, 240.0)
    assert served == pytest.approx(4 * 1.0 / seconds)


def test_the_worthier_call_goes_first() -> None:
    """Two calls for the same second: the one worth more per second of work has it."""
    cheap, dear = client("cheap", 1, 1.0), client("dear", 10, 1.0)
    size = 40_000
    seconds = work(ENGINE, 1, size)
    calls = [Request(0.0, 1, size, cheap), Request(0.0, 1, size, dear)]
    assert bound(calls, ENGINE, 240.0) == pytest.approx(10 * 1.0 / seconds)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_policy_is_better(shape: str) -> None:
    """Whatever a limit serves, the bound is more."""
    cell = Cell("a100-8b", "chat", shape, 1.25, 3, 30.0)
    requests = cell.requests()
    most = bound(requests, cell.profile, cell.seconds)
    for places in (16, 80):
        controller = Controller(Concurrency(places), classes=service_classes(cell.clients))
        served = value(replay_controller(requests, cell.profile, controller), cell.seconds)
        assert 0 < served <= most


def test_the_scenarios_are_the_same_everywhere() -> None:
    """The same calls on every Python and machine: figures can be compared."""
    cell = Cell("a100-8b", "chat", "bursty", 1.25, 7, 60.0)
    said = ";".join(f"{r.at:.6f},{r.prompt_tokens},{r.output_tokens},{r.client.name}" for r in cell.requests())
    assert sha256(said.encode()).hexdigest()[:12] == "cc38c70fd9ec"


def test_the_gate_sees_a_drop() -> None:
    """As recorded passes; a cell that is 0.05 worse is named; a mean that is 0.02 worse is, too."""
    recorded = json.loads(BASELINE.read_text("utf-8"))
    assert recorded["grid"] == HASH
    as_it_was = {name: {cell: recorded["reached"][name][str(cell)] for cell in SHORT} for name in recorded["reached"]}
    assert gate(as_it_was) == []
    worse = as_it_was["natural"] | {SHORT[1]: as_it_was["natural"][SHORT[1]] - 0.05}
    assert any(str(SHORT[1]) in fault for fault in gate({"natural": worse}))
    all_worse = {cell: value - 0.02 for cell, value in as_it_was["natural"].items()}
    assert ["mean" in fault for fault in gate({"natural": all_worse})] == [True]
