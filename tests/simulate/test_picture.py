"""What the plots show, against a replay of four calls counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.simulate.picture import BINS, picture, timeline
from andante.simulate.record import Fate, Record
from andante.simulate.workload import ClientClass, Request

ALL = ClientClass("all", share=1)
OTHER = ClientClass("other", share=1)


def call(at: float, entered: float | None, over: float, fate: Fate = Fate.DONE, first: float | None = None) -> Record:
    record = Record(Request(at, 10, 5, ALL))
    if entered is not None:
        record.started(entered).first = over if first is None else first
    record.ended(fate, over)
    return record


CALLS = [
    call(0.0, 0.0, 60.0, first=20.0),
    call(0.0, 30.0, 90.0, first=50.0),
    call(30.0, None, 45.5, Fate.REFUSED),
    call(60.0, 60.0, 500.0, first=100.0),
    call(100.0, None, 110.0, Fate.LEFT),
]


def test_timeline() -> None:
    """120 s in 120 parts of one second: who was inside, who waited, who came, started and went."""
    t = timeline(CALLS, 120.0)
    assert t.width == 1.0
    assert [t.inside[k] for k in (0, 29, 30, 59, 60, 89, 90, 119)] == [1, 1, 2, 2, 2, 2, 1, 1]
    assert [t.waiting[k] for k in (0, 29, 30, 44, 45, 46, 99, 100, 109, 110)] == [1, 1, 1, 1, 0.5, 0, 0, 1, 1, 0]
    assert {k: rate for k, rate in enumerate(t.arrived) if rate} == {0: 2, 30: 1, 60: 1, 100: 1}
    assert {k: rate for k, rate in enumerate(t.started) if rate} == {0: 1, 30: 1, 60: 1}
    assert {k: rate for k, rate in enumerate(t.refused) if rate} == {45: 1}
    assert {k: rate for k, rate in enumerate(t.left) if rate} == {110: 1}
    assert (t.wait[0], t.wait[30], t.longest[30], t.wait[31]) == (0.0, 30.0, 30.0, None)


def test_times() -> None:
    """Ascending, of those that got so far; of another class none."""
    shown = picture(CALLS, [ALL, OTHER], 120.0)
    mine, others = shown.times
    assert mine.offered == 5
    assert mine.ttft == (20.0, 40.0, 50.0)
    assert mine.itl == (10.0, 10.0, 100.0)
    assert mine.e2e == (60.0, 90.0, 440.0)
    assert (others.offered, others.ttft, others.itl, others.e2e) == (0, (), (), ())


STAYS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50), st.floats(0, 200)), max_size=20)


@given(STAYS, st.floats(1.0, 300.0))
def test_nobody_is_lost(stays: list[tuple[float, float, float]], seconds: float) -> None:
    """The area under both curves is the time that calls waited and were inside, as far as it lies in the picture."""
    calls = [call(at, at + waited, at + waited + inside) for at, waited, inside in stays]
    t = timeline(calls, seconds)

    def within(begins: float, ends: float) -> float:
        return max(0.0, min(ends, seconds) - min(begins, seconds))

    inside = sum(within(at + waited, at + waited + length) for at, waited, length in stays)
    waiting = sum(within(at, at + waited) for at, waited, _ in stays)
    assert sum(t.inside) * t.width == pytest.approx(inside, abs=1e-6)
    assert sum(t.waiting) * t.width == pytest.approx(waiting, abs=1e-6)
    assert len(t.inside) == BINS
    assert min(t.inside) >= -1e-9
