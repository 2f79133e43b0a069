"""Places: so many at once, by a number or by an estimate."""

from __future__ import annotations

import math
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.gates import Concurrency
from andante.testing.visitor import Visitor
from andante.values import Call, Ending, Outcome
from tests.gates.drive import Drive

GUEST = Visitor(Call(), 0.0)


class Additive:
    """An estimate that adds one for a success and halves on overload; remembers what it was told."""

    def __init__(self, limit: float = 20.0) -> None:
        self.limit = limit
        self.samples: list[tuple[Ending, int, float]] = []

    def sample(self, outcome: Outcome, inside: int, now: float) -> None:
        self.samples.append((outcome.ending, inside, now))
        self.limit = self.limit + 1 if outcome.ending is Ending.DONE else self.limit / 2

    def dump(self) -> dict[str, float]:
        return {"limit": self.limit}

    def load(self, state: dict[str, float], age: float) -> None:
        self.limit = state["limit"] - age


def test_places() -> None:
    """So many may be inside; the next waits for a leave, for which no time is known."""
    gate = Concurrency(2)
    for inside in range(2):
        assert gate.delay(GUEST, 0.0) == 0
        gate.enter(GUEST, 0.0)
        assert gate.snapshot(0.0) == {"limit": 2, "inside": inside + 1, "headroom": (1 - inside) / 2}
    assert gate.delay(GUEST, 0.0) == math.inf
    assert gate.look(0.0) == math.inf
    gate.leave(GUEST, Outcome(), 1.0)
    assert gate.delay(GUEST, 1.0) == 0
    gate.undo(GUEST, 1.0)
    assert (gate.inside, gate.limit, gate.estimate) == (0, 2, None)


def test_fc_09_raising_wakes_lowering_sends_nobody_away() -> None:
    """FC-09: 1 place and ten waiting; raised to 5, exactly five run; lowered to 2, none enters until one is left."""
    gate = Concurrency(1)
    drive = Drive(gate)
    for number in range(11):
        drive.call(0.0, Call(), lambda _, n=number: (10.0 + n, Outcome()))

    def set_limit(limit: int) -> None:
        gate.limit = limit

    drive.at(5.0, lambda: set_limit(5))
    drive.run(5.0)
    assert drive.times == [0.0, 5.0, 5.0, 5.0, 5.0]
    set_limit(2)
    drive.run(17.4)
    assert gate.inside == 2
    assert len(drive.started) == 5
    drive.run(100.0)
    assert drive.times[5:7] == [18.0, 19.0]
    assert gate.snapshot(5.0)["headroom"] >= 0
    drive.run(1000.0)
    assert len(drive.started) == 11
    assert gate.inside == 0


def test_headroom_below_zero_is_zero() -> None:
    """A limit lowered under those inside leaves no headroom, not less than none."""
    gate = Concurrency(3)
    for _ in range(3):
        gate.enter(GUEST, 0.0)
    gate.limit = 1
    assert gate.snapshot(0.0) == {"limit": 1, "inside": 3, "headroom": 0}


def test_fc_39_only_what_tells_is_sampled() -> None:
    """FC-39: 200 calls cancelled or refused for the caller's own mistake leave the limit; 503 answers lower it."""
    estimate = Additive(20.0)
    gate = Concurrency(estimate)
    for _ in range(200):
        gate.enter(GUEST, 0.0)
        gate.leave(GUEST, Outcome(Ending.IGNORED), 1.0)
    assert estimate.samples == []
    assert gate.limit == 20
    gate.enter(GUEST, 0.0)
    gate.enter(GUEST, 0.0)
    gate.leave(GUEST, Outcome(Ending.OVERLOADED), 2.0)
    gate.leave(GUEST, Outcome(Ending.DONE), 3.0)
    gate.enter(GUEST, 3.0)
    gate.undo(GUEST, 3.0)
    assert estimate.samples == [(Ending.OVERLOADED, 2, 2.0), (Ending.DONE, 1, 3.0)]
    assert gate.limit == 11


@pytest.mark.parametrize(("limit", "places"), [(4.9, 4), (1.0, 1), (0.2, 1), (0, 1), (-3.0, 1), (math.inf, 50)])
def test_an_estimate_is_enforced(limit: float, places: int) -> None:
    """Of an estimate whole places count, and at least one."""
    gate = Concurrency(Additive(limit))
    entered = 0
    while entered < 50 and gate.delay(GUEST, 0.0) == 0:
        gate.enter(GUEST, 0.0)
        entered += 1
    assert entered == places


def test_an_estimate_gone_wrong() -> None:
    """NaN keeps the last limit that was a number."""
    estimate = Additive(3.0)
    gate = Concurrency(estimate)
    assert gate.limit == 3
    estimate.limit = math.nan
    assert gate.limit == 3
    assert gate.delay(GUEST, 0.0) == 0


def test_a_moving_estimate_lets_in_after_a_leave() -> None:
    """When an estimate rises at a leave, the controller lets in as many as then fit."""
    gate = Concurrency(Additive(1.0))
    drive = Drive(gate)
    for _ in range(7):
        drive.call(0.0, Call(), lambda _: (1.0, Outcome()))
    drive.run(10.0)
    assert drive.times == [0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_estimate_and_number_take_turns() -> None:
    """The limit may become an estimate, and a number again."""
    gate = Concurrency(1)
    gate.enter(GUEST, 0.0)
    estimate = Additive(2.0)
    gate.limit = estimate
    assert gate.estimate is estimate
    assert gate.delay(GUEST, 0.0) == 0
    gate.limit = 1
    assert gate.delay(GUEST, 0.0) == math.inf
    gate.leave(GUEST, Outcome(), 0.0)
    assert estimate.samples == []


def test_what_an_estimate_learned_is_kept() -> None:
    """An estimate's own dump and load are used, where it has them."""
    gate, later = Concurrency(Additive(7.0)), Concurrency(Additive(20.0))
    later.load(gate.dump(), age=2.0)
    assert later.limit == 5
    assert Concurrency(3).dump() == {}
    Concurrency(3).load({"estimate": {}}, 0.0)


def test_setting_wakes() -> None:
    """Whoever holds the gate looks again when the limit is set, and not when it is refused."""
    gate = Concurrency(1)
    drive = Drive(gate)
    with pytest.raises(ConfigurationError):
        gate.limit = 0
    assert drive.controller.next_look(0.0) == math.inf
    gate.limit = 2
    assert drive.controller.next_look(0.0) == 0


@pytest.mark.parametrize(
    "limit", [0, -1, True, False, 2.0, 2.5, math.nan, math.inf, "3", None, [], object(), Concurrency(3), Outcome()]
)
def test_bad_limits(limit: Any) -> None:
    """A limit is a whole number from 1 or an estimate; all else is refused by name, and changes nothing."""
    with pytest.raises(ConfigurationError, match="limit") as error:
        Concurrency(limit)
    assert error.value.path == "limit"
    gate = Concurrency(4)
    with pytest.raises(ConfigurationError):
        gate.limit = limit
    assert gate.limit == 4


def test_repr() -> None:
    """repr tells how many are inside, of how many, and by what."""
    gate = Concurrency(8, name="slots")
    gate.enter(GUEST, 0.0)
    assert repr(gate) == "<Concurrency 'slots': 1 of 8 inside>"
    assert repr(Concurrency(Additive(4.5))) == "<Concurrency 'concurrency': 0 of 4.5 inside by Additive>"
