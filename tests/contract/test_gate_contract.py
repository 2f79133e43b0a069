"""`gate_contract` catches gates that break a law, and says which and how."""

from __future__ import annotations

import time
from itertools import count, pairwise
from math import inf
from typing import Any

import pytest

from andante.errors import ConfigurationError, CostTooLarge
from andante.gate import Entry, Gate
from andante.gates import Concurrency, TokenBucket
from andante.testing.contract import LAWS, Visitor, gate_contract
from andante.values import Call, Cost, Outcome


class TakesWhenAsked(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        delay = super().delay(entry, now)
        self._level -= 0.01
        return delay


class CountsQuestions(Concurrency):
    asked = 0

    def delay(self, entry: Entry, now: float) -> float:
        self.asked += 1
        return super().delay(entry, now)

    def snapshot(self, now: float) -> dict[str, Any]:
        return super().snapshot(now) | {"asked": self.asked}


class LooksAndChanges(Gate):
    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def look(self, now: float) -> float:
        self.looks += 1
        return now + 1

    def dump(self) -> dict[str, Any]:
        return {"looks": self.looks}

    def load(self, state: dict[str, Any], age: float) -> None:
        self.looks = state.get("looks", 0)


class Negative(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        return super().delay(entry, now) - 0.001


class NotANumber(Gate):
    def delay(self, entry: Entry, now: float) -> float:
        return float("nan")


class NoNumber(Gate):
    def delay(self, entry: Entry, now: float) -> float:
        return None  # type: ignore[return-value]


class RaisesAnything(Gate):
    def delay(self, entry: Entry, now: float) -> float:
        raise KeyError(entry)


class ForgetsWhoEntered(Concurrency):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.known: set[Entry] = set()

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        self.known.remove(entry)


class TooShort(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        return super().delay(entry, now) * 0.9


class TooLong(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        return super().delay(entry, now) * 1.1


class NeverShrinks(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        return 1.0 if super().delay(entry, now) else 0.0


class LooksBack(Gate):
    def look(self, now: float) -> float:
        return now - 1


class ExpectsTheWorst(Gate):
    def expected(self, entry: Entry, now: float) -> tuple[float, float]:
        return (0.0, float("inf"))


class UndoKeepsThePlace(Concurrency):
    def undo(self, entry: Entry, now: float) -> None:
        pass


class UndoKeepsTheTokens(TokenBucket):
    def undo(self, entry: Entry, now: float) -> None:
        pass


class UndoGivesTwice(TokenBucket):
    def undo(self, entry: Entry, now: float) -> None:
        super().undo(entry, now)
        super().undo(entry, now)


class LeavesOnlyWell(Concurrency):
    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        if outcome.ending.value != "ignored":
            super().leave(entry, outcome, now)


class SilentLeak(Concurrency):
    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        if outcome.ending.value != "overloaded":
            super().leave(entry, outcome, now)

    def snapshot(self, now: float) -> dict[str, Any]:
        return {}


class GrowsOnLeave(TokenBucket):
    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        super().leave(entry, outcome, now)
        self._burst += 0.5


class Unprintable(Gate):
    def snapshot(self, now: float) -> dict[str, Any]:
        return {"limit": float("inf")}


class TooRoomy(Gate):
    def snapshot(self, now: float) -> dict[str, Any]:
        return {"headroom": 1.5}


class DumpsObjects(Gate):
    def dump(self) -> dict[str, Any]:
        return {"learned": Cost()}


class Nameless(Gate):
    def __repr__(self) -> str:
        return object.__repr__(self)


class ForgetsAtRestart(TokenBucket):
    def load(self, state: dict[str, Any], age: float) -> None:
        pass


class NeedsAllKeys(TokenBucket):
    def load(self, state: dict[str, Any], age: float) -> None:
        super().load({"level": state["level"]}, age)


class MindsTheClock(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        if now < self._stamp < now + 1:
            raise ValueError("time went back")
        return super().delay(entry, now)


class LockedOut(TokenBucket):
    def delay(self, entry: Entry, now: float) -> float:
        return 5.0 if now < self._stamp < now + 1 else super().delay(entry, now)


class ReadsTheClock(Gate):
    def delay(self, entry: Entry, now: float) -> float:
        return time.perf_counter()


class EachItsOwn(Gate):
    made = count()

    def __init__(self) -> None:
        super().__init__()
        self.luck = inf if next(self.made) % 2 else 0.0

    def delay(self, entry: Entry, now: float) -> float:
        return self.luck


ONE = Gate()

BROKEN = {
    TakesWhenAsked: ("pure", lambda: TakesWhenAsked(5)),
    CountsQuestions: ("pure", lambda: CountsQuestions(3)),
    LooksAndChanges: ("pure", LooksAndChanges),
    Negative: ("sign", lambda: Negative(5)),
    NotANumber: ("sign", NotANumber),
    NoNumber: ("sign", NoNumber),
    RaisesAnything: ("sign", RaisesAnything),
    ForgetsWhoEntered: ("sign", lambda: ForgetsWhoEntered(3)),
    MindsTheClock: ("sign", lambda: MindsTheClock(500)),
    LockedOut: ("back", lambda: LockedOut(500)),
    TooShort: ("exact", lambda: TooShort(5)),
    TooLong: ("exact", lambda: TooLong(5)),
    NeverShrinks: ("exact", lambda: NeverShrinks(5)),
    LooksBack: ("look", LooksBack),
    ExpectsTheWorst: ("look", ExpectsTheWorst),
    UndoKeepsThePlace: ("undo", lambda: UndoKeepsThePlace(3)),
    UndoKeepsTheTokens: ("undo", lambda: UndoKeepsTheTokens(0.5)),
    UndoGivesTwice: ("undo", lambda: UndoGivesTwice(500, "minute", unit="tokens", burst=5000)),
    LeavesOnlyWell: ("balance", lambda: LeavesOnlyWell(30)),
    SilentLeak: ("capacity", lambda: SilentLeak(40)),
    GrowsOnLeave: ("restart", lambda: GrowsOnLeave(5)),
    Unprintable: ("plain", Unprintable),
    TooRoomy: ("plain", TooRoomy),
    DumpsObjects: ("plain", DumpsObjects),
    Nameless: ("plain", Nameless),
    ForgetsAtRestart: ("restart", lambda: ForgetsAtRestart(1, "day", burst=20)),
    NeedsAllKeys: ("sign", lambda: NeedsAllKeys(5)),
    ReadsTheClock: ("pure", ReadsTheClock),
    EachItsOwn: ("replay", EachItsOwn),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_it_catches(broken: type[Gate]) -> None:
    """Each of these breaks one law, and hears which, with the seed and what led to it."""
    law, make = BROKEN[broken]
    with pytest.raises(AssertionError) as error:
        for seed in range(5):
            gate_contract(make, seed=seed)
    text = str(error.value)
    assert text.startswith(f"{broken.__name__} breaks the law {law!r}: {LAWS[law]}\n"), text
    assert "seed " in text


def test_every_law_has_somebody_who_breaks_it() -> None:
    """No law stands there without a gate that it has caught."""
    assert {law for law, _ in BROKEN.values()} == set(LAWS)


def test_the_story_is_told() -> None:
    """The error tells the answers and what happened before, oldest first, with times."""
    with pytest.raises(AssertionError) as error:
        gate_contract(lambda: TooShort(5))
    lines = str(error.value).splitlines()
    assert "it said" in lines[1]
    story = [line for line in lines if " asks: " in line or " enters" in line]
    assert 1 <= len(story) <= 16
    times = [float(line.split()[0]) for line in story]
    assert all(later >= earlier - 0.01 for earlier, later in pairwise(times))
    assert times[-1] > times[0]


def test_what_raised_is_the_cause() -> None:
    """An exception in the gate is the cause of the error."""
    with pytest.raises(AssertionError) as error:
        gate_contract(RaisesAnything)
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("law", "make"),
    [("exact", lambda: TooLong(5)), ("look", LooksBack), ("undo", lambda: UndoKeepsTheTokens(50)),
     ("capacity", lambda: SilentLeak(40)), ("plain", TooRoomy), ("balance", lambda: LeavesOnlyWell(1000)),
     ("restart", lambda: ForgetsAtRestart(1, "day", burst=20)), ("back", lambda: MindsTheClock(500))],
)  # fmt: skip
def test_exempt(law: str, make: Any) -> None:
    """From each law a gate can be exempt."""
    also = ("capacity",) if law == "balance" else ()
    gate_contract(make, exempt=(law, *also))


def test_refusals_are_no_breach() -> None:
    """A gate may refuse calls for good; the same again each time it is asked."""

    class Refuses(Gate):
        def delay(self, entry: Entry, now: float) -> float:
            if entry.cost.requests > 1:
                raise CostTooLarge("too large")
            return 0.0

    gate_contract(Refuses)


def test_the_same_seed_the_same_story() -> None:
    """A failure can be repeated by its seed, and another seed tells another story."""
    stories = []
    for seed in (3, 3, 4):
        with pytest.raises(AssertionError) as error:
            gate_contract(lambda: TooLong(5), seed=seed)
        stories.append(str(error.value))
    assert stories[0] == stories[1] != stories[2]


@pytest.mark.parametrize(
    ("path", "arguments"),
    [("exempt", {"exempt": ("gravity",)}), ("calls", {"calls": ()}), ("make_gate", {"make_gate": lambda: 3}),
      ("make_gate", {"make_gate": lambda: ONE})],
)  # fmt: skip
def test_bad_arguments(path: str, arguments: dict[str, Any]) -> None:
    """A contract that could not hold anybody to anything is refused."""
    with pytest.raises(ConfigurationError) as error:
        gate_contract(**({"make_gate": Gate} | arguments))
    assert error.value.path == path


def test_a_visitor_is_an_entry() -> None:
    """A Visitor has all that a gate may look at."""
    visitor = Visitor(Call(Cost(requests=2), service="chat", deadline=9.0), 1.0)
    entry: Entry = visitor
    assert (entry.cost.requests, entry.service, entry.deadline, entry.arrived) == (2, "chat", 9.0, 1.0)
    assert (entry.rank, entry.started, entry.first, entry.last, entry.items) == (0, None, None, None, 0)
    assert len({visitor, Visitor(visitor.call, 1.0)}) == 2
    assert "requests=2" in repr(visitor)
