"""The token bucket: what it lets in, what it gives back, what it refuses."""

from __future__ import annotations

import math
import pickle
import time
from itertools import pairwise
from typing import Any

import pytest

from andante.errors import ConfigurationError, CostTooLarge, DeadlineUnreachable
from andante.gates import Concurrency, TokenBucket
from andante.service import ServiceClass
from andante.testing.visitor import Visitor
from andante.ticket import State
from andante.values import Call, Cost, Ending, Outcome
from tests.gates.drive import Drive, fullest_window


def visitor(**cost: float) -> Visitor:
    return Visitor(Call(Cost(**cost)), 0.0)


def tokens(amount: float) -> Call:
    return Call(Cost(input_tokens=amount))


def level(bucket: TokenBucket, now: float) -> float:
    return bucket.snapshot(now)["level"]


def take(bucket: TokenBucket, entry: Visitor, now: float) -> None:
    assert bucket.delay(entry, now) == 0
    bucket.enter(entry, now)


# Pace. ----------------------------------------------------------------------------------------------------------------


def test_fc_01_default_bound_and_rate() -> None:
    """FC-01: 60 a minute by default: no minute holds more than burst + rate * (60 s + 10 ms), and an hour of steady
    demand gets the rate."""
    drive = Drive(TokenBucket(60, "minute"), classes=[ServiceClass("default", max_waiting=10_000)])
    for _ in range(200):
        drive.call(600.0)
    drive.run(720.0)
    assert fullest_window(((at, 1) for at in drive.times), 60) <= 61
    assert len(drive.started) == 121
    for _ in range(3700):
        drive.call(3600.0)
    drive.run(7200.0)
    assert 3600 <= sum(3600 <= at < 7200 for at in drive.times) <= 3601


def test_fc_01_burst_bound() -> None:
    """FC-01: with a burst of 20 the worst minute, the one after idling, holds burst + rate, as documented."""
    drive = Drive(TokenBucket(60, "minute", burst=20))
    for _ in range(200):
        drive.call(600.0)
    drive.run(720.0)
    assert 78 <= fullest_window(((at, 1) for at in drive.times), 60) <= 20 + 60.01


@pytest.mark.parametrize("burst", [1, 7, 60])
def test_fc_01_strict_bound(burst: int) -> None:
    """FC-01: with strict_window no half-open minute holds more than 60, after idling too; an hour of steady demand
    gets 1,024/1,025 of the rate."""
    bucket = TokenBucket(60, "minute", burst=burst, strict_window=True)
    drive = Drive(bucket, classes=[ServiceClass("default", max_waiting=10_000)])
    for at, calls in ((0.0, 30), (31.0, 40), (600.0, 200), (3600.0, 3700)):
        for _ in range(calls):
            drive.call(at)
    drive.run(7200.0)
    assert fullest_window(((at, 1) for at in drive.times), 60) == 60
    assert sum(3600 <= at < 7200 for at in drive.times) >= math.floor(3600 * 1024 / 1025)
    assert not bucket.repays_lateness


def test_default_bursts() -> None:
    """The default burst is 1 for requests and one period's rate for tokens, whichever the period."""
    assert TokenBucket(60, "minute").burst == 1
    for unit in ("tokens", "input_tokens", "output_tokens"):
        assert TokenBucket(60, "minute", unit=unit).burst == 60


@pytest.mark.parametrize(("per", "period"), [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400)])
def test_periods(per: Any, period: float) -> None:
    """The rate is per second, minute, hour or day, and delays are exact."""
    bucket = TokenBucket(4, per)
    take(bucket, visitor(), 5.0)
    assert bucket.delay(visitor(), 5.0) == pytest.approx(period / 4)
    assert bucket.delay(visitor(), 5.0 + period / 8) == pytest.approx(period / 8)
    assert bucket.delay(visitor(), 5.0 + period / 4) == 0


