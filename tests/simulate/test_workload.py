"""Classes of clients, and which call is whose."""

from __future__ import annotations

from collections import Counter
from math import inf, nan
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.simulate.traces import Arrival, Trace
from andante.simulate.workload import ClientClass, Request, assign, service_classes

CLIENTS = (
    ClientClass("interactive", share=50, value=3, ttft=1.0, itl=0.06, leaves_without_first=10.0),
    ClientClass("batch", share=20, e2e=600.0),
)


def test_assignment_by_share_and_seed() -> None:
    """Shares are kept, the same seed gives the same workload, arrivals and lengths stay what they were."""
    trace = Trace([Arrival(float(n), n + 1, n + 2) for n in range(4000)])
    requests = assign(trace, CLIENTS, seed=5)
    counts = Counter(request.client.name for request in requests)
    assert counts["interactive"] == pytest.approx(4000 * 5 / 7, rel=0.05)
    assert requests == assign(trace, CLIENTS, seed=5)
    assert requests != assign(trace, CLIENTS, seed=6)
    assert [(r.at, r.prompt_tokens, r.output_tokens) for r in requests] == [
        (float(n), n + 1, n + 2) for n in range(4000)
    ]


def test_a_longer_trace_begins_the_same() -> None:
    """Whose a call is depends on its place in the trace, not on what follows: `--load` changes nobody's class."""
    trace = Trace([Arrival(float(n), 1, 1) for n in range(50)])
    whole, part = assign(trace, CLIENTS, seed=1), assign(trace.first(20), CLIENTS, seed=1)
    assert [r.client for r in whole[:20]] == [r.client for r in part]


def test_what_the_gateway_knows() -> None:
    """The call names its class and its prompt; the answer's length is nobody's knowledge."""
    call = Request(1.0, 300, 77, CLIENTS[0]).call()
    assert (call.service, call.cost.input_tokens, call.cost.output_tokens) == ("interactive", 300, 0)
    interactive, batch = service_classes(CLIENTS)
    assert (interactive.ttft, interactive.itl, interactive.e2e) == (1.0, 0.06, None)
    assert (batch.ttft, batch.e2e) == (None, 600.0)


def test_objectives() -> None:
    """A time equal to its objective is within it."""
    assert CLIENTS[0].met(1.0, 0.06, 1e9)
    assert not CLIENTS[0].met(1.0001, 0.06, 2.0)
    assert not CLIENTS[0].met(0.1, 0.0601, 2.0)
    assert CLIENTS[1].met(1e9, 1e9, 600.0)
    assert not CLIENTS[1].met(0.0, 0.0, 600.1)


@pytest.mark.parametrize(
    "bad",
    [
        {"name": ""},
        {"name": 3},
        {"share": 0},
        {"share": nan},
        {"share": inf},
        {"share": True},
        {"value": -1},
        {"value": "1"},
        {"ttft": 0},
        {"itl": -0.1},
        {"e2e": nan},
        {"leaves": 0.0},
        {"leaves_without_first": None},
    ],
)
def test_bad_classes(bad: dict[str, Any]) -> None:
    """Each field is named when it makes no sense."""
    field = next(iter(bad))
    with pytest.raises(ConfigurationError, match=field):
        ClientClass(**({"name": "x", "share": 1} | bad))


def test_bad_workloads() -> None:
    """No classes, or two of one name, are no workload."""
    trace = Trace([Arrival(0.0, 1, 1)])
    for clients in ([], [CLIENTS[0], CLIENTS[0]]):
        with pytest.raises(ConfigurationError, match="different names"):
            assign(trace, clients)
