"""The cool-down: one hears "slow down", all stay away; then one tries, then a few, then all."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from andante.errors import ConfigurationError, DeadlineUnreachable
from andante.gates import Concurrency, Cooldown, TokenBucket
from andante.service import ServiceClass
from andante.testing.visitor import Visitor
from andante.values import Call, Ending, Outcome
from tests.gates.drive import Drive, Ends, fullest_window

if TYPE_CHECKING:
    from andante.ticket import Ticket

DONE, IGNORED = Outcome(Ending.DONE), Outcome(Ending.IGNORED)


def overloaded(retry_after: Any = None) -> Outcome:
    return Outcome(Ending.OVERLOADED, retry_after=retry_after)


def guest() -> Visitor:
    return Visitor(Call(), 0.0)


def delay(gate: Cooldown, now: float) -> float:
    return gate.delay(guest(), now)


def state(gate: Cooldown, now: float) -> str:
    return str(gate.snapshot(now)["state"])


def go_in(gate: Cooldown, now: float) -> Visitor:
    visitor = guest()
    assert gate.delay(visitor, now) == 0
    gate.enter(visitor, now)
    return visitor


def held(now: float = 0.0, retry_after: float | None = None, **parameters: Any) -> Cooldown:
    """A gate on which a call was just pushed back."""
    gate = Cooldown(**parameters)
    gate.leave(go_in(gate, now), overloaded(retry_after), now)
    return gate


# The hold. ------------------------------------------------------------------------------------------------------------


def test_open_lets_everybody_in() -> None:
    """Without a pushback nobody is held, however calls end otherwise (FC-39)."""
    gate = Cooldown()
    for number in range(300):
        gate.leave(go_in(gate, 1.0), (DONE, IGNORED)[number % 2], 1.0)
        gate.undo(go_in(gate, 1.0), 1.0)
    assert gate.snapshot(1.0) == {"state": "open", "until": None, "headroom": 1.0}


def test_the_server_says_how_long() -> None:
    """Nobody enters until as many seconds have passed as the server asked; the delay is exact."""
    gate = held(5.0, 10.0)
    assert delay(gate, 5.0) == 10
    assert delay(gate, 14.0) == 1
    assert delay(gate, 15.0 - 1e-8) == 0
    assert gate.snapshot(6.0) == {"state": "holding", "until": 15.0, "headroom": 0.0}
    go_in(gate, 15.0)


@pytest.mark.parametrize("start", [0.1, 1e6 / 3, 1.7e9 + 0.3])
def test_waiting_exactly_is_enough(start: float) -> None:
    """After waiting exactly the delay, the delay is 0, however large the clock's readings."""
    for asked in (0.1, 1 / 3, 7.7, 1e-6):
        gate = held(start, asked)
        while (wait := delay(gate, start)) > 0:
            assert start + wait > start
            start += wait
        go_in(gate, start)


def test_the_longest_hold_wins() -> None:
    """Of several the one that ends last counts, whichever was told last."""
    gate = Cooldown()
    before = [go_in(gate, 0.0) for _ in range(4)]
    gate.leave(before[0], overloaded(10.0), 1.0)
    gate.leave(before[1], overloaded(2.0), 2.0)
    assert delay(gate, 2.0) == 9
    gate.leave(before[2], overloaded(10.0), 3.0)
    assert delay(gate, 3.0) == 10
    gate.leave(before[3], overloaded(), 4.0)
    assert delay(gate, 4.0) == 9


def test_backoff_counts_probes_only() -> None:
    """Without a word from the server: initial * factor**n up to maximum, n the pushbacks of probes in a row. A herd
    that was sent before the hold and is pushed back does not lengthen it."""
    gate = Cooldown(initial=1.0, factor=2.0, maximum=5.0)
    herd = [go_in(gate, 0.0) for _ in range(100)]
    for visitor in herd[:50]:
        gate.leave(visitor, overloaded(), 0.5)
    assert delay(gate, 0.5) == 1
    now, holds = 1.5, []
    for _ in range(5):
        probe = go_in(gate, now)
        gate.leave(herd.pop(), overloaded(), now)
        assert delay(gate, now) == math.inf
        gate.leave(probe, overloaded(), now)
        holds.append(delay(gate, now))
        now += holds[-1]
    assert holds == [2, 4, 5, 5, 5]


