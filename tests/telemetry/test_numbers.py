"""The numbers themselves, without any metrics package."""

from __future__ import annotations

import sys
import threading
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import LineFull, Rejected
from andante.events import (
    Admitted,
    Event,
    First,
    Left,
    LimitChanged,
    Offered,
    Refused,
    SignalChanged,
    Waiting,
    Withdrawn,
)
from andante.telemetry import numbers as telemetry_numbers
from andante.telemetry.families import Labels, check_buckets
from andante.telemetry.numbers import Numbers, Spread, mean_gap
from andante.values import Call, Cost, Ending, Outcome

CALL = Call()


def count(events: list[Event]) -> dict[str, dict[tuple[str, ...], float | Spread]]:
    numbers = Numbers(Labels(), check_buckets(None))
    for event in events:
        if type(event) in numbers.handlers:
            numbers.handlers[type(event)](event)
    return {family.name: dict(rows) for family, rows in numbers.rows()}


@given(
    bounds=st.lists(st.floats(0.001, 100), min_size=1, max_size=8, unique=True).map(sorted),
    amounts=st.lists(st.floats(0, 200), max_size=30),
)
def test_spread(bounds: list[float], amounts: list[float]) -> None:
    """A bucket counts what is at or below its bound, the last one everything; the sum is the sum."""
    spread = Spread(bounds)
    amounts = [*amounts, *bounds]
    for amount in amounts:
        spread.observe(amount)
    counts, total = spread.cumulative()
    assert counts == [sum(a <= bound for a in amounts) for bound in (*bounds, inf)]
    assert total == pytest.approx(sum(amounts))
    assert f"of {len(amounts)}" in repr(spread)


class Life:
    """The events of one call on one of the ways that a call can go, and what they should add to the numbers."""

    def __init__(self, way: str, queued: bool, waited: float, seconds: float) -> None:
        self.events: list[Event] = [Offered("a", "s", 0.0, CALL)]
        if queued:
            self.events.append(Waiting("a", "s", 0.0, CALL, None))
        if way == "refused":
            self.events.append(Refused("a", "s", waited, CALL, LineFull(), waited, queued))
        elif way == "withdrawn":
            self.events.append(Withdrawn("a", "s", waited, CALL, waited))
        elif way != "waiting":
            self.events.append(Admitted("a", "s", waited, CALL, waited, queued))
            if way != "inside":
                outcome = Outcome(Ending(way), seconds, None, 0.0, Cost())
                self.events.append(Left("a", "s", waited + seconds, CALL, outcome, waited))


WAYS = ["refused", "withdrawn", "waiting", "inside", "done", "overloaded", "ignored"]


CALLS = st.tuples(st.sampled_from(WAYS), st.booleans(), st.floats(0, 10), st.floats(0, 10))


@given(st.lists(CALLS, max_size=20), st.randoms())
def test_law_1(lives: list[tuple[str, bool, float, float]], random: object) -> None:
    """Law 1 in metrics, after any number of calls, interleaved anyhow: the gauges are what the flow leaves over.

    offered = started + refused + withdrawn + waiting; started = done + overloaded + ignored + inside.
    """
    ways = [way for way, *_ in lives]
    queues = [Life(*life).events for life in lives]
    events: list[Event] = []
    while any(queues):
        events.append(random.choice([queue for queue in queues if queue]).pop(0))  # type: ignore[attr-defined]
    got = count(events)
    if not lives:
        assert not any(got.values())
        return
    one = {name: rows.get(("a", "s"), 0) for name, rows in got.items()}
    endings = {name: got["calls"]["a", "s", name] for name in ("done", "overloaded", "ignored")}
    assert endings == {name: ways.count(name) for name in endings}
    assert one["offered"] == len(lives)
    assert one["withdrawn"] == ways.count("withdrawn")
    assert one["waiting_calls"] == ways.count("waiting")
    assert one["inside_calls"] == ways.count("inside")
    assert one["started"] == one["inside_calls"] + sum(endings.values())  # type: ignore[arg-type,operator]
    assert sum(got["refused"].values()) == ways.count("refused")  # type: ignore[arg-type]
    waits = got["queue_wait_seconds"]
    observed = {result: spread.cumulative()[0][-1] for (_, _, result), spread in waits.items()}  # type: ignore[union-attr]
    expected = {"admitted": one["started"], "refused": ways.count("refused"), "withdrawn": one["withdrawn"]}
    assert observed == {result: n for result, n in expected.items() if n}


def test_waiting_does_not_trust_flags() -> None:
    """Whether a call is said to have queued changes no gauge: what is offered and undecided waits."""
    for queued in (True, False):
        got = count([Offered("a", "s", 0, CALL), Refused("a", "s", 0, CALL, Rejected(), 0.0, queued)])
        assert got["waiting_calls"] == {("a", "s"): 0}


