"""AIMD, Vegas and Gradient2 under bad input and restarts, and their laws."""

from __future__ import annotations

from datetime import timedelta
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.gates import Concurrency
from andante.limits import AIMD, Gradient2, Vegas
from andante.values import Ending, Outcome

if TYPE_CHECKING:
    from andante.limits.learned import LearnedLimit

KINDS: dict[str, type[Any]] = {"AIMD": AIMD, "Vegas": Vegas, "Gradient2": Gradient2}
EACH = pytest.mark.parametrize("name", KINDS)
HUGE = 10**400


def done(estimate: LearnedLimit, took: float, inside: int, now: float, calls: int = 10) -> None:
    """A round: so many calls, all done at one moment, all begun after the last change."""
    for _ in range(calls):
        estimate.sample(Outcome(seconds=took), inside, now)


def refused(estimate: LearnedLimit, now: float, seconds: float | None = None, calls: int = 1) -> None:
    for _ in range(calls):
        estimate.sample(Outcome(Ending.OVERLOADED, seconds=seconds), 5, now)


# Bad input. -----------------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("bad", [None, nan, inf, -inf, 0.0, -0.0, -1.0, True, "1", HUGE])
def test_times_that_make_no_sense_teach_nothing(name: str, bad: Any) -> None:
    """A call that was done in no time, or in none that is a number, is no sample; nor is one at no time."""
    estimate, twin = KINDS[name](), KINDS[name]()
    for turn in range(1, 60):
        for each in (estimate, twin):
            each.sample(Outcome(seconds=0.1 + turn % 3 / 100), 15, turn * 1.0)
        estimate.sample(Outcome(seconds=bad), 15, turn + 0.5)
        estimate.sample(Outcome(Ending.IGNORED, seconds=0.1), 15, turn + 0.5)
        if bad is not None and bad not in (0.0, -1.0, True):
            estimate.sample(Outcome(seconds=0.1), 15, bad)
            estimate.sample(Outcome(Ending.OVERLOADED), 15, bad)
    assert estimate.dump() == twin.dump()
    assert isfinite(estimate.limit)


BAD = [nan, inf, -inf, -1, 0, True, "20", None, HUGE, [20], 0.5]


@EACH
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("parameter", ["initial", "minimum", "maximum"])
def test_bad_bounds(name: str, parameter: str, bad: Any) -> None:
    """Bounds that are no finite number, 1 or more, are refused by name."""
    with pytest.raises(ConfigurationError, match=parameter) as caught:
        KINDS[name](**{parameter: bad})
    assert caught.value.path == parameter


