"""The sliding window of `strict_window`: never more than the limit, bounded memory, exact delays."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.gates import TokenBucket
from andante.gates.window import SLOTS, SlidingWindow
from andante.testing.visitor import Visitor
from andante.values import Call, Cost, Outcome
from tests.gates.drive import fullest_window

AMOUNTS = st.one_of(st.integers(0, 10).map(float), st.floats(0, 10, allow_subnormal=False))
GAPS = st.one_of(
    st.just(0.0), st.floats(0, 0.01), st.floats(0, 2), st.integers(0, 2000).map(lambda n: n / SLOTS), st.just(1.0)
)


def visitor(amount: float) -> Visitor:
    return Visitor(Call(Cost(input_tokens=amount)), 0.0)


@given(
    calls=st.lists(st.tuples(GAPS, AMOUNTS, AMOUNTS), max_size=60),
    start=st.sampled_from([0.0, 0.1, 12_345.678, 1e6 + 1 / 3]),
    burst=st.sampled_from([None, 10.0, 30.0]),
)
def test_no_window_is_overfilled(calls: list[tuple[float, float, float]], start: float, burst: float | None) -> None:
    """Whatever comes, whenever: no half-open window of the period holds more than the rate, neither of what was
    reserved (while it ran) nor of what was used where less was; and after waiting exactly the delay a call enters."""
    bucket = TokenBucket(10.0, "second", unit="tokens", burst=burst, strict_window=True)
    entries, now = [], start
    for gap, amount, used in calls:
        now += gap
        entry = visitor(amount)
        delay = bucket.delay(entry, now)
        assert 0 <= delay < inf
        if delay:
            now += delay
            assert bucket.delay(entry, now) == 0
        bucket.enter(entry, now)
        bucket.leave(entry, Outcome(cost=Cost(input_tokens=min(amount, used))), now)
        entries.append((now, min(amount, used)))
        assert fullest_window([*entries[:-1], (now, amount)], 1) <= 10 + 1e-9


@given(st.lists(st.tuples(GAPS, st.integers(1, 10)), max_size=80))
def test_whole_units_are_counted_exactly(calls: list[tuple[float, int]]) -> None:
    """With whole costs there is no rounding at all."""
    bucket = TokenBucket(10, "second", unit="tokens", strict_window=True)
    entries, now = [], 7.0
    for gap, amount in calls:
        now += gap
        now += bucket.delay(visitor(amount), now)
        bucket.enter(visitor(amount), now)
        entries.append((now, amount))
    assert fullest_window(entries, 1) <= 10


def test_a_steady_demand_gets_its_share() -> None:
    """A saturated window passes at least 1,024/1,025 of the rate, for small and for large costs."""
    for amount, burst in ((1, 100), (1, 1), (25, 100), (100, 100)):
        bucket = TokenBucket(100, "minute", unit="tokens", burst=max(burst, amount), strict_window=True)
        now, passed = 3.0, 0.0
        while now < 3.0 + 3600:
            now += bucket.delay(visitor(amount), now)
            bucket.enter(visitor(amount), now)
            passed += amount
        assert passed >= 100 * 60 * SLOTS / (SLOTS + 1), (amount, burst)


def test_a_slot_counts_until_it_is_over_for_a_period() -> None:
    """What entered at the end of a slot counts as long as what entered at its beginning, to the last moment."""
    for entered, asked in ((0.0009, 1.0), (0.0, 1.0), (1 / SLOTS - 1e-9, 1025 / SLOTS - 9e-8)):
        bucket = TokenBucket(10, unit="tokens", strict_window=True)
        bucket.enter(visitor(10), entered)
        wait = bucket.delay(visitor(1), asked)
        assert wait > 0, (entered, asked)
        assert asked + wait - entered >= 1


def test_a_restart_is_on_the_safe_side() -> None:
    """When in its slot a dump was made is not known; it counts as if it had been at the end."""
    before = TokenBucket(10, unit="tokens", strict_window=True)
    before.enter(visitor(9), 0.0009)
    before.enter(visitor(1), 0.0010)
    after = TokenBucket(10, unit="tokens", strict_window=True)
    after.load(before.dump(), age=0.9998)
    assert after.delay(visitor(9), 500 / SLOTS - 5e-6) >= 0.0001


def test_memory_is_bounded() -> None:
    """However many calls: at most 1,025 slots, and nothing that is kept for calls that have left."""
    window = SlidingWindow(1.0)
    for number in range(20_000):
        entry = visitor(1)
        window.enter(entry, 1e-9, number / 7000)
        window.leave(entry, -1e-9 if number % 3 else 1e-9, number / 7000)
    assert len(window._slots) <= SLOTS + 1
    assert not window._inside


def test_fractions_do_not_drift() -> None:
    """However large the amounts that were forgotten: what they left of rounding is gone a period later."""
    window, rng = SlidingWindow(1.0), random.Random(1)
    for number in range(20_000):
        window._add(rng.random() * (1e12 if number < 8_000 else 0.1), number / 2000)
    assert window._used == pytest.approx(sum(amount for _, amount in window._slots), rel=1e-14)


def test_what_is_returned_leaves_its_slot() -> None:
    """A surplus makes room at once, a deficit counts from the settlement on; of a forgotten slot nothing comes back."""
    window = SlidingWindow(1.0)
    first, second = visitor(6), visitor(4)
    window.enter(first, 6, 0.0)
    window.enter(second, 4, 0.5)
    assert window.delay(1, 10, 0.6) == pytest.approx(1 + 1 / SLOTS - 0.6)
    window.leave(first, 5, 0.6)
    assert window.delay(5, 10, 0.6) == 0
    window.leave(second, -3, 0.7)
    assert window.used(0.7) == 8
    assert window.used(1.6) == 3
    late = visitor(2)
    window.enter(late, 2, 2.0)
    window.enter(visitor(1), 1, 9.0)
    window.leave(late, 2, 9.0)
    assert window.used(9.0) == 1
    assert window.delay(9, 10, 9.0) == 0
    assert window.delay(10, 10, 9.0) > 0


def test_what_does_not_fit_never_fits() -> None:
    """More than the limit is an infinite delay; the bucket refuses it before."""
    assert SlidingWindow(1.0).delay(11, 10, 0.0) == inf


def test_undo_in_the_window() -> None:
    """What was undone was never there."""
    bucket = TokenBucket(10, unit="tokens", strict_window=True)
    entry = visitor(10)
    bucket.enter(entry, 5.0)
    bucket.undo(entry, 5.2)
    assert bucket.snapshot(5.2)["window_used"] == 0
    assert bucket.delay(entry, 5.2) == 0


def test_a_lower_rate_counts_what_is_there() -> None:
    """A rate lowered below what the window holds waits until enough is forgotten."""
    bucket = TokenBucket(10, unit="tokens", strict_window=True)
    for at in (0.0, 0.5):
        bucket.enter(visitor(5), at)
    bucket.rate = 6
    assert bucket.delay(visitor(6), 0.6) == pytest.approx(1.5 + 1 / SLOTS - 0.6)
    assert bucket.delay(visitor(1), 0.6) == pytest.approx(1 + 1 / SLOTS - 0.6, abs=2e-3)


@given(st.lists(st.tuples(st.floats(0, 0.4), st.integers(1, 9)), min_size=1, max_size=20), st.floats(0, 3))
def test_a_restart_never_overfills(calls: list[tuple[float, int]], age: float) -> None:
    """A window that was dumped and loaded lets no more in than one that went on: nothing is forgotten too early."""
    here = TokenBucket(10, unit="tokens", strict_window=True)
    now, entries = 50.0, []
    for gap, amount in calls:
        now += gap
        now += here.delay(visitor(amount), now)
        here.enter(visitor(amount), now)
        entries.append((now, amount))
    there = TokenBucket(10, unit="tokens", strict_window=True)
    there.load(here.dump(), age)
    now += age
    for _ in range(30):
        now += there.delay(visitor(2), now)
        there.enter(visitor(2), now)
        entries.append((now, 2))
    assert fullest_window(entries, 1) <= 10