@pytest.mark.parametrize("start", [0.0, 1e5, 1.7e9, 4e9])
@pytest.mark.parametrize("strict", [False, True])
def test_waiting_exactly_is_enough(start: float, strict: bool) -> None:
    """After waiting exactly the delay, the delay is 0; on any clock, however large its readings."""
    bucket = TokenBucket(7, "second", burst=3, strict_window=strict)
    now, waits = start, 0
    for _ in range(200):
        while (delay := bucket.delay(visitor(), now)) > 0:
            waits += 1
            assert now + delay > now
            now += delay
        bucket.enter(visitor(), now)
    assert waits <= 200
    assert now - start == pytest.approx(197 / 7, rel=0.002, abs=0.3)


def test_tiny_delays_are_none() -> None:
    """A delay under 1e-7 s is 0, and what was borrowed so is paid back: the rate does not creep."""
    bucket = TokenBucket(10)
    now = 0.0
    for turn in range(1000):
        assert bucket.delay(visitor(), now) == 0, turn
        bucket.enter(visitor(), now)
        now = 0.1 * (turn + 1) - 9e-8
    assert bucket.delay(visitor(), 99.9 - 9e-8) == pytest.approx(0.1, abs=1e-6)


def test_negative_elapsed_time_is_none() -> None:
    """Asked as of a moment before, as a late step does, it takes no time as passed, and keeps its level."""
    bucket = TokenBucket(100, burst=2)
    take(bucket, visitor(), 1.0)
    assert bucket.delay(visitor(), 0.995) == 0
    bucket.enter(visitor(), 0.995)
    assert bucket.delay(visitor(), 0.995) == pytest.approx(0.01)
    assert level(bucket, 1.01) == pytest.approx(1.0)


def test_lateness_is_repaid_and_earns_nothing() -> None:
    """Steps that come up to 10 ms late lose no rate, also where calls settle in between; idling earns no credit."""
    bucket = TokenBucket(1000, burst=1)
    drive = Drive(bucket, classes=[ServiceClass("default", max_waiting=10_000)])
    for _ in range(6000):
        drive.call(0.0)
    now, controller = 0.0, drive.controller
    drive.run(0.0)
    grants: list[float] = []
    while now < 2.0:
        now = controller.next_look(now) + 0.004  # every timer is 4 ms late
        for ticket in controller.step(now):
            grants.append(now)
            controller.leave(ticket, Outcome(cost=Cost(requests=1.0)), now)
    assert len(grants) == pytest.approx(1000 * now, abs=12)
    assert fullest_window(((at, 1) for at in grants), 0.1) <= 1 + 1000 * 0.11
    bucket = TokenBucket(1000, burst=1)
    take(bucket, visitor(), 0.0)
    take(bucket, visitor(), 50.0)
    assert bucket.delay(visitor(), 50.0) == pytest.approx(0.001)


def test_a_clock_that_starts_anew() -> None:
    """On a clock that begins again, as in the next virtual event loop, nobody waits for the old clock's time."""
    for strict in (False, True):
        bucket = TokenBucket(10, strict_window=strict)
        take(bucket, visitor(), 5000.0)
        assert bucket.delay(visitor(), 0.0) == pytest.approx(0.1)
        assert bucket.delay(visitor(), 0.1) == 0


