"""The score, against numbers counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.simulate.record import Fate, Record
from andante.simulate.score import jain, quantile, score, settling
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


def of_size(tokens: int, at: float, met: bool) -> Record:
    record = Record(Request(at, tokens, 1, SLOW))
    if met:
        job = record.started(at)
        job.first = at + 1.0
        record.ended(Fate.DONE, at + 1.0)
    else:
        record.ended(Fate.REFUSED, at)
    return record


def test_fairness_over_sizes() -> None:
    """Jain's index over quarters of the calls by prompt: 1 when all are served alike, 1/4 when one quarter has all."""
    even = [of_size(size, 0.0, met=size % 2 == 0) for size in range(1, 17)]
    assert score(even, [SLOW]).fairness[0].sizes == pytest.approx(1.0)
    small_only = [of_size(size, 0.0, met=size <= 4) for size in range(1, 17)]
    assert score(small_only, [SLOW]).fairness[0].sizes == pytest.approx(0.25)
    half = [of_size(size, 0.0, met=size <= 8) for size in range(1, 17)]
    assert score(half, [SLOW]).fairness[0].sizes == pytest.approx(0.5)


def test_no_fairness_where_there_is_nothing_to_compare() -> None:
    """Fewer than four calls, none served, one tenant: None, not a number."""
    assert score([of_size(1, 0.0, met=True)] * 3, [SLOW]).fairness[0].sizes is None
    assert score([of_size(1, 0.0, met=False)] * 8, [SLOW]).fairness[0].sizes is None
    assert score([of_size(1, 0.0, met=True)] * 8, [SLOW]).fairness[0].tenants is None


def test_fairness_over_tenants() -> None:
    """One of two tenants has everything: 1/2."""
    records = []
    for tenant in (1, 2):
        for _ in range(4):
            record = Record(Request(0.0, 1, 1, SLOW, tenant=f"tenant {tenant}"))
            record.started(0.0).first = 1.0
            record.ended(Fate.DONE if tenant == 1 else Fate.LEFT, 1.0)
            records.append(record)
    assert score(records, [SLOW]).fairness[0].tenants == pytest.approx(0.5)


@given(st.lists(st.floats(0, 1), min_size=2))
def test_jain(shares: list[float]) -> None:
    """It is between 1/n and 1, and does not ask how large all of them are."""
    index = jain(shares)
    if index is not None:
        assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
        assert jain([share / 2 for share in shares]) == pytest.approx(index)
    assert jain([0.0, 0.0]) is None
    assert jain([1.0]) is None


def test_settling() -> None:
    """After a step at 100 s: served are 1 in 10 for 30 s, then 9 in 10. It has settled 30 s after the step."""
    records = [of_size(1, at, met=True) for at in range(100)]
    for at in range(100, 220):
        records += [of_size(1, at + k / 10, met=k < (1 if at < 130 else 9)) for k in range(10)]
    assert settling(records, 100.0, 220.0) == 30.0
    assert settling(records, 130.0, 220.0) == 0.0
    assert settling(records, 100.0, 220.0, band=1.0) == 0.0


def test_one_window_alone_is_chance() -> None:
    """One window off its level does not count, two in a row do."""
    bad = {3}

    def records() -> list[Record]:
        return [of_size(1, at, met=at // 10 not in bad) for at in range(120)]

    assert settling(records(), 0.0, 120.0) == 0.0
    bad.add(4)
    assert settling(records(), 0.0, 120.0) == 50.0


def test_settling_that_cannot_be_told() -> None:
    """Too short, or nothing arrives: None. A step that ends before it begins is an error."""
    assert settling([of_size(1, 1.0, met=True)], 0.0, 30.0) is None
    assert settling([], 0.0, 100.0) is None
    for begins, ends, window in ((1.0, 1.0, 10.0), (2.0, 1.0, 10.0), (0.0, 1.0, 0.0), (0.0, float("nan"), 10.0)):
        with pytest.raises(ConfigurationError, match="a step must last"):
            settling([], begins, ends, window=window)
