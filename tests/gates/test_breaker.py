"""The breaker: opens on the share of failures, a few look whether the backend is whole, then more and more."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from andante.errors import ConfigurationError, DeadlineUnreachable
from andante.gates import Breaker
from andante.service import ServiceClass
from andante.testing.visitor import Visitor
from andante.values import Call, Ending, Outcome
from tests.gates.drive import Drive

DONE = Outcome(Ending.DONE)
OVERLOADED = Outcome(Ending.OVERLOADED)
REFUSED = Outcome(Ending.IGNORED, error=ConnectionRefusedError("nobody listens"))
MISTAKE = Outcome(Ending.IGNORED, error=TypeError("no such argument"))
CANCELLED = Outcome(Ending.IGNORED)


def guest() -> Visitor:
    return Visitor(Call(), 0.0)


def go_in(gate: Breaker, now: float) -> Visitor:
    visitor = guest()
    assert gate.delay(visitor, now) == 0
    gate.enter(visitor, now)
    return visitor


def ends(gate: Breaker, now: float, *outcomes: Outcome) -> None:
    for outcome in outcomes:
        gate.leave(go_in(gate, now), outcome, now)


def state(gate: Breaker, now: float) -> str:
    return str(gate.snapshot(now)["state"])


def opened(now: float = 0.0, **parameters: Any) -> Breaker:
    gate = Breaker(**parameters)
    ends(gate, now, *[REFUSED] * gate.least)
    assert state(gate, now) == "open"
    return gate


def test_closed_lets_everybody_in() -> None:
    """While calls go well nobody is held."""
    gate = Breaker()
    ends(gate, 1.0, *[DONE] * 300)
    assert gate.snapshot(1.0) == {"state": "closed", "failures": 0.0, "until": None, "headroom": 1.0}


@pytest.mark.parametrize("failure", [REFUSED, OVERLOADED, Outcome(Ending.IGNORED, error=OSError(101, "no route"))])
def test_it_opens_at_its_share(failure: Outcome) -> None:
    """Half of twenty is half; nine of nineteen is not."""
    gate = Breaker()
    ends(gate, 0.0, *[DONE] * 10, *[failure] * 9)
    assert state(gate, 0.0) == "closed"
    ends(gate, 0.0, failure)
    assert gate.snapshot(0.0) | {"failures": 0} == {"state": "open", "failures": 0, "until": 5.0, "headroom": 0.0}
    assert gate.delay(guest(), 2.0) == 3.0


def test_few_calls_mean_nothing() -> None:
    """Below `least` no share opens it (FC-39): one lost connection at night is no outage."""
    gate = Breaker(least=4)
    ends(gate, 0.0, *[REFUSED] * 3)
    assert state(gate, 0.0) == "closed"
    assert gate.snapshot(0.0)["failures"] is None
    ends(gate, 0.0, REFUSED)
    assert state(gate, 0.0) == "open"


def test_the_caller_s_mistakes_never_count() -> None:
    """Neither as failures nor as successes, nor does a cancelled call (FC-39)."""
    gate = Breaker(least=4)
    ends(gate, 0.0, *[MISTAKE, CANCELLED] * 200)
    assert gate.snapshot(0.0)["failures"] is None
    ends(gate, 0.0, *[REFUSED] * 3, *[MISTAKE] * 100, REFUSED)
    assert state(gate, 0.0) == "open"


def test_the_window_forgets() -> None:
    """Failures older than the window are none."""
    gate = Breaker(window=30)
    ends(gate, 0.0, *[REFUSED] * 9)
    ends(gate, 31.0, REFUSED)
    assert state(gate, 31.0) == "closed"
    ends(gate, 32.0, *[REFUSED] * 9)
    assert state(gate, 32.0) == "open"


def test_probes_then_rounds() -> None:
    """Three look first, then six, twelve, ...; nobody storms in."""
    drive = Drive(opened(), classes=[ServiceClass("default", max_waiting=1000)])
    for _ in range(60):
        drive.call(1.0, Call(), lambda _: (1.0, Outcome()))
    drive.run(50.0)
    assert Counter(drive.times) == {5.0: 3, 6.0: 6, 7.0: 12, 8.0: 24, 9.0: 15}
    assert state(opened(), 5.0) == "probing"


def test_a_probe_that_fails_opens_it_again_for_longer() -> None:
    """Each time twice as long, up to the maximum; once closed, it starts over."""
    gate = opened(maximum=15.0)
    now, pauses = 5.0, []
    for _ in range(4):
        other = go_in(gate, now)
        gate.leave(go_in(gate, now), REFUSED, now)
        pauses.append(gate.delay(guest(), now))
        gate.leave(other, REFUSED, now)  # it belongs to the round before
        assert gate.delay(guest(), now) == pauses[-1]
        now += pauses[-1]
    assert pauses == [10, 15, 15, 15]
    ends(gate, now, *[DONE] * 3)
    assert state(gate, now) == "closed"
    ends(gate, now, *[REFUSED] * 10)
    assert gate.delay(guest(), now) == 5


@pytest.mark.parametrize("how", ["cancelled", "mistake", "undone"])
def test_a_probe_without_a_verdict_returns_its_place(how: str) -> None:
    """FC-38: however many probes are cancelled, undone or fail by the caller's mistake, the next one may look."""
    gate = opened()
    for _ in range(50):
        probes = [go_in(gate, 5.0) for _ in range(3)]
        assert gate.delay(guest(), 5.0) == math.inf
        for probe in probes:
            if how == "undone":
                gate.undo(probe, 5.0)
            else:
                gate.leave(probe, CANCELLED if how == "cancelled" else MISTAKE, 5.0)
    assert gate.snapshot(5.0) | {"failures": 0} == {
        "state": "probing",
        "failures": 0,
        "until": None,
        "limit": 3,
        "inside": 0,
        "headroom": 0.0,
    }


