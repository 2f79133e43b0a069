"""What a run was worth: good answers by value over everything that was offered, as a table for people."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from tests.real.load import KINDS, Kind, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = (
    f"{'':12}{'offered':>8}{'good':>6}{'late':>6}{'refused':>8}{'left':>6}{'cut':>5}{'failed':>7}"
    f"{'TTFT p50':>10}{'p99':>8}{'ITL p50':>9}{'p99':>7}{'e2e p50':>9}{'p99':>8}"
)


def goodput(records: Sequence[Record]) -> float:
    """The value of the good answers as a share of the value of all that were offered, 0 to 1."""
    offered = sum(record.request.kind.value for record in records)
    return sum(record.request.kind.value for record in records if record.good) / offered if offered else nan


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else nan


def table(title: str, records: Sequence[Record]) -> str:
    """One line per kind; times in milliseconds, over answered calls only (TTFT also over those begun)."""
    lines = [f"{title}: goodput {100 * goodput(records):.1f} % of the value offered", HEAD]
    lines += [_line(kind, [record for record in records if record.request.kind is kind]) for kind in KINDS]
    return "\n".join(lines)


def _line(kind: Kind, records: Sequence[Record]) -> str:
    answered = [record for record in records if record.answered]
    first = [record.first for record in records if record.first < inf]
    gaps = [record.itl for record in answered] if kind.streamed else []
    ends = [record.end for record in answered]
    good = sum(record.good for record in records)
    counts = (
        f"{len(records):>8}{good:>6}{len(answered) - good:>6}{sum(record.refused is not None for record in records):>8}"
        f"{sum(record.left for record in records):>6}{sum(record.cut for record in records):>5}"
        f"{sum(record.failed is not None for record in records):>7}"
    )
    times = "".join(
        _milliseconds(quantile(values, share), width)
        for values, widths in ((first, (10, 8)), (gaps, (9, 7)), (ends, (9, 8)))
        for share, width in zip((0.5, 0.99), widths, strict=True)
    )
    return f"{kind.name:12}{counts}{times}"


def _milliseconds(seconds: float, width: int) -> str:
    if seconds != seconds:
        return f"{'-':>{width}}"
    milliseconds = 1000 * seconds
    return f"{milliseconds:>{width}.1f}" if milliseconds < 100 else f"{milliseconds:>{width}.0f}"
