"""What the controller promises (DESIGN, section 3): settlement, sharing, gates that raise, live changes, bad input."""

from __future__ import annotations

import gc
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from andante import (
    Call,
    Concurrency,
    ConfigurationError,
    Controller,
    Cooldown,
    Cost,
    Ending,
    Gate,
    Outcome,
    ServiceClass,
    Shed,
    State,
    TokenBucket,
)
from andante.testing.conservation import check_conservation
from andante.verdict import explain, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING, ADMITTED, REFUSED = State.WAITING, State.ADMITTED, State.REFUSED
TEN = Call(Cost(input_tokens=10))


class Witness(Gate):
    """Writes down what it is told, and raises where it is told to."""

    def __init__(self, *raises: str) -> None:
        super().__init__()
        self.raises, self.told, self.inside = set(raises), [], 0
        self.outcomes: list[Outcome] = []

    def tell(self, what: str) -> None:
        self.told.append(what)
        if what in self.raises:
            raise ZeroDivisionError(what)

    def delay(self, entry: object, now: float) -> float:
        self.tell("delay")
        return 0.0

    def enter(self, entry: object, now: float) -> None:
        self.tell("enter")
        self.inside += 1

    def undo(self, entry: object, now: float) -> None:
        self.inside -= 1
        self.tell("undo")

    def leave(self, entry: object, outcome: Outcome, now: float) -> None:
        self.inside -= 1
        self.outcomes.append(outcome)
        self.tell("leave")


def balanced(c: Controller[Any]) -> None:
    told = snapshot(c, 0.0, "calm")
    check_conservation(told)
    assert (told.inside, told.waiting) == (0, 0)


# Settlement. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_fc_06_the_balance_moves_by_what_was_used(stream: bool) -> None:
    """FC-06: 500 reserved each, 100, 500 and 900 used: the balance moves by 1,500, and the next start fits that."""
    bucket = TokenBucket(100, unit="tokens", burst=1500)
    c = Controller(bucket)
    for used in (100, 500, 900):
        ticket = c.offer(Call(Cost(input_tokens=400, output_tokens=100)), 0.0)
        if stream:
            c.progress(ticket, 5, 0.0)
        ticket.settled = Cost(input_tokens=1)  # the last settlement counts
        ticket.settled = Cost(input_tokens=400, output_tokens=used - 400) if used > 400 else Cost(input_tokens=used)
        c.leave(ticket, Outcome(), 0.0)
    assert bucket.snapshot(0.0)["level"] == 0.0
    ticket = c.offer(Call(Cost(input_tokens=100)), 0.0)
    assert c.next_look(0.0) == 1.0
    assert c.step(1.0) == [ticket]


@pytest.mark.parametrize(
    ("ending", "first", "settled", "charged"),
    [
        (Ending.DONE, False, None, 30),
        (Ending.IGNORED, False, None, 30),
        (Ending.OVERLOADED, True, None, 30),
        (Ending.OVERLOADED, False, None, 0),  # tokens come back, the request does not
        (Ending.OVERLOADED, False, 7, 7),
        (Ending.DONE, True, 50, 50),
    ],
)
def test_what_is_charged(ending: Ending, first: bool, settled: float | None, charged: float) -> None:
    tokens, requests = TokenBucket(1, unit="tokens", burst=100), TokenBucket(1, burst=10)
    c = Controller(tokens, requests)
    ticket = c.offer(Call(Cost(input_tokens=20, output_tokens=10)), 0.0)
    if first:
        c.progress(ticket, 1, 0.0)
    if settled is not None:
        ticket.settled = Cost(output_tokens=settled)
    c.leave(ticket, Outcome(ending), 0.0)
    assert tokens.snapshot(0.0)["level"] == 100 - charged
    assert requests.snapshot(0.0)["level"] == 9


def test_outcomes_are_filled_from_measurements_and_what_is_said_stays() -> None:
    gate = Witness()
    c = Controller(gate)
    one, two = c.offer(TEN, 1.0), c.offer(TEN, 1.0)
    c.progress(one, 2, 3.0)
    c.progress(one, 0, 3.5)
    c.progress(one, 1, 4.0)
    one.idle = 0.5
    c.leave(one, Outcome(), 6.0)
    c.leave(one, Outcome(Ending.OVERLOADED), 7.0)
    said = Outcome(seconds=1.0, ttft=0.5, items=9, cost=Cost(3))
    c.leave(two, said, 6.0)
    assert gate.outcomes == [Outcome(seconds=4.5, ttft=2.0, items=3, cost=TEN.cost), said]
    balanced(c)