def test_backoff_starts_over_when_open_again() -> None:
    """Once the gate was open again, the next pushback is a first one."""
    gate = held(0.0, initial=1.0)
    probe = go_in(gate, 1.0)
    gate.leave(probe, overloaded(), 1.0)
    assert delay(gate, 1.0) == 2
    for now in (3.0, 4.0, 5.0):
        gate.leave(go_in(gate, now), DONE, now)
    assert state(gate, 5.0) == "open"
    gate.leave(go_in(gate, 6.0), overloaded(), 6.0)
    assert delay(gate, 6.0) == 1
    gate.leave(go_in(gate, 7.0), overloaded(), 7.0)
    assert delay(gate, 7.0) == 2


def test_a_server_that_says_zero_is_not_hammered() -> None:
    """Retry-After 0 holds nobody the first time, but a probe that is pushed back waits our own backoff at least."""
    gate = held(0.0, 0.0)
    assert state(gate, 0.0) == "probing"
    holds = []
    for now, asked in ((0.0, 0.0), (10.0, 1.5), (20.0, 7.0)):
        gate.leave(go_in(gate, now), overloaded(asked), now)
        holds.append(delay(gate, now))
    assert holds == [2, 4, 8]
    gate.leave(go_in(gate, 30.0), overloaded(100.0), 30.0)
    assert delay(gate, 30.0) == 100


@pytest.mark.parametrize("asked", [-1, -0.001, math.nan, "10", True, None, [3]])
def test_waits_that_make_no_sense(asked: Any) -> None:
    """A server's wait that is negative or no number counts as none."""
    assert delay(held(0.0, asked), 0.0) == 1


@pytest.mark.parametrize("asked", [3600, 3601, 1e300, math.inf, 10**400])
def test_waits_without_end(asked: Any) -> None:
    """A server's wait is cut to maximum_hold; an hour unless told otherwise."""
    assert delay(held(0.0, asked), 0.0) == 3600
    assert delay(held(0.0, asked, maximum_hold=90_000.0), 0.0) == min(asked, 90_000)


def test_hold_by_hand() -> None:
    """Who learns of a pushback otherwise holds everybody; whoever waits is planned anew; bad waits are refused."""
    gate = Cooldown(maximum_hold=60)
    drive = Drive(gate)
    gate.hold(5.0, 1.0)
    assert drive.controller.next_look(1.0) == 1.0
    gate.hold(3.0, 2.0)
    assert delay(gate, 2.0) == 4
    gate.hold(math.inf, 2.0)
    assert delay(gate, 2.0) == 60
    for bad in (-1.0, math.nan, "5"):
        with pytest.raises(ConfigurationError, match="wait"):
            gate.hold(bad, 3.0)  # type: ignore[arg-type]
    assert delay(gate, 62.0) == 0


# The probe. -----------------------------------------------------------------------------------------------------------


def test_one_probe() -> None:
    """After the hold one enters; the others wait for how it ends, for which no time is known."""
    gate = held(0.0, 10.0)
    probe = go_in(gate, 10.0)
    assert delay(gate, 10.0) == delay(gate, 1e6) == gate.look(10.0) == math.inf
    assert gate.snapshot(11.0) == {"state": "probing", "until": None, "limit": 1, "inside": 1, "headroom": 0.0}
    gate.leave(probe, DONE, 12.0)
    assert state(gate, 12.0) == "ramping"