def test_fc_07_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-07: steps of the wall clock change nothing, for no gate reads a clock."""

    def no_clock() -> float:
        raise AssertionError("a gate read a clock")

    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns"):
        monkeypatch.setattr(time, name, no_clock)
    bucket = TokenBucket(10, strict_window=True)
    take(bucket, visitor(), 1.0)
    bucket.leave(visitor(), Outcome(cost=Cost()), 2.0)
    bucket.snapshot(3.0)
    bucket.load(bucket.dump(), 1.0)


# Costs. ---------------------------------------------------------------------------------------------------------------


def test_fc_03_larger_than_the_budget() -> None:
    """FC-03: a call above the burst is refused at once, in words that help; one that fits waits its time; 0 is free;
    negative and NaN are no costs; a later small call is not lost."""
    bucket = TokenBucket(1000, "minute", unit="tokens", name="tpm")
    drive = Drive(bucket)
    for call in (tokens(1500), tokens(1000), tokens(0), tokens(10)):
        drive.call(1.0, call)
    drive.run(2.0)
    error = drive.tickets[0].error
    assert isinstance(error, CostTooLarge)
    assert (error.gate, error.service, error.retry_after) == ("tpm", "default", None)
    for part in ("1500", "1000", "tpm", "split", "burst"):
        assert part in str(error)
    assert [ticket.state for ticket in drive.tickets] == [State.REFUSED, State.ENDED, State.ENDED, State.ENDED]
    assert drive.times == pytest.approx([1.0, 1.0, 1.6])
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigurationError):
            tokens(bad)
    assert pickle.loads(pickle.dumps(error)).gate == "tpm"


def test_fc_03_free_even_in_debt() -> None:
    """FC-03: a cost of 0 is free, also while others wait for a debt to be paid."""
    bucket = TokenBucket(100, unit="tokens")
    entry = visitor(input_tokens=100)
    take(bucket, entry, 0.0)
    bucket.leave(entry, Outcome(cost=Cost(input_tokens=500)), 0.0)
    assert bucket.delay(visitor(requests=1), 0.0) == 0
    assert bucket.delay(visitor(input_tokens=1), 0.0) == pytest.approx(4.01)


@pytest.mark.parametrize(
    ("unit", "count_cached", "units"),
    [("requests", True, 2), ("tokens", True, 130), ("tokens", False, 90), ("input_tokens", True, 100),
     ("input_tokens", False, 60), ("output_tokens", True, 30)],
)  # fmt: skip
def test_units(unit: Any, count_cached: bool, units: float) -> None:
    """Each bucket counts its unit, and says whether cached input counts."""
    bucket = TokenBucket(1000, unit=unit, burst=1000, count_cached=count_cached)
    take(bucket, visitor(requests=2, input_tokens=100, output_tokens=30, cached_tokens=40), 1.0)
    assert level(bucket, 1.0) == 1000 - units


def test_more_cached_than_input_is_no_gift() -> None:
    """Cached tokens beyond the input count as 0 input, never as credit."""
    bucket = TokenBucket(1000, unit="tokens", count_cached=False)
    take(bucket, visitor(input_tokens=10, cached_tokens=50, output_tokens=5), 1.0)
    assert level(bucket, 1.0) == 995


def test_fc_04_taken_at_the_door() -> None:
    """FC-04: what a call needs is taken when it enters: of 50 calls of 20 tokens exactly 5 enter a minute of 100, of
    1,000 calls exactly 4 a day of 4."""
    drive = Drive(TokenBucket(100, "minute", unit="tokens", strict_window=True))
    for _ in range(50):
        drive.call(1.0, tokens(20), lambda _: (30.0, Outcome()))
    drive.run(60.9)
    assert len(drive.started) == 5
    drive = Drive(TokenBucket(4, "day", burst=4, strict_window=True))
    for _ in range(1000):
        drive.call(1.0)
    drive.run(86_400.0)
    assert len(drive.started) == 4


@pytest.mark.parametrize("order", [0, 1])
def test_fc_05_refused_calls_cost_nothing(order: int) -> None:
    """FC-05: a call refused by one gate, or that gave up while it waited, has cost the others nothing."""
    gates = (TokenBucket(2, "minute", burst=2), Concurrency(1))
    drive = Drive(*(gates if order else gates[::-1]), classes=[ServiceClass("default", max_wait=0)])
    drive.call(0.0, Call(), lambda _: (1.0, Outcome()))
    drive.call(0.5)  # B: no place
    drive.call(2.0)
    drive.run(2.0)
    assert [ticket.error is None for ticket in drive.tickets] == [True, False, True]
    assert level(gates[0], 2.0) == pytest.approx(2 / 60 * 2, abs=1e-9)
    gates = (TokenBucket(2, "minute", burst=2), Concurrency(1))
    drive = Drive(*(gates if order else gates[::-1]))
    drive.call(0.0, Call(), lambda _: (100.0, Outcome()))
    drive.call(1.0)  # waits for the place, and gives up
    drive.at(2.0, lambda: drive.controller.withdraw(drive.tickets[1], 2.0))
    drive.run(3.0)
    assert level(gates[0], 3.0) == pytest.approx(1 + 2 / 60 * 3)


@pytest.mark.parametrize("streamed", [False, True])
def test_fc_06_settled_with_the_truth(streamed: bool) -> None:
    """FC-06: a surplus comes back, a deficit is charged, into debt if need be; for plain calls and streams alike."""
    bucket = TokenBucket(1500, "hour", unit="tokens", burst=1500)
    for used in (100, 500, 900):
        entry = visitor(input_tokens=400, output_tokens=100)
        take(bucket, entry, 0.0)
        if streamed:
            bucket.progress(entry, 50, 0.0)
        bucket.leave(entry, Outcome(cost=Cost(input_tokens=used)), 0.0)
    assert level(bucket, 0.0) == 0
    assert bucket.delay(visitor(input_tokens=500), 0.0) == pytest.approx(1200)
    entry = visitor(input_tokens=500)
    take(bucket, entry, 1200.0)
    bucket.leave(entry, Outcome(cost=Cost(input_tokens=4000)), 1200.0)
    assert bucket.snapshot(1200.0)["debt"] == pytest.approx(3500)
    assert bucket.delay(visitor(input_tokens=1), 1200.0) == pytest.approx(3501 / 1500 * 3600)


def test_a_surplus_never_fills_above_the_burst() -> None:
    """A surplus that comes after the bucket has filled again is worth nothing, and a deficit then is still charged."""
    bucket = TokenBucket(100, unit="tokens")
    entries = [visitor(input_tokens=50), visitor(input_tokens=50)]
    for entry in entries:
        take(bucket, entry, 0.0)
    bucket.leave(entries[0], Outcome(cost=Cost()), 10.0)
    assert level(bucket, 10.0) == 100
    bucket.leave(entries[1], Outcome(cost=Cost(input_tokens=70)), 10.0)
    assert level(bucket, 10.0) == 80


def test_without_settlement_the_reservation_stays() -> None:
    """Nobody settled: the reservation is the cost, whether the controller fills it in or nobody does."""
    bucket = TokenBucket(100, unit="tokens")
    for outcome in (Outcome(), Outcome(Ending.IGNORED)):
        entry = visitor(input_tokens=10)
        take(bucket, entry, 0.0)
        outcome.cost = entry.cost if outcome.ending is Ending.DONE else None
        bucket.leave(entry, outcome, 0.0)
    assert level(bucket, 0.0) == 80


@pytest.mark.parametrize("strict", [False, True])
def test_undo_gives_everything_back(strict: bool) -> None:
    """Enter and undo leave nothing behind, at once or later."""
    bucket = TokenBucket(10, "minute", unit="tokens", strict_window=strict)
    take(bucket, visitor(input_tokens=6), 0.0)
    before = bucket.snapshot(3.0)
    entry = visitor(input_tokens=4)
    take(bucket, entry, 1.0)
    bucket.undo(entry, 3.0)
    assert bucket.snapshot(3.0) == pytest.approx(before) if not strict else bucket.snapshot(3.0)["window_used"] == 6
    assert bucket.delay(entry, 3.0) == 0


# Changing it. ---------------------------------------------------------------------------------------------------------


def test_fc_09_a_new_rate_counts_at_once() -> None:
    """FC-09: 1 a minute, three wait; raised to 60 a minute they go within a second each; lowered again, no more go."""
    bucket = TokenBucket(1, "minute")
    drive = Drive(bucket)
    for _ in range(6):
        drive.call(0.0)

    def set_rate(rate: float) -> None:
        bucket.rate = rate

    drive.at(30.0, lambda: set_rate(60))
    drive.at(32.5, lambda: set_rate(1))
    drive.run(500.0)
    assert drive.times[0] == 0
    assert 30.0 <= drive.times[1] <= 31.0
    assert [after - before for before, after in pairwise(drive.times[1:4])] == pytest.approx(
        [1.0, drive.times[3] - drive.times[2]]
    )
    assert drive.times[3] > 32.5 + 25
    assert all(after - before == pytest.approx(60) for before, after in pairwise(drive.times[3:]))


def test_a_new_rate_keeps_what_was_earned() -> None:
    """Raising the rate pays nothing for the past, lowering it takes nothing that was earned; a burst cuts at once."""
    bucket = TokenBucket(10, unit="tokens", burst=100)
    take(bucket, visitor(input_tokens=100), 0.0)
    assert level(bucket, 5.0) == 50
    bucket.delay(visitor(), 5.0)
    bucket.rate = 1000.0
    assert bucket.delay(visitor(input_tokens=100), 5.0) == pytest.approx(0.05)
    assert level(bucket, 5.0) == pytest.approx(50)  # the lower rate held until it was asked
    bucket.rate = 1.0
    assert level(bucket, 25.0) == pytest.approx(70)
    bucket.burst = 60
    assert level(bucket, 25.0) == 60
    with pytest.raises(CostTooLarge):
        bucket.delay(visitor(input_tokens=61), 25.0)
    bucket.burst = 100
    assert 60 <= level(bucket, 25.0) <= 70
    assert TokenBucket(10).rate == 10


def test_a_larger_burst_pays_nothing_for_the_past() -> None:
    """What overflowed before the burst was raised has overflowed; from then on the bucket fills further."""
    bucket = TokenBucket(10, unit="tokens", burst=20)
    take(bucket, visitor(input_tokens=1), 0.0)
    bucket.burst = 100
    assert level(bucket, 60.0) == 20
    assert bucket.delay(visitor(input_tokens=21), 60.0) == pytest.approx(0.1)
    assert level(bucket, 61.0) == 30


def test_a_strict_window_is_a_burst_too() -> None:
    """Under strict_window more than the rate never fits, however large the burst."""
    bucket = TokenBucket(10, unit="tokens", burst=50, strict_window=True)
    with pytest.raises(CostTooLarge, match="enlarge the rate"):
        bucket.delay(visitor(input_tokens=11), 0.0)
    take(bucket, visitor(input_tokens=10), 0.0)


def test_the_default_burst_follows_the_rate() -> None:
    """A burst that nobody gave stays one period's rate."""
    bucket = TokenBucket(1000, "minute", unit="tokens")
    bucket.rate = 50
    assert bucket.burst == 50
    bucket = TokenBucket(1000, "minute", unit="tokens", burst=70)
    bucket.rate = 50
    assert bucket.burst == 70