def test_progress_and_leave_of_a_call_that_is_not_inside_do_nothing() -> None:
    c = Controller(Concurrency(1))
    c.offer(TEN, 0.0)
    waits = c.offer(TEN, 0.0)
    c.progress(waits, 1, 0.0)
    c.leave(waits, Outcome(), 0.0)
    assert (waits.state, waits.first, waits.items) == (WAITING, None, 0.0)
    c.withdraw(waits, 0.0)
    c.withdraw(waits, 0.0)
    check_conservation(snapshot(c, 0.0, "calm"))
    assert snapshot(c, 0.0, "calm").withdrawn == 1


# Lateness. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strict", "late", "after"), [(False, 0.004, 0.1), (False, 0.05, 0.14), (True, 0.004, 0.104)])
def test_lateness_is_repaid_up_to_ten_milliseconds(strict: bool, late: float, after: float) -> None:
    """At 10 a second each start is due 0.1 s after the last; a step that comes late does not move the next one."""
    c = Controller(TokenBucket(10, burst=1, strict_window=strict))
    for _ in range(3):
        c.offer(Call(), 0.0)
    now = c.next_look(0.0) + late
    assert len(c.step(now)) == 1
    assert c.next_look(now) == pytest.approx(0.1 + after, abs=2e-3 if strict else 1e-9)


def test_idling_earns_no_credit() -> None:
    """The bucket that has been full for long lets one in, not one and what lateness would give."""
    c = Controller(TokenBucket(1000, burst=1))
    assert c.offer(Call(), 100.0).state is ADMITTED
    assert [c.offer(Call(), 100.0).state for _ in range(3)] == [WAITING] * 3


# Shared gates. --------------------------------------------------------------------------------------------------------


def test_controllers_that_share_a_gate_wake_each_other_in_turn() -> None:
    """It keeps its limit; who gives a place back lets the others look, and nobody is always the first."""
    gate = Concurrency(2)
    sides = [Controller(gate) for _ in range(3)]
    heard: list[int] = []
    for n, side in enumerate(sides):
        side.waker = lambda n=n: heard.append(n)  # type: ignore[misc]
    inside = [sides[0].offer(TEN, 0.0), sides[0].offer(TEN, 0.0)]
    waits = [side.offer(TEN, 0.0) for side in sides[1:]]
    assert [side.step(0.0) for side in sides] == [[], [], []]
    assert [side.next_look(0.0) for side in sides] == [inf] * 3
    firsts = []
    for ticket in inside:
        heard.clear()
        sides[0].leave(ticket, Outcome(), 1.0)
        assert sorted(heard) == [0, 1, 2]
        firsts.append(heard[0])
        for n in heard:
            assert sides[n].next_look(1.0) <= 1.0
            sides[n].step(1.0)
    assert len(set(firsts)) == 2
    assert [ticket.state for ticket in waits] == [ADMITTED, ADMITTED]
    assert gate.inside == 2


def test_a_withdrawn_grant_wakes_the_others_too_and_a_controller_that_is_gone_is_forgotten() -> None:
    gate = Concurrency(1)
    a, b = Controller(gate), Controller(gate)
    granted, waits = a.offer(TEN, 0.0), b.offer(TEN, 0.0)
    a.withdraw(granted, 0.0)
    assert b.next_look(0.0) <= 0.0
    assert b.step(0.0) == [waits]
    del a, granted
    gc.collect()
    assert len(gate.holders()) == 1
    b.reconfigure(0.0, gates=[])
    assert gate.holders() == []
    b.leave(waits, Outcome(), 0.0)
    assert gate.inside == 0