def test_calls_from_before_say_nothing() -> None:
    """An old success does not close it, an old failure does not lengthen the pause, nor do they count as probes."""
    gate = Breaker()
    old = [go_in(gate, 0.0) for _ in range(20)]
    ends(gate, 0.0, *[REFUSED] * 10)
    for visitor in old[:5]:
        gate.leave(visitor, DONE, 1.0)
    gate.leave(old[5], REFUSED, 2.0)
    assert gate.delay(guest(), 2.0) == 3
    for visitor in old[6:12]:
        gate.leave(visitor, DONE, 6.0)
    for visitor in old[12:]:
        gate.progress(visitor, 1, 6.0)
    assert state(gate, 6.0) == "probing"


def test_a_first_result_is_a_success() -> None:
    """A stream may take minutes: its first result already says that the backend is whole. It counts once."""
    gate = opened()
    probes = [go_in(gate, 5.0) for _ in range(3)]
    for probe in probes:
        gate.progress(probe, 1, 6.0)
        gate.progress(probe, 1, 6.1)
    assert gate.snapshot(6.0)["limit"] == 6
    for probe in probes:
        gate.leave(probe, DONE, 60.0)
    assert gate.snapshot(60.0)["limit"] == 6


def test_who_cannot_wait_is_refused_at_once() -> None:
    """The delay of the pause is a time, so that a class whose objective ends before it hears of it on arrival."""
    drive = Drive(opened(), classes=[ServiceClass("default", ttft=1.0)])
    drive.call(1.0)
    drive.run(1.0)
    ((_, ticket),) = drive.refused
    assert isinstance(ticket.error, DeadlineUnreachable)
    assert ticket.error.retry_after == 4.0


def test_a_judge_of_one_s_own() -> None:
    """`failed` decides over errors that are no overload."""
    gate = Breaker(least=1, failed=lambda error: isinstance(error, KeyError))
    ends(gate, 0.0, REFUSED, MISTAKE)
    assert state(gate, 0.0) == "closed"
    ends(gate, 0.0, Outcome(Ending.IGNORED, error=KeyError("x")))
    assert state(gate, 0.0) == "open"


