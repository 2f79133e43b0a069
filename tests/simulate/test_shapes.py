"""Shapes of load: the mean rate by law, clumps, changes where they were asked for, and the same draw from one seed."""

from __future__ import annotations

import time
from itertools import pairwise
from math import inf, nan
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.simulate.mixes import MIXES, Lengths, mix
from andante.simulate.shapes import (
    Shape,
    at_load,
    bursty,
    clumps,
    draw,
    drift,
    on_off,
    ramp,
    steady,
    step,
    steps,
    trace_of,
)
from andante.simulate.traces import Trace, azure_conversation
from andante.simulate.workload import ClientClass

if TYPE_CHECKING:
    from andante.simulate.workload import Request

ONE = ((ClientClass("one", share=1), Lengths(100, 0.0, 10, 0.0)),)


def between(requests: list[Request], since: float, until: float) -> list[Request]:
    return [r for r in requests if since <= r.at < until]


@pytest.mark.parametrize(
    ("shape", "multiple"),
    [
        (steady(), 1.0),
        (clumps(3.0), 1.0),
        (clumps(0.3), 1.0),
        (ramp(1000.0), 1.0),
        (step(1000.0), (2 * 0.7 + 2.0) / 3),
        (on_off(10.0, 30.0, high=3.0, low=0.2), (3.0 + 3 * 0.2) / 4),
        (drift(1000.0), 1.0),
        (bursty(1000.0, high_for=2.0, low_for=6.0), 1.0),
    ],
    ids=lambda value: value.name if isinstance(value, Shape) else f"{value:g}",
)
def test_the_mean_rate_is_the_one_asked_for(shape: Shape, multiple: float) -> None:
    """All arrivals are counted: within four standard deviations of the shape's own mean (of clumps and bursts, which
    spread more, within 15 %)."""
    requests = draw(shape, ONE, 12.0, 1000.0, seed=5)
    expected = 12.0 * 1000.0 * multiple
    wide = shape.gap_cv > 1 or shape.name == "bursty"
    assert len(requests) == pytest.approx(expected, abs=0.15 * expected if wide else 4 * expected**0.5)
    assert all(a.at <= b.at < 1000.0 for a, b in pairwise(requests))


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_gaps_spread_as_told(cv: float) -> None:
    """Standard deviation over mean of the gaps is the one asked for."""
    requests = draw(clumps(cv), ONE, 20.0, 1000.0, seed=2)
    gaps = [b.at - a.at for a, b in pairwise(requests)]
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.08)


def test_rates_change_when_they_should() -> None:
    """Steps, on-off and ramp put the calls where they say."""
    third = 200.0
    requests = draw(step(600.0), ONE, 10.0, 600.0)
    counts = [len(between(requests, n * third, (n + 1) * third)) / third for n in range(3)]
    assert counts == pytest.approx([7.0, 20.0, 7.0], rel=0.12)
    silent = draw(on_off(5.0, 5.0), ONE, 10.0, 100.0)
    assert silent
    assert all(r.at % 10.0 < 5.0 for r in silent)
    middle = draw(ramp(600.0), ONE, 10.0, 600.0)
    assert len(between(middle, 250, 350)) > 5 * len(between(middle, 0, 100))
    stairs = draw(steps([(0.0, 0.0), (50.0, 1.0), (100.0, 0.0)]), ONE, 10.0, 150.0)
    assert stairs
    assert all(50 <= r.at < 100 for r in stairs)


def test_bursts_have_two_states() -> None:
    """Counts of 10 s spread far more than Poisson's (variance over mean 1), and another seed bursts elsewhere."""

    def index(requests: list[Request]) -> float:
        counts = [len(between(requests, n, n + 10)) for n in range(0, 600, 10)]
        return pstdev(counts) ** 2 / fmean(counts)

    assert index(draw(bursty(600.0, seed=1), ONE, 10.0, 600.0)) > 10
    assert index(draw(steady(), ONE, 10.0, 600.0)) < 2
    one, other = (bursty(600.0, seed=seed) for seed in (1, 2))
    assert [one.rate(t) for t in range(600)] != [other.rate(t) for t in range(600)]
    assert {one.rate(t) for t in range(600)} == {0.5, 2.5}


def test_drift_lengthens_answers() -> None:
    """In the middle third answers are twice as long; prompts stay."""
    requests = draw(drift(900.0), MIXES["chat"], 10.0, 900.0)
    early, late = between(requests, 0, 300), between(requests, 300, 600)
    interactive = [[r for r in part if r.client.name == "interactive"] for part in (early, late)]
    before, after = (median(r.output_tokens for r in part) for part in interactive)
    assert after / before == pytest.approx(2.0, rel=0.15)
    before, after = (median(r.prompt_tokens for r in part) for part in interactive)
    assert after / before == pytest.approx(1.0, rel=0.15)