# Gates that raise. ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["delay", "enter"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_gate_that_raises_leaves_nothing_half_taken(what: str, place: int) -> None:
    """Nor from the line. The call is refused with that error, once, and those behind it go on."""
    gates = [Witness(), Witness(), Witness()]
    c = Controller(*gates)
    gates[place].raises.add(what)
    ticket = c.offer(TEN, 0.0)
    assert (ticket.state, type(ticket.error), ticket.started) == (REFUSED, ZeroDivisionError, None)
    assert [gate.inside for gate in gates] == [0, 0, 0]
    assert c.next_look(0.0) == inf
    balanced(c)

    room = Concurrency(1)
    gates[place].raises.clear()
    c = Controller(*gates, room)
    inside, bad, good = (c.offer(TEN, 0.0) for _ in range(3))
    gates[place].raises.add(what)
    c.leave(inside, Outcome(), 0.0)
    gates[place].tell = lambda told, real=gates[place].tell: real(told) if not bad.error else None  # type: ignore[method-assign,misc]
    assert c.step(0.0) == [bad, good]
    assert (type(bad.error), good.state) == (ZeroDivisionError, ADMITTED)
    assert [gate.inside for gate in gates] == [1, 1, 1]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_gate_that_raises_when_told_of_an_exit_hides_it_from_nobody(place: int) -> None:
    """The error comes out, but every other gate has heard, the counts are right and others may go on."""
    gates = [Witness(), Witness(), Concurrency(1)]
    gates.insert(place, bad := Witness("leave", "undo"))
    c = Controller(*gates)
    for end in (lambda t: c.leave(t, Outcome(), 1.0), lambda t: c.withdraw(t, 1.0)):
        ticket, waits = c.offer(TEN, 0.0), c.offer(TEN, 0.0)
        with pytest.raises(ZeroDivisionError):
            end(ticket)
        assert c.step(1.0) == [waits]
        assert [gate.inside for gate in gates] == [1] * 4  # type: ignore[attr-defined]
        bad.raises.clear()
        c.leave(waits, Outcome(), 1.0)
        bad.raises.update(("leave", "undo"))
        balanced(c)


# Live changes. --------------------------------------------------------------------------------------------------------


def test_counts_survive_and_who_waits_is_planned_anew() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b")])
    inside = c.offer(Call(service="a"), 0.0)
    a, b = c.offer(Call(service="a"), 0.0), c.offer(Call(service="b"), 0.0)
    c.reconfigure(1.0, classes=[ServiceClass("b"), ServiceClass("a", max_wait=3.0)])
    assert c.next_look(1.0) <= 1.0
    assert c.step(1.0) == []
    assert c.next_look(1.0) == 3.0
    c.leave(inside, Outcome(), 2.0)
    assert c.step(2.0) == [b]
    assert c.step(3.0) == [a]
    assert a.state is REFUSED
    counts = snapshot(c, 3.0, "calm").classes
    assert (counts["a"].offered, counts["a"].done, counts["a"].refused, counts["b"].inside) == (2, 1, 1, 1)


def test_a_class_that_is_gone_sheds_who_waits_and_may_come_back() -> None:
    c = Controller(Concurrency(1), classes=[ServiceClass("a"), ServiceClass("b")])
    inside, waits = c.offer(Call(service="a"), 0.0), c.offer(Call(service="a"), 0.0)
    c.reconfigure(0.0, classes=[ServiceClass("b")])
    assert c.step(0.0) == [waits]
    assert isinstance(waits.error, Shed)
    with pytest.raises(ConfigurationError, match=r"'a'.*knows: b"):
        c.offer(Call(service="a"), 0.0)
    c.leave(inside, Outcome(), 0.0)
    balanced(c)
    c.reconfigure(0.0, classes=[ServiceClass("a")])
    c.offer(Call(service="a"), 0.0)
    assert snapshot(c, 0.0, "calm").classes["a"].offered == 3


