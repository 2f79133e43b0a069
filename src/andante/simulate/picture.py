"""What the plots of a report show of one replay: who was where when, and how long things took."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from andante.simulate.record import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from andante.simulate.record import Record
    from andante.simulate.workload import ClientClass

BINS = 120
"""Into so many equal parts a timeline is cut."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The time in which calls arrived, in `BINS` parts. What happens later, while the last are served, is left out.

    Attributes:
        width: seconds of a part.
        inside: calls that had been let in and were not over, mean over each part.
        waiting: calls that had arrived and were not let in, the same.
        arrived, started, refused, left: calls a second.
        wait: the median of the seconds that the calls which started in a part had waited; None where none started.
        longest: the longest of these.
    """

    width: float
    inside: tuple[float, ...]
    waiting: tuple[float, ...]
    arrived: tuple[float, ...]
    started: tuple[float, ...]
    refused: tuple[float, ...]
    left: tuple[float, ...]
    wait: tuple[float | None, ...]
    longest: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """How long the calls of a class took, ascending, seconds.

    Attributes:
        offered: how many there were.
        ttft: to the first token, of those that got one.
        itl: mean gap between tokens, of complete answers.
        e2e: to the last token, of complete answers.
    """

    offered: int
    ttft: tuple[float, ...]
    itl: tuple[float, ...]
    e2e: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """The plots of one replay: its timeline, and the times of each class, in the order of the classes."""

    timeline: Timeline
    times: tuple[Times, ...]


def picture(records: Sequence[Record], clients: Sequence[ClientClass], seconds: float) -> Picture:
    """What `records` show; calls arrived for `seconds`, from 0 on."""
    return Picture(timeline(records, seconds), tuple(_times(records, client.name) for client in clients))


def timeline(records: Sequence[Record], seconds: float) -> Timeline:
    """Where the calls were over the time from 0 to `seconds`."""
    width = seconds / BINS
    waits: list[list[float]] = [[] for _ in range(BINS)]
    for record in records:
        if record.entered is not None and 0 <= record.entered < seconds:
            waits[min(BINS - 1, int(record.entered / width))].append(record.entered - record.request.at)
    for each in waits:
        each.sort()

    def rate(times: Iterable[float | None]) -> tuple[float, ...]:
        counts = [0] * BINS
        for at in times:
            if at is not None and 0 <= at < seconds:
                counts[min(BINS - 1, int(at / width))] += 1
        return tuple(number / width for number in counts)

    return Timeline(
        width=width,
        inside=_occupancy(((r.entered, r.over) for r in records), width),
        waiting=_occupancy(((r.request.at, r.over if r.entered is None else r.entered) for r in records), width),
        arrived=rate(r.request.at for r in records),
        started=rate(r.entered for r in records),
        refused=rate(r.over for r in records if r.fate is Fate.REFUSED),
        left=rate(r.over for r in records if r.fate is Fate.LEFT),
        wait=tuple(each[len(each) // 2] if each else None for each in waits),
        longest=tuple(each[-1] if each else None for each in waits),
    )


def _occupancy(stays: Iterable[tuple[float | None, float | None]], width: float) -> tuple[float, ...]:
    """How many of the stays (from, until) there were at once, mean over each part."""
    within = [0.0] * BINS  # stays that begin or end in a part count there by their share of it
    change = [0] * (BINS + 1)  # others count as a whole
    for begins, ends in stays:
        if begins is None or begins >= BINS * width:
            continue
        until = BINS * width if ends is None else min(ends, BINS * width)
        first, last = int(begins / width), min(BINS - 1, int(until / width))
        if first == last:
            within[first] += (until - begins) / width
        else:
            within[first] += first + 1 - begins / width
            within[last] += until / width - last
            change[first + 1] += 1
            change[last] -= 1
    return tuple(part + whole for part, whole in zip(within, accumulate(change), strict=False))


def _times(records: Sequence[Record], name: str) -> Times:
    own = [record for record in records if record.request.client.name == name]
    done = [record for record in own if record.fate is Fate.DONE]
    return Times(
        offered=len(own),
        ttft=tuple(sorted(ttft for r in own if (ttft := r.ttft) is not None)),
        itl=tuple(sorted(itl for r in done if (itl := r.itl) is not None)),
        e2e=tuple(sorted(r.after for r in done)),
    )
