"""The score, against numbers counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.simulate.record import Fate, Record
from andante.simulate.score import quantile, score
from andante.simulate.workload import ClientClass, Request

QUICK = ClientClass("quick", share=1, value=3, ttft=1.0, itl=0.1)
SLOW = ClientClass("slow", share=1, value=1, e2e=10.0)


def served(client: ClientClass, at: float, first: float, end: float, tokens: int = 11, preemptions: int = 0) -> Record:
    record = Record(Request(at, 100, tokens, client))
    job = record.started(at)
    job.first, job.generated, job.prefilled, job.preemptions = first, tokens, 100, preemptions
    record.ended(Fate.DONE, end)
    return record


def refused(client: ClientClass, at: float, over: float) -> Record:
    record = Record(Request(at, 100, 11, client))
    record.ended(Fate.REFUSED, over, "shed")
    return record


def left(client: ClientClass, at: float, over: float, prefilled: int) -> Record:
    record = Record(Request(at, 100, 11, client))
    record.started(at).prefilled = prefilled
    record.ended(Fate.LEFT, over)
    return record


def test_by_hand() -> None:
    """Goodput counts over all offered; wasted tokens are those of calls not served within their objectives."""
    records = [
        served(QUICK, 0.0, 0.5, 1.5),  # within: ttft 0.5, gaps 0.1
        served(QUICK, 1.0, 2.5, 3.0),  # late first token
        served(QUICK, 2.0, 2.5, 4.0, preemptions=2),  # gaps of 0.15
        refused(QUICK, 3.0, 3.2),
        served(SLOW, 4.0, 8.0, 14.0),  # within, exactly
        left(SLOW, 5.0, 65.0, prefilled=40),
        refused(SLOW, 6.0, 6.4),
        refused(SLOW, 7.0, 8.0),
    ]
    result = score(records, [QUICK, SLOW])
    quick, slow = result.classes
    assert (quick.name, quick.offered, quick.met, quick.done, quick.refused, quick.left) == ("quick", 4, 1, 3, 1, 0)
    assert (slow.name, slow.offered, slow.met, slow.done, slow.refused, slow.left) == ("slow", 4, 1, 1, 2, 1)
    assert (quick.goodput, slow.goodput, result.total.goodput) == (0.25, 0.25, 0.25)
    assert result.value == pytest.approx((3 + 1) / (4 * 3 + 4 * 1))
    assert (quick.ttft_p50, quick.ttft_p99) == (0.5, 1.5)
    assert quick.itl_p50 == pytest.approx(0.1)
    assert quick.itl_p99 == pytest.approx(0.15)
    assert (slow.e2e_p50, slow.e2e_p99) == (10.0, 10.0)
    assert quick.refused_p50 == pytest.approx(0.2)
    assert slow.refused_p50 == pytest.approx(0.4)
    assert (slow.left_p50, quick.left_p50) == (60.0, None)
    assert quick.tokens == 333
    assert quick.wasted == pytest.approx(222 / 333)
    assert slow.wasted == pytest.approx(40 / 151)
    assert (result.preemptions, result.seconds) == (2, 65.0)


def test_a_class_without_calls() -> None:
    """Nothing to measure is None, not zero."""
    result = score([refused(QUICK, 0.0, 0.0)], [QUICK, SLOW])
    assert result.value == result.total.goodput == 0.0
    assert result.classes[1].offered == 0
    assert result.classes[1].ttft_p99 is None
    assert result.classes[0].refused_p50 == 0.0


def test_bad_input() -> None:
    """No records, or a class nobody listed: named."""
    with pytest.raises(ConfigurationError, match="nothing to score"):
        score([], [QUICK])
    with pytest.raises(ConfigurationError, match="slow"):
        score([refused(SLOW, 0.0, 0.0)], [QUICK])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_quantile(values: list[float], share: float) -> None:
    """It is one of the values, and the smallest that so large a share does not exceed."""
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < max(share * len(values), 1e-9) + 1e-6 or found == min(values)


def test_bad_quantiles() -> None:
    """Of nothing, or of a share outside 0 to 1, there is none."""
    for values, share in (([], 0.5), ([1.0], -0.1), ([1.0], 1.1), ([1.0], float("nan"))):
        with pytest.raises(ConfigurationError, match="no quantile"):
            quantile(values, share)