def test_tokens() -> None:
    """Tokens are added as settled; cached ones are a part of the input."""
    left = Left("a", "s", 1, CALL, Outcome(Ending.DONE, 1.0, None, 0, Cost(1, 100, 20, 30)), 0)
    got = count([left, left])
    assert got["tokens"] == {("a", "s", "input"): 200, ("a", "s", "output"): 40, ("a", "s", "cached"): 60}


def test_limits_and_signals() -> None:
    """The latest limit counts, also an infinite one; a signal that is stale or missing is not fresh."""
    got = count(
        [
            LimitChanged("a", "", 0, "g", 4),
            LimitChanged("a", "", 0, "g", 8),
            LimitChanged("a", "", 0, "open", inf),
            SignalChanged("a", "", 0, "gpu", "fresh"),
            SignalChanged("a", "", 0, "loop", "stale"),
            SignalChanged("a", "", 0, "kv", "missing"),
        ]
    )
    assert got["gate_limit"] == {("a", "g"): 8, ("a", "open"): inf}
    assert got["signal_fresh"] == {("a", "gpu"): 1, ("a", "loop"): 0, ("a", "kv"): 0}


def test_a_limit_too_many_is_not_shown() -> None:
    """One gauge named "other" cannot hold the limits of several gates, so it holds none."""
    numbers = Numbers(Labels(1), check_buckets(None))
    for gate in "gh":
        numbers.handlers[LimitChanged](LimitChanged("a", "", 0, gate, 4))
        numbers.handlers[SignalChanged](SignalChanged("a", "", 0, gate, "fresh"))
    got = {family.name: dict(rows) for family, rows in numbers.rows()}
    assert got["gate_limit"] == {("a", "g"): 4}
    assert got["signal_fresh"] == {("a", "g"): 1}


@pytest.mark.parametrize(
    ("outcome", "gap"),
    [
        (Outcome(Ending.DONE, 5.0, 1.0, 5.0), 1.0),
        (Outcome(Ending.OVERLOADED, 5.0, 1.0, 3.0), 2.0),
        (Outcome(Ending.IGNORED, 5.0, 1.0, 5.0), None),
        (Outcome(Ending.DONE, 5.0, 1.0, 1.0), None),
        (Outcome(Ending.DONE, 5.0, 1.0, 0.0), None),
        (Outcome(Ending.DONE, 5.0, None, 5.0), None),
        (Outcome(Ending.DONE, None, 1.0, 5.0), None),
        (Outcome(Ending.DONE, 1.0, 5.0, 5.0), None),
        (Outcome(Ending.DONE, 5.0, 1.0, inf), None),
        (Outcome(Ending.DONE, inf, 1.0, 5.0), None),
    ],
)
def test_mean_gap(outcome: Outcome, gap: float | None) -> None:
    """Seconds between items are known only from two items on, and an ignored call says nothing about them."""
    assert mean_gap(outcome) == gap


@pytest.mark.parametrize("in_one_go", [True, False])
def test_threads_that_share_a_name(monkeypatch: pytest.MonkeyPatch, in_one_go: bool) -> None:
    """Admissions in several threads with one name lose no call, with a lock of ours and without."""
    if in_one_go and not telemetry_numbers._ADDS_IN_ONE_GO:
        pytest.skip("this interpreter does not")
    monkeypatch.setattr(telemetry_numbers, "_ADDS_IN_ONE_GO", in_one_go)
    numbers = Numbers(Labels(), check_buckets(None))
    events = [event for way in WAYS for event in Life(way, False, 0.1, 0.1).events]
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(1_000):
            for event in events:
                if type(event) in numbers.handlers:
                    numbers.handlers[type(event)](event)

    threads = [threading.Thread(target=work) for _ in range(4)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    got = {family.name: dict(rows) for family, rows in numbers.rows()}
    assert got["offered"]["a", "s"] == 4_000 * len(WAYS)
    assert got["started"]["a", "s"] == 4_000 * 4
    assert {row: n for row, n in got["calls"].items() if n != 4_000} == {}
    assert sum(got["refused"].values()) == got["withdrawn"]["a", "s"] == 4_000  # type: ignore[arg-type]
    assert got["inside_calls"]["a", "s"] == got["waiting_calls"]["a", "s"] == 4_000
    waits = got["queue_wait_seconds"]["a", "s", "admitted"]
    assert isinstance(waits, Spread)
    assert waits.cumulative()[0][-1] == 16_000
    assert waits.total == pytest.approx(1_600)
    assert "1 classes" in repr(numbers)


def test_first_item() -> None:
    got = count([First("a", "s", 1.0, CALL, 0.3)])
    spread = got["time_to_first_item_seconds"]["a", "s"]
    assert isinstance(spread, Spread)
    assert spread.total == pytest.approx(0.3)