@EACH
def test_bounds_in_order(name: str) -> None:
    """minimum <= initial <= maximum; equal is fine, and then nothing moves."""
    for parameters, path in (
        ({"minimum": 30, "maximum": 25, "initial": 27}, "maximum"),
        ({"minimum": 30}, "initial"),
        ({"maximum": 10}, "initial"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            KINDS[name](**parameters)
        assert caught.value.path == path
    fixed = KINDS[name](initial=3, minimum=3, maximum=3)
    done(fixed, 0.1, 3, 10.0)
    refused(fixed, 20.0)
    assert fixed.limit == 3
    assert "3" in repr(fixed)


@pytest.mark.parametrize(
    ("kind", "parameter", "values"),
    [
        (AIMD, "backoff", [0, 1, 1.5, -0.5, nan, inf, True, "0.9", None, HUGE]),
        (AIMD, "timeout", [0, -1, nan, True, "5", HUGE, timedelta(0)]),
        (Vegas, "probe", [0, 0.5, -1, nan, inf, True, "30", None, HUGE]),
        (Gradient2, "tolerance", [0, 0.9, nan, inf, True, "2", None, HUGE]),
        (Gradient2, "queue", [-1, nan, inf, True, "4", None, HUGE]),
        (Gradient2, "smoothing", [0, 1, 2, -0.1, nan, inf, True, "0.2", None, HUGE]),
        (Gradient2, "window", [1, 0, -5, 600.0, 10.5, nan, inf, True, "600", None, HUGE]),
    ],
)
def test_bad_parameters(kind: type[Any], parameter: str, values: list[Any]) -> None:
    """Each is refused by its own name."""
    for value in values:
        with pytest.raises(ConfigurationError, match=parameter) as caught:
            kind(**{parameter: value})
        assert caught.value.path == parameter


# Restarts. ------------------------------------------------------------------------------------------------------------


@EACH
def test_a_restart(name: str) -> None:
    """What was learned comes back as it was; after more than 600 s only the limit does, as a place to begin."""
    old = KINDS[name]()
    for turn in range(1, 40):
        done(old, 0.2, 20, turn * 1.0)
    state = old.dump()
    soon, late, new = KINDS[name](), KINDS[name](), KINDS[name]()
    soon.load(state, 600.0)
    assert soon.dump() == state
    late.load(state, 601.0)
    assert late.dump() == new.dump() | {"limit": state["limit"]}
    small = KINDS[name](initial=2, maximum=5)
    small.load(state, 0.0)
    assert small.limit == 5
    new.load({}, 0.0)
    assert new.dump() == KINDS[name]().dump()


@EACH
def test_a_state_that_makes_no_sense(name: str) -> None:
    """It is refused by name, and nothing of it is taken over."""
    fields = {"AIMD": ["limit"], "Vegas": ["limit", "fastest", "calls"], "Gradient2": ["limit", "usual", "rounds"]}
    good = {"limit": 30.0, "fastest": 0.1, "calls": 3, "usual": 0.1, "rounds": 3}
    for field in fields[name]:
        bads: list[Any] = [nan, inf, -1, True, "7", None, HUGE, []]
        for bad in bads:
            estimate = KINDS[name]()
            with pytest.raises(ConfigurationError, match=field):
                estimate.load(good | {field: bad}, 0.0)
            assert estimate.dump() == KINDS[name]().dump()
    for state in (None, 7, "limit", [("limit", 3)]):
        with pytest.raises(ConfigurationError, match="state"):
            KINDS[name]().load(state, 0.0)
    for age in (nan, inf, -1, True, "0", None):
        with pytest.raises(ConfigurationError, match="age"):
            KINDS[name]().load(good, age)


@EACH
def test_through_the_gate(name: str) -> None:
    """`Concurrency` dumps and loads it, and shows its limit."""
    gate, other = Concurrency(KINDS[name](initial=7)), Concurrency(KINDS[name]())
    other.load(gate.dump(), 5.0)
    assert other.limit == other.snapshot(0.0)["limit"] == 7
    assert name in repr(other)


# The laws. ------------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.floats(), st.floats(0.001, 100), st.integers(-5, 5))
SAMPLES = st.lists(
    st.tuples(st.sampled_from(Ending), NUMBERS, st.integers(0, 60), st.one_of(st.floats(0, 1000), st.floats())),
    max_size=80,
)


@given(samples=SAMPLES, limits=st.tuples(*[st.floats(1, 50)] * 3))
@settings(max_examples=60, deadline=None)
@EACH
def test_laws(name: str, samples: list[tuple[Ending, Any, int, float]], limits: tuple[float, ...]) -> None:
    """Whatever comes, in any order of time: between minimum and maximum, never NaN; IGNORED changes nothing, an
    overload raises nothing; the same samples give the same limit, and a dump loads."""
    minimum, initial, maximum = sorted(limits)
    estimate, twin = (KINDS[name](initial=initial, minimum=minimum, maximum=maximum) for _ in range(2))
    for ending, seconds, inside, now in samples:
        before = estimate.limit
        state = estimate.dump()
        estimate.sample(Outcome(ending, seconds=seconds), inside, now)
        twin.sample(Outcome(ending, seconds=seconds), inside, now)
        assert minimum <= estimate.limit <= maximum
        if ending is Ending.IGNORED:
            assert estimate.dump() == state
        if ending is Ending.OVERLOADED:
            assert estimate.limit <= before
    assert twin.dump() == estimate.dump()
    later = KINDS[name](initial=initial, minimum=minimum, maximum=maximum)
    later.load(estimate.dump(), 0.0)
    assert later.dump() == estimate.dump()


@given(times=st.lists(st.floats(0.001, 4.9), max_size=150), gap=st.floats(0.001, 50))
@settings(max_examples=40, deadline=None)
@EACH
def test_idle_backends_do_not_move_it(name: str, times: list[float], gap: float) -> None:
    """Calls one at a time at a limit of 20, however long they take (below AIMD's timeout): the limit is 20."""
    estimate, now = KINDS[name](), 0.0
    for took in times:
        now += gap + took
        estimate.sample(Outcome(seconds=took), 1, now)
    assert estimate.limit == 20