def test_setting_wakes() -> None:
    """Whoever holds the gate looks again when its rate or burst is set, and not when the value is refused."""
    bucket = TokenBucket(1)
    drive = Drive(bucket)
    assert drive.controller.next_look(1.0) == math.inf
    with pytest.raises(ConfigurationError):
        bucket.rate = -1
    assert drive.controller.next_look(1.0) == math.inf
    for name in ("rate", "burst"):
        setattr(bucket, name, 2)
        assert drive.controller.next_look(1.0) == 1.0
        drive.controller.step(1.0)


def test_fc_10_a_bound_equal_to_the_wait() -> None:
    """FC-10: a bound of exactly the wait succeeds, one a little shorter is refused at once; nothing is charged."""
    bucket = TokenBucket(3, "minute")
    classes = [ServiceClass("exact", max_wait=20.0), ServiceClass("short", max_wait=19.999)]
    drive = Drive(bucket, classes=classes)
    drive.call(0.0, Call(service="exact"))
    drive.call(0.0, Call(service="exact"))
    drive.call(0.0, Call(service="short"))
    drive.run(100.0)
    assert drive.times == [0.0, 20.0]
    ((at, ticket),) = drive.refused
    assert at == 0.0
    assert isinstance(ticket.error, DeadlineUnreachable)
    assert ticket.error.retry_after == pytest.approx(20.0)
    assert ticket.error.gate == "token_bucket"