@pytest.mark.parametrize("ending", ["ignored", "cancelled", "undone"])
def test_fc_38_the_probes_place_comes_back(ending: str) -> None:
    """FC-38: a probe that was cancelled, undone, or ended by the caller's own mistake returns its place; the next one
    probes, and its success goes on to the ramp."""
    gate = held(0.0, 10.0)
    for now in (10.0, 11.0, 12.0):
        probe = go_in(gate, now)
        assert delay(gate, now) == math.inf
        if ending == "undone":
            gate.undo(probe, now)
        else:
            gate.leave(probe, Outcome(Ending.IGNORED, error=RuntimeError() if ending == "ignored" else None), now)
        assert delay(gate, now) == 0
        assert state(gate, now) == "probing"
    gate.leave(go_in(gate, 13.0), DONE, 13.0)
    assert state(gate, 13.0) == "ramping"


def test_fc_38_withdrawn_after_the_grant() -> None:
    """FC-38: a probe withdrawn between grant and run lets the next waiting call probe."""
    gate = held(0.0, 10.0)
    drive = Drive(gate)
    drive.call(1.0, Call(), lambda _: (1000.0, DONE))
    drive.call(2.0, Call(), lambda _: (1.0, DONE))
    drive.at(10.5, lambda: drive.controller.withdraw(drive.tickets[0], 10.5))
    drive.run(20.0)
    assert drive.times == [10.0, 10.5]
    assert state(gate, 20.0) == "ramping"


def test_old_calls_are_no_probes() -> None:
    """What entered before the hold neither reopens the gate when it ends well nor takes the probe's place."""
    gate = Cooldown()
    old = [go_in(gate, 0.0) for _ in range(5)]
    gate.leave(old[0], overloaded(10.0), 1.0)
    gate.leave(old[1], DONE, 2.0)
    assert delay(gate, 2.0) == 9
    gate.leave(old[2], DONE, 12.0)
    gate.progress(old[3], 1, 12.0)
    assert state(gate, 12.0) == "probing"
    probe = go_in(gate, 12.0)
    gate.leave(old[3], DONE, 13.0)
    assert delay(gate, 13.0) == math.inf
    gate.leave(probe, DONE, 14.0)
    assert delay(gate, 14.0) == 0
    gate.leave(old[4], overloaded(), 14.0)
    assert state(gate, 14.0) == "ramping"


def test_who_is_told_of_during_a_hold_is_no_probe() -> None:
    """An admission that takes the gate while it holds tells it of the calls that are inside: they are no probes."""
    gate = held(0.0, 10.0)
    inside = guest()
    gate.enter(inside, 5.0)
    probe = go_in(gate, 10.0)
    gate.leave(inside, DONE, 11.0)
    assert state(gate, 11.0) == "probing"
    gate.leave(probe, DONE, 11.0)
    assert state(gate, 11.0) == "ramping"


def test_a_new_hold_makes_probes_old() -> None:
    """A probe that is out when the server asks for a new hold, by an older call, does not end that hold."""
    gate = Cooldown()
    old, pushed = go_in(gate, 0.0), go_in(gate, 0.0)
    gate.leave(pushed, overloaded(1.0), 0.0)
    probe = go_in(gate, 1.0)
    gate.leave(old, overloaded(5.0), 1.5)
    assert delay(gate, 1.5) == 5
    gate.leave(probe, DONE, 2.0)
    assert delay(gate, 2.0) == 4.5
    go_in(gate, 6.5)


def test_the_first_result_of_a_stream_is_enough() -> None:
    """A probe that streams for minutes holds the others until its first result only."""
    gate = held(0.0, 10.0)
    probe = go_in(gate, 10.0)
    gate.progress(probe, 1, 11.0)
    assert state(gate, 11.0) == "ramping"
    go_in(gate, 11.0)
    assert delay(gate, 11.0) == math.inf, "the streaming probe still has a place in the round of 2"
    for _ in range(50):
        gate.progress(probe, 1, 12.0)
    assert gate.snapshot(12.0)["limit"] == 2, "it went well once"
    gate.leave(probe, DONE, 13.0)
    gate.leave(go_in(gate, 13.0), DONE, 13.0)
    assert gate.snapshot(13.0)["limit"] == 2, "its end is no second success"