@given(seed=st.integers(0, 2**32), rate=st.floats(0.5, 30), kind=st.sampled_from(sorted(MIXES)))
@settings(max_examples=25, deadline=None)
def test_the_same_seed_draws_the_same(seed: int, rate: float, kind: str) -> None:
    """A draw repeated is the same draw, every length is within its bounds, and another seed is another draw."""
    shape = bursty(30.0, seed=seed)
    requests = draw(shape, MIXES[kind], rate, 30.0, seed=seed)
    assert requests == draw(bursty(30.0, seed=seed), MIXES[kind], rate, 30.0, seed=seed)
    lengths = dict(MIXES[kind])
    for r in requests:
        assert 1 <= r.prompt_tokens <= lengths[r.client].longest_prompt
        assert 1 <= r.output_tokens <= lengths[r.client].longest_output
    if len(requests) > 3:
        assert requests != draw(shape, MIXES[kind], rate, 30.0, seed=seed + 1)


def test_lengths_and_shares_are_the_studys() -> None:
    """Medians, sigmas and shares of the main mix come out as they were put in."""
    requests = draw(steady(), mix("chat"), 40.0, 300.0)
    for client, lengths in mix("chat"):
        mine = [r for r in requests if r.client is client]
        assert len(mine) / len(requests) == pytest.approx(client.share / 100, abs=0.02)
        assert median(r.prompt_tokens for r in mine) == pytest.approx(lengths.prompt, rel=0.1)
        if lengths.longest_output > 1000:
            assert median(r.output_tokens for r in mine) == pytest.approx(lengths.output, rel=0.1)
    assert max(r.output_tokens for r in requests if r.client.name == "standard") == 512


def test_a_long_workload_is_drawn_quickly() -> None:
    """600 s at 15 calls a second in well under a second of this process's time."""
    began = time.process_time()
    requests = draw(bursty(600.0), MIXES["chat"], 15.0, 600.0)
    assert len(requests) > 5000
    assert time.process_time() - began < 0.8


def test_any_trace_at_a_multiple_of_capacity() -> None:
    """The trace's lengths and rhythm, at the rate asked for; and back from requests to a trace."""
    trace = azure_conversation()
    faster = at_load(trace, 1.5, 10.0)
    assert faster.rate == pytest.approx(15.0)
    assert [a.prompt_tokens for a in faster] == [a.prompt_tokens for a in trace]
    requests = draw(steady(), ONE, 5.0, 100.0)
    back = trace_of(requests, seconds=100.0)
    assert (len(back), back.seconds, back[0].prompt_tokens) == (len(requests), 100.0, 100)
    with pytest.raises(ConfigurationError, match="no rate"):
        at_load(Trace([]), 1.0, 10.0)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, True, "8", None])
def test_bad_numbers(bad: Any) -> None:
    """Whatever makes no sense is named, before a draw that would never end."""
    for make in (
        lambda: draw(steady(), ONE, bad, 10.0),
        lambda: draw(steady(), ONE, 1.0, bad),
        lambda: clumps(bad) if isinstance(bad, (int, float)) else Shape("bad", gap_cv=bad),
        lambda: Shape("bad", most=bad),
        lambda: bursty(bad),
        lambda: bursty(10.0, high_for=bad),
        lambda: ramp(bad),
        lambda: step(bad),
        lambda: drift(bad),
        lambda: drift(10.0, factor=bad),
        lambda: on_off(bad),
        lambda: at_load(azure_conversation(), bad, 1.0),
        lambda: Lengths(bad, 1.0, 1.0, 1.0),
        lambda: Lengths(1.0, 1.0, 1.0, 1.0, longest_output=bad),
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_bad_shapes() -> None:
    """Steps that do not begin at 0 or do not ascend, rates below 0, an unknown mix, a mix of nobody."""
    for changes in ([], [(1.0, 1.0)], [(0.0, 1.0), (5.0, 2.0), (3.0, 1.0)], [(0.0, -1.0)], [(0.0, nan)], [(nan, 1.0)]):
        with pytest.raises(ConfigurationError):
            steps(changes)
    with pytest.raises(ConfigurationError, match="low"):
        ramp(10.0, low=-0.1)
    with pytest.raises(ConfigurationError, match="sigma"):
        Lengths(1, -0.1, 1, 0)
    with pytest.raises(ConfigurationError, match="chat, noitl"):
        mix("chatter")
    with pytest.raises(ConfigurationError, match="class"):
        draw(steady(), (), 1.0, 10.0)