def test_fc_08_asking_grows_with_grants() -> None:
    """FC-08: with 10,000 waiting, the bucket is asked a few times a grant, not once a waiter and tick."""
    asked = 0

    class Counting(TokenBucket):
        def delay(self, entry: Any, now: float) -> float:
            nonlocal asked
            asked += 1
            return super().delay(entry, now)

    drive = Drive(Counting(10), classes=[ServiceClass("default", max_waiting=20_000)])
    for _ in range(10_000):
        drive.call(0.0)
    drive.run(0.0)
    asked = 0
    drive.run(5.0)
    assert 49 <= len(drive.started) <= 51
    assert asked <= 4 * len(drive.started)


# Restarts, and what people see. ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_a_restart_keeps_the_level(strict: bool) -> None:
    """After a restart the bucket has filled for as long as it took, and goes on from there; debt is not forgiven."""
    bucket = TokenBucket(60, "minute", unit="tokens", strict_window=strict)
    entry = visitor(input_tokens=60)
    take(bucket, entry, 100.0)
    bucket.leave(entry, Outcome(cost=Cost(input_tokens=70)), 100.0)
    again = TokenBucket(60, "minute", unit="tokens", strict_window=strict)
    again.load(bucket.dump(), age=20.0)
    assert level(again, 0.0) == pytest.approx(10)
    wait = again.delay(visitor(input_tokens=30), 0.0)
    assert wait == pytest.approx(40, abs=0.2) if strict else wait == pytest.approx(20)
    assert again.delay(visitor(input_tokens=30), wait) == 0
    again.load(bucket.dump(), age=1e9)
    assert level(again, 0.0) == 60