def test_an_overload_inside_a_stream_counts() -> None:
    """A probe whose stream is broken off by an overload after its first result is a probe that was pushed back."""
    gate = held(0.0, 10.0)
    probe = go_in(gate, 10.0)
    gate.progress(probe, 1, 11.0)
    gate.leave(probe, overloaded(), 13.0)
    assert delay(gate, 13.0) == 2


# The ramp. ------------------------------------------------------------------------------------------------------------


def storm(gate: Cooldown, callers: int, lasts: float = 1.0, until: float = 200.0, *more: Any) -> Drive:
    drive = Drive(*more, gate, classes=[ServiceClass("default", max_waiting=100_000)])
    for _ in range(callers):
        drive.call(1.0, Call(), lambda _: (lasts, Outcome()))
    return drive.run(until)


def test_the_ramp_doubles() -> None:
    """Rounds of 1, 2, 4, 8, ...: as many are inside as the round is large, so that the herd comes at a walking pace."""
    drive = storm(held(0.0, 10.0), 100)
    assert Counter(drive.times) == {10.0: 1, 11.0: 2, 12.0: 4, 13.0: 8, 14.0: 16, 15.0: 32, 16.0: 37}


def test_a_gentler_ramp() -> None:
    """`ramp` says how much larger each round is."""
    drive = storm(held(0.0, 10.0, ramp=1.5), 12)
    assert Counter(drive.times) == {10.0: 1, 11.0: 2, 12.0: 3, 13.0: 5, 14.0: 1}


@pytest.mark.parametrize("seed", range(10))
def test_never_more_inside_than_the_round(seed: int) -> None:
    """Whatever calls last, a herd never gets in at once: those inside at most double within the time of one call."""
    rng = random.Random(seed)
    gate = held(0.0, 10.0)
    drive = Drive(gate, classes=[ServiceClass("default", max_waiting=10_000)])
    for _ in range(3000):
        drive.call(1.0, Call(), lambda _: (rng.choice([0.1, 1.0, 3.0]), Outcome()))
    drive.run(500.0)
    assert len(drive.started) == 3000
    doubling = 0.1
    for number in (10, 100, 1000):
        assert drive.times[number] >= 10.0 + doubling * (math.log2(number) - 1)
        assert drive.times[number] <= 10.0 + 3.0 * (math.log2(number) + 2)


def test_it_opens_after_a_round_that_was_never_full() -> None:
    """Where fewer come than would be let in, nobody is held back any more, and the gate is open."""
    gate = held(0.0, 10.0)
    for now in (10.0, 11.0):
        gate.leave(go_in(gate, now), DONE, now)
        assert state(gate, now) == "ramping"
    gate.leave(go_in(gate, 12.0), DONE, 12.0)
    assert state(gate, 12.0) == "open"
    for _ in range(100):
        go_in(gate, 12.0)


def test_leaves_in_one_instant_do_not_open_it() -> None:
    """A round whose calls all leave before anyone could follow them was full all the same."""
    gate = held(0.0, 10.0)
    gate.leave(go_in(gate, 10.0), DONE, 10.0)
    for size in (2, 4, 8, 16):
        visitors = [go_in(gate, 11.0) for _ in range(size)]
        assert delay(gate, 11.0) == math.inf
        for visitor in visitors:
            gate.leave(visitor, DONE, 12.0)
        assert gate.snapshot(12.0)["limit"] == 2 * size


def test_a_pushback_ends_the_ramp() -> None:
    """A new call pushed back begins the next, longer hold; the others of its round are old by then."""
    gate = held(0.0)
    gate.leave(go_in(gate, 1.0), DONE, 1.0)
    first, second = go_in(gate, 1.0), go_in(gate, 1.0)
    gate.leave(first, overloaded(), 2.0)
    assert delay(gate, 2.0) == 2
    gate.leave(second, overloaded(), 2.0)
    assert delay(gate, 2.0) == 2
    go_in(gate, 4.0)
    assert delay(gate, 4.0) == math.inf


