"""A random walk of calls through a gate, which watches the laws that `gate_contract` is about."""

from __future__ import annotations

import json
import random
from collections import deque
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NoReturn

from andante.errors import ConfigurationError, Rejected
from andante.gate import Gate
from andante.service import ServiceClass
from andante.testing.visitor import Visitor
from andante.values import Call, Cost, Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAWS = {
    "pure": "delay, look, expected, snapshot, dump and repr change nothing that one can see",
    "sign": "a delay is a number of seconds, 0 or more; whoever is refused for good is refused by a Rejected",
    "exact": "a finite delay shrinks as time passes, and after waiting exactly as long it is 0",
    "look": "look is a time from now on, and expected is two durations",
    "undo": "enter and undo return to the start",
    "balance": "when all have left, nobody is inside",
    "capacity": "when all have left, some calls went well, and there was a long rest, as many fit in as at first",
    "plain": "snapshot and dump are JSON, headroom is between 0 and 1, and repr is one line that tells the name",
    "restart": "what was dumped can be loaded into a new gate, which then dumps the same; nothing to load is no error",
    "back": "as of a moment, up to 10 ms, before a time seen already, a delay is longer by that moment at most",
    "replay": "two gates that are told the same give the same answers",
}
"""Each law that `gate_contract` checks: its name, fit for `exempt`, and what it says."""

_MANY = 64  # where counting what fits in ends
_TINY = 1e-7  # seconds: a delay below this is none
_LONG = 1e8  # seconds: longer delays are not waited for


