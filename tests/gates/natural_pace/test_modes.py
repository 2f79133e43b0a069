"""NaturalPace works by what it can see, says so, and changes when that changes."""

from __future__ import annotations

import logging
from math import inf
from typing import Any

import pytest

from andante import Call, ConfigurationError, Cost, NaturalPace, Outcome, ServiceClass
from andante.testing import ScriptedSignal, Visitor

BOTH = (ServiceClass("chat", ttft=1.0, itl=0.05), ServiceClass("batch", e2e=60.0))
FIRSTS = (ServiceClass("chat", ttft=1.0),)
NONE = (ServiceClass("default"),)


def pace(classes: tuple[ServiceClass, ...], **more: Any) -> NaturalPace:
    gate = NaturalPace(**more)
    gate.bind(classes)
    return gate


def whole(gate: NaturalPace, at: float, took: float = 1.0, tokens: float = 20.0, rank: int = 0) -> None:
    """A call that tells nothing before its end."""
    visitor = Visitor(Call(Cost(input_tokens=100, output_tokens=64)), at)
    visitor.rank = rank
    gate.enter(visitor, at)
    gate.leave(visitor, Outcome(cost=Cost(input_tokens=100, output_tokens=tokens), seconds=took, items=0.0), at + took)


def stream(gate: NaturalPace, at: float, gap: float = 0.02, tokens: int = 20) -> None:
    """A call that tells of each token."""
    visitor = Visitor(Call(Cost(input_tokens=100, output_tokens=64)), at)
    gate.enter(visitor, at)
    for n in range(tokens):
        now = at + 0.1 + n * gap
        gate.progress(visitor, 1, now)
        visitor.first = visitor.first or now
        visitor.last = now
    gate.leave(visitor, Outcome(items=float(tokens), ttft=0.1, seconds=0.1 + tokens * gap), at + 0.1 + tokens * gap)


@pytest.mark.parametrize("classes", [BOTH, FIRSTS, NONE])
def test_one_call_until_something_is_known(classes: tuple[ServiceClass, ...]) -> None:
    """Cold, it lets one in, and one more a second up to four, until the first has told something."""
    gate = pace(classes)
    first, second = Visitor(Call(Cost(input_tokens=100)), 0.0), Visitor(Call(Cost(input_tokens=100)), 0.0)
    assert gate.delay(first, 0.0) == 0
    gate.enter(first, 0.0)
    assert gate.delay(second, 0.9) == inf
    assert gate.snapshot(0.9)["binds"] == "first_call"
    for n in range(3):
        assert gate.delay(second, n + 1.0) == 0
        gate.enter(Visitor(Call(Cost(input_tokens=100)), n + 1.0), n + 1.0)
    assert gate.delay(second, 60.0) == inf
    gate.progress(first, 1, 60.0)
    assert gate.mode == "streams"


@pytest.mark.parametrize(
    ("classes", "streams", "calls"),
    [
        (BOTH, {"intertoken", "prefill_window", "memory_ceiling", "slots", "rhythm"}, {"twin", "rhythm"}),
        (FIRSTS, {"knee", "prefill_window", "memory_ceiling", "slots", "rhythm"}, {"twin", "knee", "rhythm"}),
        (NONE, {"knee", "prefill_window", "memory_ceiling", "slots", "rhythm"}, {"knee", "rhythm"}),
    ],
)
def test_the_mode_follows_what_is_seen(
    classes: tuple[ServiceClass, ...], streams: set[str], calls: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Streams, whole calls, and back; in the repr, the snapshot and the log."""
    caplog.set_level(logging.INFO, logger="andante")
    gate = pace(classes)
    assert gate.mode == "first call"
    whole(gate, 0.0)
    assert gate.mode == "whole calls"
    assert {part.name for part in gate.parts} == calls
    assert "whole calls" in repr(gate)
    stream(gate, 2.0)
    assert gate.mode == gate.snapshot(3.0)["mode"] == "streams"
    assert {part.name for part in gate.parts} == streams
    for n in range(24):
        whole(gate, 10.0 + n)
    assert gate.mode == "whole calls"
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "natural_pace works by whole calls",
        "natural_pace works by streams",
        "natural_pace works by whole calls",
    ]


def test_a_class_that_comes_back_whole_does_not_block_the_streams() -> None:
    """Among streams, the prompt of a class that tells nothing is in the way for as long as prompts take, no longer."""
    gate = pace(BOTH)
    for n in range(10):
        stream(gate, float(n))
    for n in range(3):
        whole(gate, 20.0 + n, rank=1)
    assert gate.mode == "streams"
    quiet = Visitor(Call(Cost(input_tokens=100)), 30.0)
    quiet.rank = 1
    gate.enter(quiet, 30.0)
    assert gate.flow.ahead_at(30.0) == 100
    assert gate.flow.ahead_at(31.0) == 0
    assert gate.delay(Visitor(Call(Cost(input_tokens=100)), 31.0), 31.0) == 0


def test_one_more_signal_is_an_extra_ceiling() -> None:
    """In every mode the backend's own word on its memory is heard."""
    signal = ScriptedSignal()
    gate = pace(BOTH, memory=signal)
    assert "engine_memory" in {part.name for part in gate.parts}
    stream(gate, 0.0)
    inside = Visitor(Call(), 2.0)
    gate.enter(inside, 2.0)
    gate.progress(inside, 1, 2.0)
    signal.say(0.95, at=2.0)
    assert gate.delay(Visitor(Call(), 2.0), 2.0) == inf
    assert gate.snapshot(2.0)["binds"] == "engine_memory"
    assert gate.delay(Visitor(Call(), 2.0), 8.0) == 0  # by then it is stale


def test_the_pace_is_told() -> None:
    """Calls and tokens a second, headroom, what binds and since when."""
    gate = pace(BOTH)
    for n in range(100):
        stream(gate, float(n), tokens=20)
    told = gate.snapshot(100.0)
    assert told["calls_per_s"] == pytest.approx(1.0, rel=0.1)
    assert told["tokens_per_s"] == pytest.approx(20.0, rel=0.1)
    assert told["headroom"] == 1.0
    assert told["binds"] is None
    assert told["since"] is None


@pytest.mark.parametrize("turn", [stream, whole])
def test_state_is_taken_over_with_its_age(turn: Any) -> None:
    """What was learned starts the next one; the mode too, while it is fresh."""
    gate = pace(BOTH)
    for n in range(30):
        turn(gate, float(n))
    saved = gate.dump()
    fresh, old = pace(BOTH), pace(BOTH)
    fresh.load(saved, age=5.0)
    old.load(saved, age=86_400.0)
    assert fresh.mode == ("whole calls" if turn is whole else "first call")
    assert old.mode == "first call"
    assert fresh.dump()["alpha"] == saved["alpha"]


def test_nonsense_is_refused() -> None:
    """A signal must be one."""
    with pytest.raises(ConfigurationError, match="memory"):
        NaturalPace(memory=0.9)  # type: ignore[arg-type]