@pytest.mark.parametrize(
    ("state", "age"),
    [({"level": math.nan}, 0), ({"level": "7"}, 0), ({}, -1), ({}, math.nan), ({"window": 3}, 0),
     ({"window": [[1]]}, 0), ({"window": [[-1, 2.0]]}, 0)],
)  # fmt: skip
def test_a_bad_state_is_refused(state: dict[str, Any], age: float) -> None:
    """What no dump ever gave is a ConfigurationError."""
    with pytest.raises(ConfigurationError):
        TokenBucket(1, strict_window=True).load(state, age)


def test_snapshot_and_repr() -> None:
    """A snapshot tells rate, level, debt and headroom; repr what a person would ask for."""
    bucket = TokenBucket(100, "minute", unit="tokens", name="tpm")
    take(bucket, visitor(input_tokens=75), 0.0)
    assert bucket.snapshot(0.0) == {
        "rate": 100, "per": "minute", "unit": "tokens", "burst": 100, "level": 25, "debt": 0, "headroom": 0.25,
    }  # fmt: skip
    assert repr(bucket) == "<TokenBucket 'tpm': 100 tokens per minute, burst 100, level 25 when last used>"
    assert "strict window" in repr(TokenBucket(1, strict_window=True))
    assert TokenBucket(1).name == "token_bucket"


# Bad input. -----------------------------------------------------------------------------------------------------------

BAD = [0, -1, math.nan, math.inf, -math.inf, True, False, "60", None, [], 10**400, 1j]


@pytest.mark.parametrize("value", BAD)
def test_bad_rates_and_bursts(value: Any) -> None:
    """A rate or burst that makes no sense is refused, with its name, when made and when set; nothing changes then."""
    with pytest.raises(ConfigurationError, match="rate") as error:
        TokenBucket(value)
    assert error.value.path == "rate"
    bucket = TokenBucket(5, burst=5)
    with pytest.raises(ConfigurationError, match="rate"):
        bucket.rate = value
    with pytest.raises(ConfigurationError, match="burst"):
        bucket.burst = value
    assert (bucket.rate, bucket.burst) == (5, 5)
    if value is not None:
        with pytest.raises(ConfigurationError, match="burst"):
            TokenBucket(1, burst=value)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [("per", "fortnight"), ("per", None), ("per", 60), ("unit", "bytes"), ("unit", None), ("strict_window", 1),
     ("strict_window", "no"), ("count_cached", None)],
)  # fmt: skip
def test_other_bad_parameters(keyword: str, value: Any) -> None:
    """An unknown period, unit or flag is refused by name."""
    with pytest.raises(ConfigurationError) as error:
        TokenBucket(1, **{keyword: value})
    assert error.value.path == keyword


def test_absurd_rates() -> None:
    """A rate that is 0 to a float is refused; the largest one works, and so does the smallest."""
    with pytest.raises(ConfigurationError, match="rate"):
        TokenBucket(5e-324, "day")
    bucket = TokenBucket(1.7e308)
    take(bucket, visitor(), 0.0)
    take(bucket, visitor(), 1.0)
    bucket = TokenBucket(1e-300)
    take(bucket, visitor(), 0.0)
    assert bucket.delay(visitor(), 1e9) == pytest.approx(1e300)