@pytest.mark.parametrize("keep", [True, False])
def test_a_new_gate_is_told_of_those_inside(keep: bool) -> None:
    """Also of those whose class goes in the same change; and one that is taken off still hears how they end."""
    old, new = Concurrency(4, name="old"), Concurrency(2, name="new")
    c = Controller(old, classes=[ServiceClass("a"), ServiceClass("b")])
    inside = [c.offer(Call(service="a"), 0.0) for _ in range(3)]
    c.reconfigure(0.0, gates=[new], classes=[ServiceClass("b"), *([ServiceClass("a")] if keep else [])])
    assert new.inside == 3
    waits = c.offer(Call(service="b"), 0.0)
    assert waits.state is WAITING
    c.leave(inside[0], Outcome(), 0.0)
    assert c.step(0.0) == []
    c.leave(inside[1], Outcome(), 0.0)
    assert c.step(0.0) == [waits]
    c.leave(inside[2], Outcome(), 0.0)
    assert (old.inside, new.inside) == (0, 1)


def test_a_change_that_makes_no_sense_changes_nothing() -> None:
    gate = Concurrency(1)
    c = Controller(gate, classes=[ServiceClass("a", max_waiting=1)])
    c.offer(Call(service="a"), 0.0)
    waits = c.offer(Call(service="a"), 0.0)
    for change in (
        {"classes": []},
        {"classes": [ServiceClass("b"), ServiceClass("b")]},
        {"gates": [gate, gate]},
        {"classes": [ServiceClass("b", gates=(gate,))]},
        {"size_bias": -1.0},
        {"gates": 5},
        {"classes": [ServiceClass("a", floor=0.6), ServiceClass("b", floor=0.6)]},
    ):
        with pytest.raises(ConfigurationError):
            c.reconfigure(0.0, **change)  # type: ignore[arg-type]
    assert (waits.state, c.next_look(0.0), [lane.name for lane in c.plan.lanes]) == (WAITING, inf, ["a"])
    assert gate.holders() != []


def test_many_changes_leave_nothing_behind() -> None:
    """Those who wait are watched once each, however often the plan has changed."""
    c = Controller(Concurrency(1), classes=[ServiceClass("a", max_wait=1e6, max_waiting=inf)])
    for _ in range(200):
        c.offer(Call(service="a"), 0.0)
    for _ in range(50):
        c.reconfigure(0.0)
        c.step(0.0)
    assert c.plan.lanes[0].watched.kept <= 2 * 200 + 64


def test_gates_may_speak_up_during_a_change() -> None:
    """The waker is not called in the middle of it, when nothing is consistent; the step that follows hears."""

    class Chatty(Concurrency):
        def enter(self, entry: Any, now: float) -> None:
            super().enter(entry, now)
            self.changed()

    c = Controller(Concurrency(3))
    c.waker = lambda: c.step(0.0) and None
    for _ in range(6):
        c.offer(TEN, 0.0)
    c.reconfigure(0.0, gates=[Chatty(9)])
    c.step(0.0)
    assert len(c.inside) == 6


def test_fc_09_limits_change_while_calls_wait() -> None:
    """FC-09: 1 per minute becomes 60 per minute: the next starts within 1 s. 1 place becomes 5: five run. And down."""
    bucket = TokenBucket(1, per="minute")
    c = Controller(bucket)
    c.offer(Call(), 0.0)
    waits = [c.offer(Call(), 0.0) for _ in range(3)]
    assert c.next_look(0.0) == 60.0
    bucket.rate = 60
    assert c.next_look(5.0) <= 5.0
    c.step(5.0)
    assert c.next_look(5.0) <= 6.0
    assert waits[0] in c.step(c.next_look(5.0))

    places = Concurrency(1)
    c = Controller(places)
    tickets = [c.offer(Call(), 0.0) for _ in range(11)]
    places.limit = 5
    assert len(c.step(1.0)) == 4
    places.limit = 2
    assert c.step(2.0) == []
    assert places.inside == 5  # nobody is sent away
    for n, ticket in enumerate(tickets[:5]):
        c.leave(ticket, Outcome(), 3.0)
        assert len(c.step(3.0)) == (n >= 3)
    assert places.inside == 2


# Bad input. -----------------------------------------------------------------------------------------------------------


