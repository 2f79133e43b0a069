"""The token bucket against a model in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from andante.errors import CostTooLarge
from andante.gates import TokenBucket
from andante.testing.visitor import Visitor
from andante.values import Call, Cost, Ending, Outcome

AMOUNTS = st.one_of(st.integers(0, 30).map(float), st.floats(0, 40, allow_subnormal=False))
RATES = st.one_of(st.integers(1, 50).map(float), st.floats(0.01, 1e4))
TIMES = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 1e-9, 1e-7, 0.5, 60.0, 86_400.0]))


class Model:
    """A level that grows with time up to the burst; entries take, settlements correct. The definition, no more."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.level = self.burst = Fraction(burst)
        self.rate = Fraction(rate)
        self.time = Fraction(now)

    def pass_to(self, now: float) -> None:
        self.level = min(self.burst, self.level + (Fraction(now) - self.time) * self.rate)
        self.level = Fraction(round(self.level * 2**80), 2**80)  # denominators would grow without end
        self.time = Fraction(now)

    def wait(self, need: float) -> Fraction:
        short = Fraction(need) - self.level
        return max(Fraction(0), short / self.rate) if need else Fraction(0)

    def correct(self, surplus: Fraction) -> None:
        self.level = min(self.burst, self.level + surplus)


class TokenBucketMachine(RuleBasedStateMachine):
    """Time passes, calls come, enter, settle and are undone; limits are set. Gate and model agree throughout."""

    inside: Bundle[Visitor] = Bundle("inside")

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.bucket = TokenBucket(10, unit="tokens", burst=20)
        self.model = Model(10, 20, self.now)
        self.stamped = self.now  # the level is at least this new
        self.ask(0.0)

    def ask(self, amount: float) -> float:
        return self.bucket.delay(Visitor(Call(Cost(input_tokens=amount)), self.now), self.now)

    def close(self, one: float, other: Fraction) -> bool:
        return abs(one - float(other)) <= 1e-6 + 1e-7 * abs(one)

    @rule(time=TIMES)
    def time_passes(self, time: float) -> None:
        self.now += time
        self.model.pass_to(self.now)

    @rule(target=inside, amount=AMOUNTS)
    def arrive(self, amount: float) -> Visitor:
        entry = Visitor(Call(Cost(input_tokens=amount)), self.now)
        if amount > self.bucket.burst:
            with pytest.raises(CostTooLarge):
                self.bucket.delay(entry, self.now)
            return entry
        delay = self.bucket.delay(entry, self.now)
        wait = self.model.wait(amount)
        assert self.bucket.delay(entry, self.now) == delay
        assert delay == 0 or delay >= 1e-7
        assert (
            abs(delay - wait) <= 2e-7 + 1e-9 * float(wait) + 4e-12 / float(self.model.rate)
            or not self.now + delay > self.now
        )
        if delay > 0:
            self.now += delay
            self.model.pass_to(self.now)
            assert self.bucket.delay(entry, self.now) == 0
        self.bucket.enter(entry, self.now)
        self.model.level -= Fraction(amount)
        entry.started = self.stamped = self.now
        return entry

    @rule(entry=consumes(inside), used=st.one_of(st.none(), AMOUNTS), ending=st.sampled_from(Ending))
    def leave(self, entry: Visitor, used: float | None, ending: Ending) -> None:
        if entry.started is None:
            return
        cost = entry.cost if used is None else Cost(input_tokens=used)
        self.bucket.leave(entry, Outcome(ending, cost=cost), self.now)
        self.model.correct(Fraction(entry.cost.tokens) - Fraction(cost.tokens))

    @rule(entry=consumes(inside))
    def undo(self, entry: Visitor) -> None:
        if entry.started is None:
            return
        self.bucket.undo(entry, self.now)
        self.model.correct(Fraction(entry.cost.tokens))

    @rule(rate=st.one_of(st.none(), RATES), burst=st.one_of(st.none(), RATES))
    def set_limits(self, rate: float | None, burst: float | None) -> None:
        """What was earned before the last entry stays; what was earned since then counts at the lower rate."""
        if rate is None and burst is None:
            return
        before, slowest = self.model.rate, self.model.rate
        if rate is not None:
            self.bucket.rate = rate
            self.model.rate = Fraction(rate)
            slowest = min(before, self.model.rate)
        if burst is not None:
            self.bucket.burst = burst
            self.model.burst = Fraction(burst)
        most = min(self.model.burst, self.model.level)
        lost = (Fraction(self.now) - Fraction(self.stamped)) * (before - slowest)
        self.ask(0.0)
        level = Fraction(self.bucket.snapshot(self.now)["level"])
        slack = Fraction(1, 10**6) * (1 + abs(most) + lost)
        assert min(most - lost, most) - slack <= level <= most + slack
        self.model.level, self.stamped = level, self.now

    @precondition(lambda self: self.model.level > 0)
    @rule(back=st.floats(0, 0.01))
    def ask_late(self, back: float) -> None:
        """A little back, the delay is one that was right between then and now."""
        need = float(self.model.level)
        delay = self.bucket.delay(Visitor(Call(Cost(input_tokens=need)), self.now), self.now - back)
        assert delay <= back + 2e-7

    @invariant()
    def agree(self) -> None:
        state = self.bucket.snapshot(self.now)
        assert self.close(state["level"], self.model.level), (state, float(self.model.level))
        assert state["level"] <= state["burst"] == float(self.model.burst)
        assert 0 <= state.get("headroom", 0) <= 1
        assert state["debt"] == max(0.0, -state["level"])


TestTokenBucket = TokenBucketMachine.TestCase
