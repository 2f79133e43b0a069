"""Faults that a reading of the natural pace by a stranger has found."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from andante import Call, ConfigurationError, Controller, Cost, Ending, Outcome, ServiceClass, State
from andante.gates.natural_pace import Knee, MemoryCeiling, NaturalPace, PrefillWindow
from andante.testing import gate_contract

if TYPE_CHECKING:
    from andante.reading import Reading

CHAT = ServiceClass("chat", ttft=1.0, itl=0.05)


@pytest.mark.parametrize("classes", [(), (CHAT,), (ServiceClass("a", ttft=1.0), ServiceClass("b", e2e=9.0))])
@pytest.mark.parametrize("seed", range(5))
def test_keeps_the_laws(classes: tuple[ServiceClass, ...], seed: int) -> None:
    """The whole gate keeps the laws of a gate, as each of its parts does; a knee that was found is not forgotten."""

    def make() -> NaturalPace:
        gate = NaturalPace()
        gate.bind(classes)
        return gate

    gate_contract(make, exempt=("capacity",), seed=seed)


def test_two_chunks_at_one_moment_do_not_blind_the_gate() -> None:
    """Where the first gap is 0, later ones still count."""
    gate = NaturalPace()
    controller = Controller(gate, classes=[CHAT])
    ticket = controller.offer(Call(service="chat"), 0.0)
    for at in (0.1, 0.1, *(0.1 + 0.2 * n for n in range(1, 100))):
        controller.progress(ticket, 1, at)
    assert gate.snapshot(20.0)["intertoken"]["itl"] == pytest.approx(0.2, rel=0.01)


@pytest.mark.parametrize("first", [1.2, 20.0])
def test_one_cold_first_result_does_not_shut_the_door_for_good(first: float) -> None:
    """An engine that is slow to its first result once, cold, and fast ever after is used ever after."""
    controller = Controller(NaturalPace(), classes=[CHAT])
    states = []
    for n in range(20):
        at = 100.0 * n
        ticket = controller.offer(Call(Cost(input_tokens=500), service="chat"), at)
        controller.step(at)
        states.append(ticket.state)
        if ticket.state is State.ADMITTED:
            controller.progress(ticket, 1, at + (0.05 if n else first))
            controller.leave(ticket, Outcome(), at + 30)
    assert states == [State.ADMITTED] * 20


@pytest.mark.parametrize("gate", [NaturalPace, PrefillWindow])
def test_a_guess_refuses_nobody(gate: type[NaturalPace | PrefillWindow]) -> None:
    """Before anything was seen, a long prompt is tried: the guess of 0.1 ms a token may be wrong by much."""
    controller = Controller(gate(), classes=[CHAT])
    assert controller.offer(Call(Cost(input_tokens=15000), service="chat"), 0.0).state is State.ADMITTED


def test_ghosts_that_are_gone_do_not_count() -> None:
    """Calls that left without a first result neither pile up nor make the line of first results flatter."""
    gate = NaturalPace()
    controller = Controller(gate, classes=[CHAT])
    for n in range(220):
        at = 10.0 * n
        ticket = controller.offer(Call(Cost(input_tokens=500), service="chat"), at)
        ending = Ending.IGNORED if 10 <= n < 210 else Ending.DONE
        if ending is Ending.DONE:
            controller.progress(ticket, 1, at + 0.05)
        controller.leave(ticket, Outcome(ending), at + 1)
        assert len(gate.flow.ghosts) <= 1
    assert gate.snapshot(2200.0)["prefill_window"]["beta"] == pytest.approx(1e-4, rel=0.01)


def test_the_knee_forgets_calls_that_were_cancelled() -> None:
    """A call that told nothing leaves nothing behind."""
    gate = Knee()
    controller = Controller(gate, classes=[ServiceClass("any")])
    for n in range(100):
        one, other = (controller.offer(Call(), float(n)) for _ in range(2))
        for ticket in (one, other):
            controller.leave(ticket, Outcome(Ending.IGNORED), n + 0.5)
    assert not gate.bend._starts


def test_the_knee_learns_from_calls_one_after_the_other() -> None:
    """A call that nothing else happened beside has told something too."""
    gate = Knee()
    controller = Controller(gate, classes=[ServiceClass("any")])
    for n in range(20):
        controller.leave(controller.offer(Call(), float(n)), Outcome(), n + 0.5)
    assert gate.bend.ended == 20


def test_the_twin_hears_the_end_of_what_it_heard_the_start_of() -> None:
    """When a first result turns the mode while calls are inside, the twin does not keep them for ever."""
    gate = NaturalPace()
    controller = Controller(gate, classes=[CHAT])
    one = controller.offer(Call(service="chat"), 0.0)
    controller.progress(one, 1, 0.1)
    controller.leave(one, Outcome(), 1.0)
    assert not gate._twin._calls


@pytest.mark.parametrize("nonsense", ["x", nan, inf, -1.0, None, True])
def test_nonsense_is_not_loaded(nonsense: Any) -> None:
    """What makes no sense in a saved state is ignored, and so is what is missing."""
    gate, new = NaturalPace(), NaturalPace().dump()
    gate.load({}, 1.0)
    gate.load(dict.fromkeys(new, nonsense), 1.0)
    assert gate.dump() == new


@pytest.mark.parametrize("wrong", [{"share": "a"}, {"share": -1.0}, {"most": nan}, {"share": True}, {"most": 0}])
def test_a_window_of_nonsense(wrong: dict[str, Any]) -> None:
    """A share or a bound that is no number above 0 is an error that names it."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        PrefillWindow(**wrong)


def test_the_fortieth_class_gets_in_under_a_ceiling() -> None:
    """However many ranks there are, the ceiling leaves the last of them something."""
    gate = MemoryCeiling()
    names = [f"class{n}" for n in range(41)]
    controller = Controller(gate, classes=[ServiceClass(name) for name in names])
    gate.parts[0].ceiling = 1e9  # type: ignore[attr-defined]
    controller.offer(Call(service=names[0]), 0.0)
    assert controller.offer(Call(service=names[-1]), 0.0).state is State.ADMITTED


def test_prompts_beyond_reason_break_nothing() -> None:
    """Sums stay finite however large a prompt is said to be."""
    gate = NaturalPace()
    controller = Controller(gate, classes=[ServiceClass("any")])
    tickets = [controller.offer(Call(Cost(input_tokens=1e308)), at) for at in (0.0, 1.5)]
    controller.step(1.5)
    for ticket in tickets:
        controller.progress(ticket, 1, 2.0)
        controller.leave(ticket, Outcome(), 3.0)
    assert gate.flow.ahead == gate.flow.size == 0.0


class Broken:
    """A signal that cannot be read."""

    def read(self) -> Reading:
        raise OSError("the engine does not answer")


def test_a_signal_that_breaks_says_nothing() -> None:
    """An error of the signal is no error of the call, and leaves no call half inside."""
    gate = NaturalPace(memory=Broken())
    controller = Controller(gate, classes=[CHAT])
    ticket = controller.offer(Call(service="chat"), 0.0)
    assert ticket.state is State.ADMITTED
    assert gate.flow.inside == len(controller.inside) == 1
    assert gate.snapshot(0.0)["engine_memory"] == {"used": None, "blind": True}
