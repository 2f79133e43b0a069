"""What a visit shows: rates in slices of time, first results, gaps, troubles."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.calibrate import Effect, Level, Report, Sample, Spread, Trouble, measure, pooled
from andante.calibrate.level import SLICES, quantile

TIMES = st.floats(0, 100)


def stream(start: float, first: float, gap: float, tokens: int) -> Sample:
    """A stream of `tokens` that ended well."""
    items = [(start + first + gap * k, 1.0) for k in range(tokens)]
    return Sample(start, first=items[0][0], ended=items[-1][0], items=items)


def test_a_steady_load_by_hand() -> None:
    """Two callers, calls of a second each, shifted by half a second: 2 calls/s in each slice, 20 tokens/s."""
    samples = [stream(0.5 * k, 0.1, 0.1, 10) for k in range(20)]
    level = measure(samples, 2, 2.0, 8.0)
    assert level.calls == pytest.approx([2.0] * SLICES)
    assert level.tokens == pytest.approx([20.0] * SLICES)
    assert level.seconds == pytest.approx([1.0] * len(level.seconds))
    assert level.share(level.ttft, 0.9) == pytest.approx(0.1)
    assert level.share(level.itl, 0.5) == pytest.approx(0.1)
    assert level.failed == 0


def test_the_backend_counts_better_than_its_chunks() -> None:
    """Chunks of two tokens: the usage that the backend reports doubles the tokens and halves the gap."""
    sample = stream(0.0, 0.1, 0.2, 10)
    sample.tokens = 20.0
    level = measure([sample], 1, 0.0, 2.0)
    assert statistics.mean(level.tokens) == pytest.approx(20 / 2.0)
    assert level.itl == pytest.approx([0.1])


def test_calls_that_are_not_over_count_for_what_is_inside() -> None:
    """A window that ends in the middle of calls loses none of them, and counts none twice."""
    over = [Sample(t, ended=t + 2.0, tokens=6.0) for t in (0.0, 0.5, 1.0)]
    under_way = [Sample(t) for t in (2.0, 2.5, 3.0)]
    level = measure(over + under_way, 3, 0.5, 3.5)
    whole = measure(over + [Sample(t, ended=t + 2.0, tokens=6.0) for t in (2.0, 2.5, 3.0)], 3, 0.5, 3.5)
    assert level.calls == pytest.approx(whole.calls)
    assert level.tokens == pytest.approx(whole.tokens)
    assert level.ttft == ()


def test_tokens_of_streams_longer_than_the_window() -> None:
    """Where no call ends, the tokens that came are counted."""
    long = Sample(0.0, first=0.1, items=[(0.1 * k, 1.0) for k in range(1, 200)])
    level = measure([long], 1, 5.0, 9.0)
    assert statistics.mean(level.tokens) == pytest.approx(10.0)
    assert level.itl == pytest.approx([0.1])
    assert level.ended == 0


def test_a_long_wait_for_the_first_output_is_evidence() -> None:
    """A call that has waited longer than all others did stands among the first outputs; a younger one does not."""
    level = measure([stream(0, 0.1, 0.1, 10), Sample(0.0), Sample(0.95)], 3, 0.0, 1.0)
    assert sorted(level.ttft) == pytest.approx([0.1, 1.0])


def test_calls_that_fail_bring_nothing() -> None:
    """They count as troubles and not into any rate."""
    boom = Trouble("HTTP 500")
    level = measure([Sample(0.0, ended=0.5, trouble=boom), Sample(0.5, ended=1.0, trouble=boom)], 1, 0.0, 1.0)
    assert (level.troubles, level.failed, level.ended, level.calls) == (((boom, 2),), 2, 2, ())
    assert level.rate == Spread(0.0, 0.0, 0.0)
    assert level.pushback is None
    no = measure([Sample(0.0, ended=0.5, trouble=Trouble("HTTP 429", effect=Effect.PUSHBACK))], 1, 0.0, 1.0)
    assert no.pushback is not None


def test_answers_in_no_time() -> None:
    """A call that takes no time at all is one call."""
    level = measure([Sample(0.1 * k, ended=0.1 * k) for k in range(1, 41)], 1, 0.0, 4.05)
    assert sum(level.calls) / SLICES == pytest.approx(40 / 4.05)


@given(st.lists(TIMES, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles(values: list[float], share: float) -> None:
    """Between the smallest and the largest, growing with the share, and the quartiles of the standard library."""
    ordered = sorted(values)
    assert ordered[0] <= quantile(ordered, share) <= ordered[-1]
    assert quantile(ordered, share) <= quantile(ordered, 1.0)
    if len(values) > 1:
        spread = Spread.of(values)
        assert spread is not None
        expected = statistics.quantiles(values, n=4, method="inclusive")
        assert [spread.low, spread.median, spread.high] == pytest.approx(expected)


@given(st.lists(st.tuples(TIMES, st.floats(0, 20), st.booleans()), max_size=40), TIMES, st.floats(0.1, 50))
def test_no_rate_is_above_what_was_in_flight(
    calls: list[tuple[float, float, bool]], begin: float, width: float
) -> None:
    """Whatever overlaps: rates are never negative, and no more calls are counted than have touched the window."""
    samples = [Sample(at, ended=at + lasted if over else None) for at, lasted, over in calls]
    level = measure(samples, 1, begin, begin + width)
    assert all(rate >= 0 for rate in level.calls)
    assert sum(level.calls) * width / SLICES <= len(samples) + 1e-6


def test_pooled_visits() -> None:
    """Visits of one number are one level with the values of both; numbers ascend."""
    boom = Trouble("HTTP 500")
    one = Level(4, calls=(1.0,), ended=3, troubles=((boom, 1),))
    other = Level(4, calls=(3.0,), ended=2, troubles=((boom, 2),))
    first, second = pooled([one, Level(2, calls=(1.5,)), other])
    assert (first.n, second.n, second.visits) == (2, 4, 2)
    assert (second.calls, second.ended, second.troubles) == ((1.0, 3.0), 5, ((boom, 3),))


def test_a_visit_cut_short_does_not_spoil_the_others() -> None:
    """Its rates count only where there are no others; its troubles always."""
    whole, short = Level(4, calls=(1.0,)), Level(4, calls=(9.0,), whole=False, troubles=((Trouble("HTTP 500"), 1),))
    (level,) = pooled([whole, short])
    assert (level.calls, level.failed, level.whole) == ((1.0,), 1, True)
    (level,) = pooled([short])
    assert (level.calls, level.whole) == ((9.0,), False)


def test_report_keeps_time() -> None:
    """A target tells, the sample remembers when."""
    now, heard = [1.0], []
    sample = Sample(0.5)
    report = Report(sample, lambda: now[0], lambda: heard.append(now[0]))
    report.item()
    now[0] = 2.0
    report.item(3)
    report.usage(8.0, None)
    report.usage(None, 5.0)
    assert (sample.first, sample.items, heard) == (1.0, [(1.0, 1.0), (2.0, 3)], [1.0, 2.0])
    assert (sample.tokens, sample.prompt, sample.scale) == (8.0, 5.0, 2.0)
