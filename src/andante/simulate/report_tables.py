"""The figures of a campaign as tables of words, for the terminal and for the page alike."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from andante.simulate.campaign import CellResult, Findings
    from andante.simulate.score import ClassScore

NONE = "–"  # noqa: RUF001 (a dash, in a cell where there is nothing to measure)


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text; the first column is a name, all others are numbers.

    Attributes:
        title: what it shows.
        head: of the columns.
        rows: as wide as `head`.
        best: rows that are as good as any, to be made strong.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over seeds, and half the range between the least and the most."""

    mean: float
    half: float
    least: float
    most: float
    seeds: int

    @property
    def percent(self) -> str:
        """In per cent, with the spread where there is more than one seed."""
        return f"{100 * self.mean:.1f}" + (f" ± {100 * self.half:.1f}" if self.seeds > 1 else "")


def goodput(results: Sequence[CellResult], of: Callable[[CellResult], float] | None = None) -> Spread:
    """The share of the value offered that was served within objectives (or of what `of` returns), over the seeds."""
    values = [each.score.value if of is None else of(each) for each in results]
    return Spread(fmean(values), (max(values) - min(values)) / 2, min(values), max(values), len(values))


def by_load(findings: Findings) -> Table:
    """Goodput, one policy a row, one load a column."""
    campaign = findings.campaign
    spreads = {(p, x): goodput(findings.of(p, x)) for p in campaign.policies for x in campaign.loads}
    means = {p: fmean(spreads[p, x].mean for x in campaign.loads) for p in campaign.policies}
    head = ("policy", *(f"load {x:.3g}" for x in campaign.loads), *(("mean",) if len(campaign.loads) > 1 else ()))
    rows = tuple(
        (
            p,
            *(spreads[p, x].percent for x in campaign.loads),
            *((f"{100 * means[p]:.1f}",) if len(campaign.loads) > 1 else ()),
        )
        for p in campaign.policies
    )
    title = "Value served within objectives, % of all that was offered"
    return Table(title, head, rows, _best(list(means.values())))


def of_class(findings: Findings, load: float, place: int) -> Table:
    """One class (by its place) at one load, one policy a row. Columns without anything to show are left out."""
    campaign = findings.campaign
    client = campaign.clients[place]
    head = (
        "policy", "goodput %", "TTFT s", "ITL ms", "e2e s", "refused %", "after s", "left %", "wasted %",
        "fair: sizes", "tenants", "settled s",
    )  # fmt: skip
    rows, means = [], []
    for policy in campaign.policies:
        results = findings.of(policy, load)
        scores = [each.score.classes[place] for each in results]
        shares = goodput(results, lambda each: each.score.classes[place].goodput)
        means.append(shares.mean)
        fairness = [each.score.fairness[place] for each in results]
        rows.append(
            (
                policy,
                shares.percent,
                _pair(scores, "ttft"),
                _pair(scores, "itl", 1000),
                _pair(scores, "e2e"),
                _percent(s.refused / s.offered if s.offered else None for s in scores),
                _plain(s.refused_p50 for s in scores),
                _percent(s.left / s.offered if s.offered else None for s in scores),
                _percent(s.wasted for s in scores),
                _index(f.sizes for f in fairness),
                _index(f.tenants for f in fairness),
                _plain(second for each in results for second in each.settled),
            )
        )
    kept = [k for k in range(len(head)) if k < 2 or any(row[k] != NONE for row in rows)]
    return Table(
        f"{client.name}, load {load:.3g}",
        tuple(head[k] for k in kept),
        tuple(tuple(row[k] for k in kept) for row in rows),
        _best(means),
    )


EXPLAINED = (
    "TTFT (time to first token), ITL (mean gap between a call's tokens) and e2e (time to the last token): median / "
    "99th percentile of the calls that got so far. Refused: share, and the median time until it was said. Left: "
    "clients that lost patience. Wasted: tokens computed for calls not served within their objectives. Fair: "
    "Jain's index over the quarters of the calls by prompt size, and over tenants; 1 is even. Settled: seconds after a "
    "step of the load, of all classes together. Means over seeds, ± half the range between them."
)
"""What the columns of `of_class` mean."""


def _best(values: Sequence[float]) -> frozenset[int]:
    """Differences under half a point are ties."""
    return frozenset(place for place, value in enumerate(values) if value > max(values) - 0.005)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _pair(scores: Sequence[ClassScore], what: str, times: float = 1.0) -> str:
    middle, late = (_mean(getattr(s, f"{what}_{q}") for s in scores) for q in ("p50", "p99"))
    return NONE if middle is None or late is None else f"{digits(times * middle)} / {digits(times * late)}"


def _percent(values: Iterable[float | None]) -> str:
    mean = _mean(values)
    return NONE if mean is None else f"{100 * mean:.1f}"


def _plain(values: Iterable[float | None]) -> str:
    mean = _mean(values)
    return NONE if mean is None else digits(mean)


def _index(values: Iterable[float | None]) -> str:
    mean = _mean(values)
    return NONE if mean is None else f"{mean:.2f}"


def digits(value: float) -> str:
    """Two decimals below 1, one below 100, none above; 0 is 0."""
    if value == 0:
        return "0"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
