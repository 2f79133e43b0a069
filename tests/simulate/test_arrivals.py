"""Calls of a campaign: drawn in every shape, or of a trace, at any rate, the same for the same seed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.simulate.arrivals import SHAPES, Drawn, OfTrace
from andante.simulate.mixes import mix
from andante.simulate.traces import Arrival, Trace, poisson

CHAT = mix("chat")
CLIENTS = tuple(client for client, _ in CHAT)
TRACE = poisson(5.0, 60.0, seed=2)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    """About as many calls as the load asks for, ascending, within the time; the seed decides which; picklable."""
    drawn = pickle.loads(pickle.dumps(Drawn(CHAT, 300.0, shape)))
    calls = drawn.requests(10.0, 1)
    assert len(calls) == pytest.approx(3000, rel=0.25)
    times = [call.at for call in calls]
    assert times == sorted(times)
    assert times[-1] < 300.0
    assert calls == drawn.requests(10.0, 1)
    assert calls != drawn.requests(10.0, 2)


def test_where_the_load_steps() -> None:
    """Steps and drift change at the thirds; nothing else changes at once at a time that is known."""
    assert {s: Drawn(CHAT, 90.0, s).steps(1.0) for s in SHAPES} == {
        "poisson": (), "bursty": (), "ramp": (), "steps": (30.0, 60.0), "drift": (30.0, 60.0), "on-off": ()
    }  # fmt: skip


def test_a_trace_at_any_rate() -> None:
    """It is as much faster as the rate asks for; the seed decides the classes alone."""
    calls = OfTrace(TRACE, CLIENTS)
    fast = calls.requests(10.0, 1)
    assert calls.seconds(10.0) == pytest.approx(60.0 * TRACE.rate / 10.0)
    assert [call.at for call in fast] == pytest.approx([a.at * TRACE.rate / 10.0 for a in TRACE])
    other = calls.requests(10.0, 2)
    assert [call.prompt_tokens for call in other] == [call.prompt_tokens for call in fast]
    assert [call.client for call in other] != [call.client for call in fast]


def test_calls_that_do_not_fit() -> None:
    """Of a trace they are left out and counted, of drawn ones they do not come; of nothing else there is nothing."""
    long = Trace([*TRACE, Arrival(60.0, 900, 200)], name="long")
    assert {left_out for _, left_out in (OfTrace(long, CLIENTS).fitting(100_000), Drawn(CHAT, 9.0).fitting(9))} == {0}
    kept, left_out = OfTrace(long, CLIENTS).fitting(1000)
    assert left_out == sum(a.prompt_tokens + a.output_tokens > 1000 for a in long)
    assert all(c.prompt_tokens + c.output_tokens <= 1000 for c in kept.requests(5.0, 1))
    drawn, _ = Drawn(CHAT, 60.0).fitting(1000)
    assert all(c.prompt_tokens + c.output_tokens <= 1000 for c in (*drawn.requests(5.0, 1), *drawn.mix()))
    with pytest.raises(ConfigurationError, match="none of the 1 calls"):
        OfTrace(Trace([Arrival(1.0, 900, 200)]), CLIENTS).fitting(1000)


def test_facts_tell_everything_apart() -> None:
    """What decides the arrivals is in their facts."""
    others = [
        Drawn(CHAT, 60.0), Drawn(CHAT, 61.0), Drawn(CHAT, 60.0, "drift"), Drawn(mix("code"), 60.0),
        OfTrace(TRACE, CLIENTS), OfTrace(TRACE.faster(2.0), CLIENTS), OfTrace(TRACE, CLIENTS[:1]),
    ]  # fmt: skip
    assert len({repr(each.facts) for each in others}) == len(others)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), True, "60"])
def test_bad_seconds(seconds: Any) -> None:
    """Only finite seconds above 0."""
    with pytest.raises(ConfigurationError, match="seconds must be"):
        Drawn(CHAT, seconds)


def test_other_bad_arguments() -> None:
    """A shape that is none, and a trace that takes no time."""
    with pytest.raises(ConfigurationError, match="no shape 'wavy'; there are poisson, bursty"):
        Drawn(CHAT, 60.0, "wavy")
    with pytest.raises(ConfigurationError, match="lasts no time"):
        OfTrace(Trace([Arrival(0.0, 1, 1)]), CLIENTS)