class Walk:
    """A gate, a twin that is told the same, who is inside, and what has happened."""

    def __init__(
        self,
        make_gate: Callable[[], Gate],
        calls: Sequence[Call],
        exempt: frozenset[str],
        seed: int,
        set_time: Callable[[float], None] | None,
    ) -> None:
        self.make_gate, self.calls, self.exempt, self.seed, self.set_time = make_gate, calls, exempt, seed, set_time
        self.random = random.Random(seed)
        self.story: deque[str] = deque(maxlen=16)
        self.inside: list[Visitor] = []
        self.now = self.undone = 0.0
        self.wait(1000.0)
        self.gate = self.new_gate()
        self.twin = self.new_gate()
        if self.gate is self.twin:
            raise ConfigurationError("make_gate must make a new gate every time", path="make_gate")

    def new_gate(self) -> Gate:
        gate = self.make_gate()
        if not isinstance(gate, Gate):
            raise ConfigurationError(f"make_gate must make a Gate, not {gate!r}", path="make_gate")
        gate.bind([ServiceClass(name) for name in dict.fromkeys(call.service for call in self.calls)])
        return gate

    # What can happen. -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.55:
            self.arrive(self.random.choice(self.calls))
        elif chance < 0.75 and self.inside:
            self.leave(self.random.choice(self.inside))
        elif chance < 0.82 and self.inside:
            self.progress(self.random.choice(self.inside))
        elif chance < 0.94:
            self.wait(self.random.choice((0.0, 1e-9, 0.001, 0.3, 2.0, 45.0)) * self.random.random())
        else:
            self.arrive(self.random.choice(self.calls), back=0.01 * self.random.random())

    def arrive(self, call: Call, back: float = 0.0) -> None:
        if back and "back" in self.exempt:
            return
        at = max(self.now - back, self.undone)  # the twin knows nothing of what was undone
        visitor = Visitor(call, at)
        here = self.ask(Visitor(call, self.now), self.now) if back else None
        delay = self.ask(visitor, at)
        if delay is None:
            return
        # Before a hold had ended nobody waited without end for its probe: from an infinite delay there is no least.
        if here is not None and not (0.0 if here == inf else here - 1e-6) <= delay <= here + back + 1e-6:
            self.broken("back", f"it says {here!r} s now, and {delay!r} s as of {back!r} s before")
        if delay <= _TINY:
            if not back and self.random.random() < 0.3:
                self.turn_back(visitor)
            else:
                self.enter(visitor, at)
        elif delay < _LONG and not back and self.random.random() < 0.5:
            self.wait_exactly(visitor, delay)
            if self.ask(visitor, self.now) == 0:
                self.enter(visitor, self.now)

    def ask(self, visitor: Visitor, at: float) -> float | None:
        """The delay, None for a refusal; asking changes nothing, and the twin says the same."""
        gate = self.gate
        before = self.view(gate, at)
        delay, look, expected = (
            self.delay(gate, visitor, at),
            self.call(gate.look, at),
            self.call(gate.expected, visitor, at),
        )
        self.tell(at, f"{visitor.cost!r} asks: {'refused' if delay is None else f'{delay:.9g} s'}")
        again, after = self.delay(gate, visitor, at), self.view(gate, at)
        if again != delay:
            self.broken("pure", f"asked again at once it says {again!r} instead of {delay!r}")
        if before != after:
            self.broken("pure", f"before: {before}", f"after:  {after}")
        if not isinstance(look, (int, float)) or not look >= at:
            self.broken("look", f"look is {look!r} at {at!r}")
        if len(expected) != 2 or not all(0 <= each < inf for each in expected):
            self.broken("look", f"expected is {expected!r}")
        if not _same(delay, other := self.delay(self.twin, visitor, at)):
            self.broken("replay", f"one says {delay!r}, the other {other!r}")
        return delay

    def enter(self, visitor: Visitor, at: float) -> None:
        self.tell(at, f"{visitor.cost!r} enters")
        visitor.started = at
        self.both("enter", visitor, at)
        self.inside.append(visitor)

    def progress(self, visitor: Visitor) -> None:
        items = float(self.random.randint(1, 5))
        self.tell(self.now, f"{visitor.cost!r} has {items:g} more results")
        visitor.first = self.now if visitor.first is None else visitor.first
        visitor.items += items
        self.both("progress", visitor, items, self.now)
        visitor.last = self.now

    def leave(self, visitor: Visitor, *, well: bool = False) -> None:
        ending = Ending.DONE if well else self.random.choices(list(Ending), (7, 2, 2))[0]
        asked = self.random.choice((None, 0.0, 3.0)) if ending is Ending.OVERLOADED else None
        cost = visitor.cost
        if not well and self.random.random() < 0.4:
            share = self.random.choice((0.0, 0.5, 1.5))
            cost = Cost(cost.requests, cost.input_tokens, cost.output_tokens * share)
        spent = max(0.0, self.now - (visitor.started or 0.0))
        first = None if visitor.first is None else visitor.first - (visitor.started or 0.0)
        self.tell(self.now, f"{visitor.cost!r} leaves: {ending.value}, {cost!r}, retry after {asked}")
        self.inside.remove(visitor)
        self.both("leave", visitor, Outcome(ending, spent, first, visitor.items, cost, asked), self.now)

    def wait(self, time: float) -> None:
        self.wait_until(self.now + time)

    def wait_until(self, time: float) -> None:
        self.now = time
        if self.set_time is not None:
            self.set_time(self.now)

    # Laws that take more than one answer. ---------------------------------------------------------------------------

    def turn_back(self, visitor: Visitor) -> None:
        """Enter and undo, at once or a little later. The twin is told nothing of it."""
        if "undo" in self.exempt:
            return
        self.tell(self.now, f"{visitor.cost!r} enters and is undone")
        self.call(self.gate.enter, visitor, self.now)
        self.wait(self.random.choice((0.0, 0.05)))
        self.undone = self.now
        self.call(self.gate.undo, visitor, self.now)
        here, there = (
            (self.call(gate.snapshot, self.now), [self.delay(gate, Visitor(c, self.now), self.now) for c in self.calls])
            for gate in (self.gate, self.twin)
        )
        if not _same(here, there):
            self.broken("undo", f"had it never come: {there}", f"after undo:        {here}")

    def wait_exactly(self, visitor: Visitor, delay: float) -> None:
        start = self.now
        for share in (0.5, 1.0):
            self.wait_until(start + delay * share)
            rest = self.ask(visitor, self.now)
            left = start + delay - self.now
            if rest is None or abs(rest - left) > 1e-6 + 1e-9 * delay or (share == 1.0 and rest > _TINY):
                self.broken("exact", f"it said {delay!r} s; {self.now - start!r} s later it says {rest!r}")

    def look_plain(self) -> None:
        for gate in (self.gate, self.twin):
            state, dump, text = self.call(gate.snapshot, self.now), self.call(gate.dump), self.call(gate.__repr__)
            for name, value in (("snapshot", state), ("dump", dump)):
                try:
                    json.dumps(value, allow_nan=False)
                except (TypeError, ValueError) as error:
                    self.broken("plain", f"{name} is {value!r}: {error}")
            headroom = state.get("headroom", 0.0)
            if not isinstance(headroom, (int, float)) or not 0 <= headroom <= 1:
                self.broken("plain", f"headroom is {headroom!r}")
            if "\n" in text or gate.name not in text or not gate.name:
                self.broken("plain", f"the name is {gate.name!r}, the repr {text!r}")

    def empty(self) -> None:
        while self.inside:
            self.leave(self.inside[-1])
            self.look_plain()
        inside = self.call(self.gate.snapshot, self.now).get("inside", 0)
        if inside != 0:
            self.broken("balance", f"its snapshot says that {inside!r} are inside")

    def restart(self) -> None:
        if "restart" in self.exempt:
            return
        state = json.loads(json.dumps(self.call(self.gate.dump)))
        self.tell(self.now, f"it dumps {state}")
        later = self.new_gate()
        self.call(later.load, {}, 0.0)
        self.call(later.load, state, 0.0)
        if not _same(again := self.call(later.dump), state):
            self.broken("restart", f"it was given {state}", f"and dumps     {again}")
        for call in self.calls:
            self.delay(later, Visitor(call, self.now), self.now)

    def rest(self, idle: float) -> None:
        if "capacity" in self.exempt:
            return
        for _ in range(12):
            self.wait(idle)
            self.fill(self.gate, self.calls[0])
        new = self.new_gate()
        for call in self.calls:
            self.wait(idle)
            here, there = self.fill(self.gate, call), self.fill(new, call)
            if here != there:
                self.broken("capacity", f"{here} of {call.cost!r} fit in, and {there} into a new gate")

    def fill(self, gate: Gate, call: Call) -> int:
        """How many go in at once, at most 64; all of them leave well."""
        visitors: list[Visitor] = []
        while len(visitors) < _MANY:
            visitor = Visitor(call, self.now)
            delay = self.delay(gate, visitor, self.now)
            if delay is None or delay > _TINY:
                break
            visitor.started = self.now
            self.call(gate.enter, visitor, self.now)
            visitors.append(visitor)
        for visitor in visitors:
            outcome = Outcome(Ending.DONE, 0.0, None, 0.0, visitor.cost)
            self.call(gate.leave, visitor, outcome, self.now)
        self.tell(
            self.now, f"{len(visitors)} of {call.cost!r} enter {'' if gate is self.gate else 'a new gate '}and leave"
        )
        return len(visitors)

    # ----------------------------------------------------------------------------------------------------------------

    def delay(self, gate: Gate, visitor: Visitor, at: float) -> float | None:
        try:
            delay = gate.delay(visitor, at)
        except Rejected:
            return None
        except Exception as error:
            self.failed("sign", f"delay raised {error!r}", cause=error)
        if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not delay >= 0:
            self.broken("sign", f"the delay of {visitor.cost!r} at {at:.9g} is {delay!r}")
        return delay

    def view(self, gate: Gate, at: float) -> tuple[Any, ...]:
        state, dump = self.call(gate.snapshot, at), self.call(gate.dump)
        return json.dumps(state, default=repr), json.dumps(dump, default=repr), self.call(gate.__repr__)

    def both(self, method: str, *args: Any) -> None:
        self.call(getattr(self.gate, method), *args)
        self.call(getattr(self.twin, method), *args)

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            self.failed(
                "sign", f"{method.__name__} raised {error!r}, and only delay may raise, a Rejected", cause=error
            )

    def tell(self, at: float, what: str) -> None:
        self.story.append(f"{at:14.6f}  {what}")

    def broken(self, law: str, *details: str) -> None:
        if law not in self.exempt:
            self.failed(law, *details)

    def failed(self, law: str, *details: str, cause: BaseException | None = None) -> NoReturn:
        lines = [f"{type(self.gate).__name__} breaks the law {law!r}: {LAWS[law]}", *(f"  {each}" for each in details)]
        lines += [f"What led to it (seed {self.seed}; the last is the latest):", *(f"  {each}" for each in self.story)]
        raise AssertionError("\n".join(lines)) from cause


def _same(one: Any, other: Any) -> bool:
    """Equal, up to the rounding of floats."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)) and isfinite(one):
        return abs(one - other) <= 1e-6 + 1e-9 * abs(one)
    return bool(one == other)