def test_ignored_calls_do_not_end_a_round() -> None:
    """Calls that say nothing return their places and count neither way."""
    gate = held(0.0, 10.0)
    gate.leave(go_in(gate, 10.0), DONE, 10.0)
    for _ in range(20):
        gate.leave(go_in(gate, 11.0), IGNORED, 11.0)
        gate.undo(go_in(gate, 11.0), 11.0)
    assert gate.snapshot(11.0) == {"state": "ramping", "until": None, "limit": 2, "inside": 0, "headroom": 1.0}


# Field cases, through the controller. ---------------------------------------------------------------------------------


def test_fc_02_one_hears_it_all_stay_away() -> None:
    """FC-02: 20 callers on a pacer; the fifth call is told to wait 10 s. Nobody leaves in these 10 s, calls on other
    limits go on, and afterwards traffic comes back at the pace, not as a burst."""
    gate, bucket = Cooldown(), TokenBucket(10, burst=5)
    drive = Drive(bucket, gate)
    other = Drive(TokenBucket(10, burst=5), Cooldown())
    answered = 0

    def ends(_: Ticket) -> Ends:
        nonlocal answered
        answered += 1
        return (0.2, overloaded(10.0)) if answered == 5 else (0.2, Outcome())

    for number in range(20):
        drive.call(number * 0.001, Call(), ends)
        other.call(number * 0.001)
    told = 0.004 + 0.2
    drive.run(60.0)
    other.run(60.0)
    before = [at for at in drive.times if at < told]
    after = drive.times[len(before) :]
    assert len(before) + len(after) == 20
    assert after[0] == pytest.approx(told + 10)
    assert after[1] >= after[0] + 0.2, "one probe first"
    assert sum(at < after[0] + 0.399 for at in after) <= 3, "then two"
    assert fullest_window(((at, 1) for at in drive.times), 1.0) <= 5 + 10
    assert other.times[-1] < told + 10
    assert delay(gate, 60.0) == 0


def test_fc_36_the_first_to_come_back_is_not_stampeded() -> None:
    """FC-36 (the part of one gate): a hold of 5 s; 50 callers with 30 s each are served from 5 s on, at a walking
    pace; one with 3 s is refused at once, and told when."""
    gate = held(0.0, 5.0)
    classes = [ServiceClass("patient", max_wait=30.0), ServiceClass("hurried", max_wait=3.0)]
    drive = Drive(gate, classes=classes)
    for _ in range(50):
        drive.call(1.0, Call(service="patient"), lambda _: (0.5, Outcome()))
    drive.call(1.0, Call(service="hurried"))
    drive.run(40.0)
    assert drive.times[0] == 5.0
    assert sum(at == 5.0 for at in drive.times) == 1
    assert len(drive.started) == 50
    ((at, ticket),) = drive.refused
    assert at == 1.0
    assert isinstance(ticket.error, DeadlineUnreachable)
    assert (ticket.error.gate, ticket.error.retry_after) == ("cooldown", pytest.approx(4.0))


def test_with_places_it_opens_at_the_places() -> None:
    """Beside a Concurrency gate the ramp ends where the places end, and the rest flows at their pace."""
    places = Concurrency(6)
    gate = held(0.0, 10.0)
    drive = storm(gate, 100, 1.0, 200.0, places)
    assert len(drive.started) == 100
    assert max(Counter(drive.times).values()) <= 6
    assert state(gate, 200.0) == "open"
    assert drive.times[-1] < 10 + 4 + 100 / 6 + 2


def test_an_outage_is_probed_less_and_less() -> None:
    """While the backend is down, one call per hold is sent, and holds grow to the maximum."""
    gate = Cooldown(initial=1.0, factor=2.0, maximum=30.0)
    drive = Drive(gate, classes=[ServiceClass("default", max_waiting=10_000)])
    for _ in range(1000):
        drive.call(0.0, Call(), lambda t: (0.1, overloaded() if drive.now < 300 else Outcome()))
    drive.run(0.0)
    assert len(drive.started) == 1000, "nobody knew yet"
    for number in range(1000):
        drive.call(1.0 + number / 1000, Call(), lambda t: (0.1, overloaded() if drive.now < 300 else Outcome()))
    drive.run(299.0)
    assert len(drive.started) - 1000 <= 5 + 300 / 30
    drive.run(1000.0)
    assert len(drive.started) == 2000


