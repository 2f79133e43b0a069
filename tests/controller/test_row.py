"""A row of waiting tickets against a sorted list."""

from __future__ import annotations

import weakref
from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from andante import Call, Concurrency, Controller, Outcome, ServiceClass
from andante.drain import DrainRate
from andante.row import Row
from andante.ticket import State, Ticket

_lane = Controller(Concurrency(1)).plan.lanes[0]


def ticket(key: float, serial: int) -> Ticket:
    one = Ticket(Call(), _lane, 0.0)
    one.key, one.serial = key, serial
    return one


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9)),
    st.tuples(st.just("later"), st.integers(0, 2)),  # mostly in order, as keys mostly are
    st.tuples(st.just("gone"), st.integers(0, 50)),
    st.sampled_from([("take", 0), ("pop", 0), ("sweep", 0), ("last", 0), ("fill", 0), ("clear", 0)]),
)


@given(st.lists(steps, max_size=80))
def test_it_is_a_sorted_list(todo: list[tuple[str, int]]) -> None:
    """The first is always the smallest that waits, of equals the one added first; the last is the largest."""
    row, model, top = Row("key"), list[Ticket](), 0.0
    for serial, (what, number) in enumerate(todo):
        model.sort(key=lambda one: (one.key, one.serial))
        if what in ("add", "later"):
            one = ticket(top + number if what == "later" else float(number), serial)
            top = max(top, one.key)
            if row.add(one.key, one):
                assert all(one.key >= other.key for other in model)
            model.append(one)
        elif what == "gone" and model:
            model.pop(number % len(model)).state = State.WITHDRAWN
        elif what == "take" and model:
            model.pop(0).state = State.ADMITTED
        elif what == "pop" and model:
            assert row.first() is model.pop(0)
            row.pop()
        elif what == "sweep":
            row.sweep()
            assert row.kept == len(model)
        elif what == "last" and model:
            assert row.last() is model[-1]
        elif what == "fill":
            row.fill(reversed(model))
        elif what == "clear":
            row.clear()
            model.clear()
            assert row.kept == 0
        model.sort(key=lambda one: (one.key, one.serial))
        assert row.first() is (model[0] if model else None)
        assert {id(one) for one in row.waiting()} == {id(one) for one in model}
        assert row.kept >= len(model)
        assert not model or not row.none_above(model[-1].key - 0.5)


def test_in_order_it_keeps_no_object_but_the_tickets() -> None:
    """Who comes in order goes to no heap; who has gone is let go of at once when its turn comes."""
    row: Any = Row("key")
    tickets = [ticket(float(number // 2), number) for number in range(1000)]
    assert all(row.add(one.key, one) for one in tickets)
    assert not row._heap
    for left, one in enumerate(tickets, 1):
        assert row.first() is one
        one.state = State.ADMITTED
        row.first()
        assert row.kept == 1000 - left
        assert one not in row._tickets
        assert len(row._tickets) <= 2 * row.kept + 66
    assert row._top == -inf


def test_steps_taken_together_count_the_same() -> None:
    """Many small steps measure the rate as exactly as one long one would: within a thousandth."""
    drain = DrainRate(10.0)
    drain.begin(0.0)
    for step in range(1, 30_001):
        drain.count(step * 2e-4)
        if step % 7 == 0:
            drain.rate(step * 2e-4)
    rate = drain.rate(6.0)
    assert rate is not None
    assert abs(rate / 5000 - 1) < 1e-3


def test_short_waits_are_measured_too() -> None:
    """A class in which calls wait a moment at a time, again and again, has a drain rate in the end."""
    drain, now = DrainRate(10.0), 0.0
    for _ in range(10_000):
        drain.begin(now)
        now += 5e-4
        drain.count(now)
        drain.pause(now)
        now += 5e-4
    rate = drain.rate(now)
    assert rate is not None
    assert abs(rate / 2000 - 1) < 1e-3


def test_an_empty_line_holds_nobody() -> None:
    """When nothing waits any more, no ticket that did is referred to, of whatever tenant and however it left."""
    controller = Controller(Concurrency(1), classes=[ServiceClass("a", ttft=60.0, max_waiting=inf)])
    inside = controller.offer(Call(service="a"), 0.0)
    for tenant in (None, "b"):
        waits = controller.offer(Call(service="a", tenant=tenant), 0.0)
        gone = weakref.ref(waits)
        controller.withdraw(waits, 0.0)
        del waits
        assert gone() is None
    waits = controller.offer(Call(service="a"), 0.0)
    gone = weakref.ref(waits)
    controller.leave(inside, Outcome(), 1.0)
    assert controller.step(1.0) == [waits]
    controller.leave(waits, Outcome(), 2.0)
    del waits
    assert gone() is None
