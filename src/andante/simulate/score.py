"""How well a policy served a workload: what was within objectives, how long things took, what was wasted."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.record import Fate, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from andante.simulate.workload import ClientClass


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One class, or all of them together (`name` is then "all").

    Times are seconds from arrival unless said otherwise, and None where there is nothing to measure.

    Attributes:
        name: of the class.
        offered: calls that arrived.
        met: of these, served within their objectives.
        done: complete answers, in time or not.
        refused: calls refused before they started.
        left: clients that lost patience.
        goodput: met / offered: refused calls and clients that left count against it.
        ttft_p50, ttft_p99: time to first token, of the calls that got one.
        itl_p50, itl_p99: a complete answer's mean gap between tokens.
        e2e_p50, e2e_p99: time to the last token, of complete answers.
        refused_p50, left_p50: when calls were refused, when clients left.
        tokens: prefill and output tokens the engine computed for the class.
        wasted: share of `tokens` computed for calls that were not served within their objectives.
    """

    name: str
    offered: int
    met: int
    done: int
    refused: int
    left: int
    goodput: float
    ttft_p50: float | None
    ttft_p99: float | None
    itl_p50: float | None
    itl_p99: float | None
    e2e_p50: float | None
    e2e_p99: float | None
    refused_p50: float | None
    left_p50: float | None
    tokens: int
    wasted: float


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly one class's calls were served: Jain's index of shares served within objectives.

    1: all groups alike; 1/n: one of n groups has everything. None where there are no groups to compare, or none was
    served at all. (Jain, Chiu, Hawe 1984: (sum x)^2 / (n * sum x^2).)

    Attributes:
        sizes: over the quarters of the class's calls by prompt tokens.
        tenants: over its tenants.
    """

    sizes: float | None
    tenants: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one replay.

    Attributes:
        total: all classes together.
        classes: each class, in the order of the workload's classes.
        value: value served within objectives / value offered.
        preemptions: times the engine threw a call's work away to make room.
        seconds: from the first arrival until the last call was over.
        fairness: of each class, in the same order.
    """

    total: ClassScore
    classes: tuple[ClassScore, ...]
    value: float
    preemptions: int
    seconds: float
    fairness: tuple[Fairness, ...] = ()


def score(records: Sequence[Record], clients: Sequence[ClientClass]) -> Score:
    """Scores the records of one replay. `clients` are the workload's classes; every call offered counts.

    Raises ConfigurationError where there is nothing to score, or a record's class is not among `clients`.
    """
    if not records:
        raise ConfigurationError("there is nothing to score: no request was offered", path="records")
    of_class: dict[str, list[Record]] = {client.name: [] for client in clients}
    for record in records:
        if record.request.client.name not in of_class:
            raise ConfigurationError(f"{record!r} is of a class that is not among {list(of_class)}", path="clients")
        of_class[record.request.client.name].append(record)
    offered = sum(record.request.client.value for record in records)
    return Score(
        total=_class_score("all", records),
        classes=tuple(_class_score(name, own) for name, own in of_class.items()),
        value=sum(record.request.client.value for record in records if record.met) / offered if offered else 0.0,
        preemptions=sum(record.job.preemptions for record in records if record.job is not None),
        seconds=max(record.request.at + record.after for record in records) - records[0].request.at,
        fairness=tuple(_fairness(own) for own in of_class.values()),
    )


def settling(
    records: Sequence[Record], begins: float, ends: float, *, window: float = 10.0, band: float = 0.1
) -> float | None:
    """Seconds after the load changed at `begins` until the share of value served had found its new level.

    The level is the share of the calls that arrived in the second half of `begins` to `ends`, when the load changes
    again. Calls are taken together by arrival in windows of `window` seconds; settled is who from then on has no two
    windows in a row that differ from the level by more than `band`: one alone may be chance. It is relative to the
    policy's own level, so a policy that stays collapsed settles fast. None: too little happened to tell.
    """
    if not begins < ends or not window > 0:
        raise ConfigurationError(f"a step must last: from {begins!r} to {ends!r} s in windows of {window!r} s")
    after = [record for record in records if begins <= record.request.at < ends]
    level = _served([record for record in after if record.request.at >= (begins + ends) / 2])
    windows: list[list[Record]] = [[] for _ in range(ceil((ends - begins) / window))]
    for record in after:
        windows[min(len(windows) - 1, int((record.request.at - begins) / window))].append(record)
    shares = [_served(each) for each in windows]
    if level is None or len(shares) < 4:
        return None
    out = [share is not None and abs(share - level) > band for share in shares]
    last = max((place + 1 for place in range(1, len(out)) if out[place - 1] and out[place]), default=0)
    return min(last * window, ends - begins)


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index of fairness of two or more shares (each 0 or more), of which not all are 0; else None."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares > 0 else None


def _fairness(records: Sequence[Record]) -> Fairness:
    by_size = sorted(records, key=lambda record: record.request.prompt_tokens)
    count = len(by_size)
    quarters = [by_size[count * k // 4 : count * (k + 1) // 4] for k in range(4)] if count >= 4 else []
    tenants: dict[object, list[Record]] = {}
    for record in records:
        tenants.setdefault(record.request.tenant, []).append(record)
    return Fairness(sizes=jain([_met(each) for each in quarters]), tenants=jain([_met(t) for t in tenants.values()]))


def _met(records: Sequence[Record]) -> float:
    return sum(record.met for record in records) / len(records)


def _served(records: Sequence[Record]) -> float | None:
    """The share of their value that was served."""
    offered = sum(record.request.client.value for record in records)
    return sum(record.request.client.value for record in records if record.met) / offered if offered else None


def _class_score(name: str, records: Sequence[Record]) -> ClassScore:
    met = [record for record in records if record.met]
    done = [record for record in records if record.fate is Fate.DONE]
    refused = [record for record in records if record.fate is Fate.REFUSED]
    left = [record for record in records if record.fate is Fate.LEFT]
    tokens = sum(record.tokens for record in records)
    ttft = sorted(_known(record.ttft for record in records))
    itl = sorted(_known(record.itl for record in done))
    e2e = sorted(record.after for record in done)
    return ClassScore(
        name=name,
        offered=len(records),
        met=len(met),
        done=len(done),
        refused=len(refused),
        left=len(left),
        goodput=len(met) / len(records) if records else 0.0,
        ttft_p50=_quantile(ttft, 0.5),
        ttft_p99=_quantile(ttft, 0.99),
        itl_p50=_quantile(itl, 0.5),
        itl_p99=_quantile(itl, 0.99),
        e2e_p50=_quantile(e2e, 0.5),
        e2e_p99=_quantile(e2e, 0.99),
        refused_p50=_quantile(sorted(record.after for record in refused), 0.5),
        left_p50=_quantile(sorted(record.after for record in left), 0.5),
        tokens=tokens,
        wasted=1.0 - sum(record.tokens for record in met) / tokens if tokens else 0.0,
    )


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed. Raises ConfigurationError when
    there are none."""
    ordered = sorted(values)
    if not ordered or not 0 <= share <= 1:
        raise ConfigurationError(f"no quantile {share!r} of {len(ordered)} values")
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return quantile(ordered, share) if ordered else None


def _known(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None)
