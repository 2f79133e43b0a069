"""Slots that nobody told of are found, and batching engines are left alone."""

from __future__ import annotations

import random

import pytest

from andante import Call, Cost, Outcome, ServiceClass
from andante.gates.natural_pace.part import PartsGate
from andante.gates.natural_pace.slots import Slots
from andante.testing import Visitor

CLASSES = (ServiceClass("chat", ttft=1.0, itl=0.05),)


def served(slots: int, calls: int, *, inside: int, prefill: float = 0.04, gap: float = 0.01, tokens: int = 30) -> Slots:
    """`calls` calls, always `inside` of them at a backend that works on at most `slots` at once."""
    part = Slots()
    gate = PartsGate(part)
    gate.bind(CLASSES)
    draw, now = random.Random(1), 0.0
    queue: list[Visitor] = []
    working: dict[Visitor, tuple[float, int]] = {}  # -> time of the next token, tokens left
    came = 0
    while came < calls or queue or working:
        while came < calls and len(queue) + len(working) < inside:
            visitor = Visitor(Call(Cost(input_tokens=50)), now)
            gate.enter(visitor, now)
            queue.append(visitor)
            came += 1
        while queue and len(working) < slots:
            working[queue.pop(0)] = (now + prefill, draw.randint(tokens // 2, 2 * tokens))
        visitor = min(working, key=lambda one: working[one][0])
        now, left = working[visitor]
        gate.progress(visitor, 1, now)
        visitor.first = visitor.first or now
        visitor.last = now
        if left > 1:
            working[visitor] = (now + gap, left - 1)
        else:
            del working[visitor]
            gate.leave(visitor, Outcome(items=30.0, ttft=0.1, seconds=1.0), now)
    return part


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_the_slots_are_found(slots: int) -> None:
    """Three more than there are slots wait inside: the limit becomes the number of slots."""
    assert served(slots, 60, inside=slots + 3).limit == slots


def test_who_never_waits_for_a_slot_is_not_limited() -> None:
    """As many slots as calls inside: first results take a prefill, whatever ends meanwhile."""
    assert served(8, 200, inside=4).limit == float("inf")


def test_a_limit_is_tried_anew_after_its_time() -> None:
    """For 20 s no more than the slots; then one more may show that there are more by now."""
    part = served(2, 60, inside=5)
    visitor = Visitor(Call(), 0.0)
    for _ in range(2):
        stream = part.flow.enter(Visitor(Call(), 0.0), 0.0)
        stream.tokens = 1
    assert not part.room(visitor, part._until - 0.01)
    assert part.room(visitor, part._until)
    assert part.snapshot(part._until)["limit"] is None