def test_unknown_class() -> None:
    c = Controller(classes=[ServiceClass("a"), ServiceClass("b")])
    with pytest.raises(ConfigurationError, match=r"'nobody'.*a, b") as caught:
        c.offer(Call(service="nobody"), 0.0)
    assert caught.value.path == "service"
    assert c.offer(Call(), 0.0).service == "b"  # "default" is the last class where none has that name


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: ServiceClass(""), "name"),
        (lambda: ServiceClass(5), "name"),  # type: ignore[arg-type]
        *((lambda f=f, v=v: ServiceClass("a", **{f: v}), f)
          for f in ("ttft", "e2e", "itl", "max_wait") for v in (-1.0, nan, True, "1")),
        *((lambda f=f: ServiceClass("a", **{f: 0}), f) for f in ("ttft", "e2e", "itl")),
        *((lambda v=v: ServiceClass("a", max_waiting=v), "max_waiting") for v in (-1, nan, True, "9", None)),
        *((lambda v=v: ServiceClass("a", floor=v), "floor") for v in (-0.1, 1.1, nan, inf, True, "0")),
        *((lambda v=v: ServiceClass("a", gates=v), "gates") for v in ((5,), "gate", 5, None)),
        *((lambda f=f, v=v: ServiceClass("a", **{f: v}), f)
          for f in ("deferrable", "early_refusal") for v in ("no", 1, None)),
        (lambda: Controller(5), "gates"),  # type: ignore[arg-type]
        (lambda: Controller(classes=[5]), "classes"),  # type: ignore[list-item]
        (lambda: Controller(classes=5), "classes"),  # type: ignore[arg-type]
        (lambda: Controller(classes=ServiceClass("a")), "classes"),  # type: ignore[arg-type]
        (lambda: Controller(classes=[ServiceClass("a"), ServiceClass("a")]), "classes"),
        *((lambda v=v: Controller(size_bias=v), "size_bias") for v in (-1, nan, inf, True, "1", None)),
        *((lambda f=f, v=v: Cost(**{f: v}), f)
          for f in ("requests", "input_tokens", "output_tokens", "cached_tokens", "memory_bytes")
          for v in (-1, nan, inf, True, "1", None)),
        (lambda: Call(5), "cost"),  # type: ignore[arg-type]
        (lambda: Call(service=None), "service"),  # type: ignore[arg-type]
        *((lambda v=v: Call(deadline=v), "deadline") for v in (nan, True, "1", None)),
        (lambda: Call(tenant=[]), "tenant"),
    ],
)  # fmt: skip
def test_bad_parameters(make: Callable[[], object], path: str) -> None:
    """A ConfigurationError that names the parameter and the value; it is a ValueError too."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert path in (caught.value.path or "")
    assert isinstance(caught.value, ValueError)


def test_the_same_gate_twice_on_one_way_in() -> None:
    gate = Concurrency(1)
    for make in (
        lambda: Controller(gate, gate),
        lambda: Controller(gate, classes=[ServiceClass("a", gates=(gate,))]),
        lambda: Controller(classes=[ServiceClass("a", gates=(gate, gate))]),
    ):
        with pytest.raises(ConfigurationError, match="twice"):
            make()
    Controller(classes=[ServiceClass("a", gates=(gate,)), ServiceClass("b", gates=(gate,))])  # two ways


def test_a_held_cooldown_is_looked_at_when_it_ends() -> None:
    """A gate without a rate but with a finite delay is a reason to look again."""
    gate = Cooldown()
    c = Controller(gate)
    ticket = c.offer(Call(), 0.0)
    c.leave(ticket, Outcome(Ending.OVERLOADED, retry_after=10.0), 1.0)
    waits = [c.offer(Call(), 1.0) for _ in range(3)]
    assert c.next_look(1.0) == 11.0
    assert c.step(11.0) == waits[:1]


def test_explain_knows_whose_turn_it_is() -> None:
    """A class held by a gate of its own leaves the door open; a deferrable class waits while others do."""
    own = Concurrency(1, name="own")
    classes = [ServiceClass("a", gates=(own,)), ServiceClass("b"), ServiceClass("c", deferrable=True)]
    controller = Controller(Concurrency(10), classes=classes)
    for _ in range(2):
        controller.offer(Call(service="a"), 0.0)
    assert controller.waiting == 1
    assert explain(controller, Call(service="b"), 0.0).admitted
    assert not explain(controller, Call(service="c"), 0.0).admitted
    assert controller.offer(Call(service="b"), 0.0).state is State.ADMITTED
    assert controller.offer(Call(service="c"), 0.0).state is State.WAITING
