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
class Score:
    """The score of one replay.

    Attributes:
        total: all classes together.
        classes: each class, in the order of the workload's classes.
        value: value served within objectives / value offered.
        preemptions: times the engine threw a call's work away to make room.
        seconds: from the first arrival until the last call was over.
    """

    total: ClassScore
    classes: tuple[ClassScore, ...]
    value: float
    preemptions: int
    seconds: float


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
    )


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