# Restarts, clocks, what people see. -----------------------------------------------------------------------------------


def test_a_restart_keeps_a_hold() -> None:
    """A hold survives a restart, shorter by as long as it took; then one probes, with the backoff that was reached."""
    gate = held(100.0)
    gate.leave(go_in(gate, 101.0), overloaded(), 101.0)
    gate.leave(go_in(gate, 103.0), overloaded(), 103.0)
    later = Cooldown()
    later.load(gate.dump(), age=1.5)
    assert later.snapshot(0.0) == {"state": "holding", "until": 2.5, "headroom": 0.0}
    assert delay(later, 7.0) == 2.5
    assert delay(later, 8.5) == 1
    probe = go_in(later, 9.5)
    assert delay(later, 9.5) == math.inf
    later.leave(probe, overloaded(), 9.5)
    assert delay(later, 9.5) == 8
    later.load(gate.dump(), age=1e6)
    assert state(later, 0.0) == "probing"
    fresh = Cooldown()
    fresh.load(Cooldown().dump(), 5.0)
    assert state(fresh, 0.0) == "open"


def test_a_loaded_hold_is_cut() -> None:
    """A state file cannot hold longer than the gate itself would."""
    gate = Cooldown(maximum_hold=100)
    gate.load({"left": 1e9, "backoff": 1e9}, 0.0)
    assert delay(gate, 0.0) == 100


@pytest.mark.parametrize(
    ("state", "age"),
    [({"left": math.nan}, 0), ({"left": "1"}, 0), ({"left": -1}, 0), ({"left": 1, "backoff": math.inf}, 0),
     ({"left": 1}, -1), ({"left": 1}, math.nan)],
)  # fmt: skip
def test_a_bad_state_is_refused(state: dict[str, Any], age: float) -> None:
    """What no dump ever gave is a ConfigurationError, and the gate stays as it was."""
    gate = Cooldown()
    with pytest.raises(ConfigurationError):
        gate.load(state, age)
    assert delay(gate, 0.0) == 0


def test_a_clock_that_starts_anew() -> None:
    """On a clock that begins again nobody waits for the old clock's time: what was left of the hold is left."""
    gate = held(5000.0, 10.0)
    assert delay(gate, 0.0) == 10
    assert delay(gate, 9.0) == 1


def test_repr() -> None:
    """repr tells the state."""
    assert repr(Cooldown(name="openai")) == "<Cooldown 'openai': open>"
    gate = held(0.0, 10.0)
    assert repr(gate) == "<Cooldown 'cooldown': holding, 10 s left at the last exit>"
    gate.leave(go_in(gate, 10.0), DONE, 11.0)
    go_in(gate, 11.0)
    assert repr(gate) == "<Cooldown 'cooldown': 1 of 2 inside after a hold>"


@pytest.mark.parametrize("keyword", ["initial", "factor", "maximum", "ramp", "maximum_hold"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1", None, []])
def test_bad_parameters(keyword: str, value: Any) -> None:
    """A parameter that makes no sense is refused by name."""
    with pytest.raises(ConfigurationError, match=keyword) as error:
        Cooldown(**{keyword: value})
    assert error.value.path == keyword


def test_bad_together() -> None:
    """A maximum below initial, a factor below 1, a ramp that does not grow."""
    for keyword, parameters in (
        ("maximum", {"initial": 5.0, "maximum": 4.0}),
        ("factor", {"factor": 0.9}),
        ("ramp", {"ramp": 1.0}),
    ):
        with pytest.raises(ConfigurationError, match=keyword):
            Cooldown(**parameters)