def test_a_judge_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """Reported once; such calls count as neither."""

    def judge(error: BaseException) -> bool:
        raise LookupError(str(error))

    gate = Breaker(least=1, failed=judge)
    ends(gate, 0.0, *[REFUSED] * 5)
    assert state(gate, 0.0) == "closed"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_clock_that_starts_anew() -> None:
    """A pause goes on for what was left of it, and what was counted stays as old as it was."""
    gate = opened(1e6)
    assert gate.delay(guest(), 3.0) == 5.0
    gate = Breaker()
    ends(gate, 1e6, *[REFUSED] * 9)
    ends(gate, 3.0, REFUSED)
    assert state(gate, 3.0) == "open"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *[("share", bad) for bad in (0, -0.5, 1.1, math.nan, math.inf, "half", None, True)],
        *[("window", bad) for bad in (0, -1, math.nan, math.inf, "30")],
        *[("probes", bad) for bad in (0, -1, 1.5, math.nan, "3", True)],
        *[("least", bad) for bad in (0, 2.0, math.inf)],
        *[("pause", bad) for bad in (0, -1, math.inf, 61)],
        *[("factor", bad) for bad in (0.5, math.nan)],
        *[("maximum", bad) for bad in (0, 4.9, math.nan)],
        ("failed", None),
    ],
)
def test_nonsense_is_refused(parameter: str, value: Any) -> None:
    """An error names the parameter and the value."""
    with pytest.raises(ConfigurationError, match=str(value).replace("(", "")) as caught:
        Breaker(**{parameter: value})
    assert caught.value.path in {parameter, "maximum"}


def test_repr() -> None:
    """What one asks at 3 a.m.: is it open, how long still, who looks."""
    gate = Breaker()
    ends(gate, 0.0, DONE, REFUSED)
    assert repr(gate) == "<Breaker 'breaker': closed, 1 of 2 failed>"
    gate = opened()
    assert repr(gate) == "<Breaker 'breaker': open, 5 s left at the last exit>"
    gate.leave(go_in(gate, 5.0), DONE, 5.0)
    go_in(gate, 5.0)
    assert repr(gate) == "<Breaker 'breaker': 1 of 3 inside after a pause>"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 4.0, 29.0]), st.sampled_from([DONE, REFUSED, CANCELLED])), max_size=80
    )
)
def test_the_share_by_hand(calls: list[tuple[float, Outcome]]) -> None:
    """It opens exactly when the calls of the window say so, the window's edge known to a tenth."""
    gate, now = Breaker(window=30, least=5), 0.0
    ended: list[tuple[float, bool]] = []
    for after, outcome in calls:
        now += after
        ends(gate, now, outcome)
        if outcome is not CANCELLED:
            ended.append((now, outcome is REFUSED))
        verdicts = []
        for window in (27.0, 30.0):
            recent = [failed for at, failed in ended if at > now - window]
            verdicts.append(outcome is not CANCELLED and len(recent) >= 5 and sum(recent) * 2 >= len(recent))
        if state(gate, now) == "open":
            assert any(verdicts)
            return
        assert not all(verdicts)


class Walk(RuleBasedStateMachine):
    """Whatever comes and goes in whatever order: never more probes than the round, and it always comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Breaker(least=2, window=10, probes=2)
        self.now = 0.0
        self.inside: list[Visitor] = []

    @rule(seconds=st.sampled_from([0.0, 0.5, 5.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def enter(self) -> None:
        visitor = guest()
        if self.gate.delay(visitor, self.now) == 0:
            self.gate.enter(visitor, self.now)
            self.inside.append(visitor)

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 99), how=st.sampled_from([DONE, REFUSED, OVERLOADED, MISTAKE, None]))
    def leave(self, which: int, how: Outcome | None) -> None:
        visitor = self.inside.pop(which % len(self.inside))
        if how is None:
            self.gate.undo(visitor, self.now)
        else:
            self.gate.leave(visitor, how, self.now)

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 99))
    def first(self, which: int) -> None:
        self.gate.progress(self.inside[which % len(self.inside)], 1, self.now)

    @invariant()
    def never_more_than_the_round(self) -> None:
        seen = self.gate.snapshot(self.now)
        assert 0.0 <= seen["headroom"] <= 1.0
        if "limit" in seen:
            assert seen["inside"] <= seen["limit"]
            assert (self.gate.delay(guest(), self.now) == 0) == (seen["inside"] < seen["limit"])

    def teardown(self) -> None:
        for visitor in self.inside:
            self.gate.undo(visitor, self.now)
        self.now += 61.0
        for _ in range(40):
            visitor = guest()
            assert self.gate.delay(visitor, self.now) == 0
            self.gate.enter(visitor, self.now)
            self.gate.leave(visitor, DONE, self.now)
        assert state(self.gate, self.now) == "closed"


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
