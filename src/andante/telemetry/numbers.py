"""The numbers behind the metrics, kept in this process and added up only when somebody asks for them.

Counting here rather than in a metrics library keeps the hot path short: a few additions an event. The
gauges cost a call nothing, since by law 1 they are differences of counts.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from math import inf
from threading import RLock
from typing import TYPE_CHECKING

from andante.events import (
    Admitted,
    Event,
    First,
    Left,
    LimitChanged,
    Offered,
    Refused,
    SignalChanged,
    Waiting,
    Withdrawn,
)
from andante.telemetry.families import FAMILIES, FAMILY, OTHER, Family
from andante.values import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from andante.telemetry.families import Labels
    from andante.values import Outcome

# Admissions of several threads may share a name, and with it these numbers. Where a global interpreter lock is, CPython
# switches threads between function calls and jumps only, never inside `series.started += 1`; a lock of our own, which
# would cost a call as much again as all its additions, is taken where that is not so.
_ADDS_IN_ONE_GO = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()

_DONE, _OVERLOADED = Ending.DONE, Ending.OVERLOADED


class Spread:
    """A histogram: how many observations fell at or below each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """One observation, finite and >= 0."""
        self.counts[bisect_left(self.bounds, amount)] += 1
        self.total += amount

    def cumulative(self) -> tuple[list[int], float]:
        """For each bound, and for infinity, how many observations are not above it; and the sum of all."""
        running, summed = 0, []
        for count in self.counts.copy():
            running += count
            summed.append(running)
        return summed, self.total

    def __repr__(self) -> str:
        return f"<Spread of {sum(self.counts)}, sum {self.total:g}>"


Row = tuple[tuple[str, ...], float | Spread]


class Series:
    """The numbers of one service class of one admission."""

    __slots__ = (
        "admitted_after", "cached", "done", "done_in", "first_in", "gaps", "ignored", "ignored_in", "input", "offered",
        "output", "overloaded", "overloaded_in", "refused", "refused_after", "started", "withdrawn", "withdrawn_after",
    )  # fmt: skip

    def __init__(self, buckets: Mapping[str, Sequence[float]]) -> None:
        self.offered = self.started = self.refused = self.withdrawn = 0
        self.done = self.overloaded = self.ignored = 0
        self.input = self.output = self.cached = 0.0
        waits, times = buckets["queue_wait_seconds"], buckets["service_seconds"]
        self.admitted_after, self.refused_after, self.withdrawn_after = Spread(waits), Spread(waits), Spread(waits)
        self.done_in, self.overloaded_in, self.ignored_in = Spread(times), Spread(times), Spread(times)
        self.first_in = Spread(buckets["time_to_first_item_seconds"])
        self.gaps = Spread(buckets["inter_token_seconds"])

    def rows(self) -> Iterator[tuple[str, tuple[str, ...], float | Spread]]:
        """(family, last label where it has one more, value).

        Read against the flow of calls, so that a difference taken while a call passes is never below 0.
        """
        done, overloaded, ignored = self.done, self.overloaded, self.ignored
        started, refused, withdrawn = self.started, self.refused, self.withdrawn
        offered = self.offered
        yield "offered", (), offered
        yield "started", (), started
        yield "withdrawn", (), withdrawn
        yield "calls", ("done",), done
        yield "calls", ("overloaded",), overloaded
        yield "calls", ("ignored",), ignored
        yield "inside_calls", (), started - done - overloaded - ignored
        yield "waiting_calls", (), offered - started - refused - withdrawn
        yield "tokens", ("input",), self.input
        yield "tokens", ("output",), self.output
        yield "tokens", ("cached",), self.cached
        for family, last, spread in (
            ("queue_wait_seconds", ("admitted",), self.admitted_after),
            ("queue_wait_seconds", ("refused",), self.refused_after),
            ("queue_wait_seconds", ("withdrawn",), self.withdrawn_after),
            ("time_to_first_item_seconds", (), self.first_in),
            ("inter_token_seconds", (), self.gaps),
            ("service_seconds", ("done",), self.done_in),
            ("service_seconds", ("overloaded",), self.overloaded_in),
            ("service_seconds", ("ignored",), self.ignored_in),
        ):
            if any(spread.counts):
                yield family, last, spread

    def __repr__(self) -> str:
        inside = self.started - self.done - self.overloaded - self.ignored
        waiting = self.offered - self.started - self.refused - self.withdrawn
        return f"<Series {self.offered} offered, {inside} inside, {waiting} waiting>"


class Numbers:
    """Takes events, keeps numbers, gives rows.

    Attributes:
        handlers: what to call with an event, by its exact type.
    """

    def __init__(self, labels: Labels, buckets: Mapping[str, Sequence[float]]) -> None:
        self.labels = labels
        self.buckets = buckets
        self._series: dict[tuple[str, ...], Series] = {}
        self._refused: dict[tuple[str, ...], int] = {}
        self._limits: dict[tuple[str, ...], float] = {}
        self._signals: dict[tuple[str, ...], float] = {}
        # Reentrant: the collector of garbage may close a forgotten permit while this very thread holds it.
        self._lock = RLock()
        self.handlers = self.listen()

    def listen(self) -> dict[type[Event], Callable[[Any], None]]:
        """The handlers, made for the event types that this module knows."""
        handlers: dict[type[Event], Callable[[Any], None]] = {
            Offered: self._offered,
            Waiting: nothing_to_count,
            Admitted: self._admitted,
            First: self._first,
            Left: self._left,
            Refused: self._refuse,
            Withdrawn: self._withdrawn,
            LimitChanged: self._limit,
            SignalChanged: self._signal,
        }
        return handlers if _ADDS_IN_ONE_GO else {kind: self._locked(handle) for kind, handle in handlers.items()}

    def _locked(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        def locked(event: Any) -> None:
            with self._lock:
                handle(event)

        return locked

    def rows(self) -> Iterator[tuple[Family, list[Row]]]:
        """Every family with its rows: label values in the family's order, and a number or a histogram."""
        rows: dict[str, list[Row]] = {family.name: [] for family in FAMILIES}
        for names, series in list(self._series.items()):
            for name, last, value in series.rows():
                rows[name].append((names + last, value))
        rows["refused"] += list(self._refused.items())
        rows["gate_limit"] += list(self._limits.items())
        rows["signal_fresh"] += list(self._signals.items())
        for family in FAMILIES:
            yield family, rows[family.name]

    def _add(self, event: Event) -> Series:
        """The series of a name that is seen for the first time, or once more after there were too many."""
        with self._lock:
            names = self.labels.bounded(FAMILY["offered"], event.admission, event.service)
            series = self._series.get(names)
            if series is None:
                series = self._series[names] = Series(self.buckets)
            return series

    def _offered(self, event: Offered) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        series.offered += 1

    def _admitted(self, event: Admitted) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        waited = event.waited
        series.started += 1
        if 0.0 <= waited < inf:
            series.admitted_after.observe(waited)

    def _first(self, event: First) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        ttft = event.ttft
        if 0.0 <= ttft < inf:
            series.first_in.observe(ttft)

    def _left(self, event: Left) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        outcome = event.outcome
        ending, seconds = outcome.ending, outcome.seconds
        if ending is _DONE:
            series.done += 1
            times = series.done_in
        elif ending is _OVERLOADED:
            series.overloaded += 1
            times = series.overloaded_in
        else:
            series.ignored += 1
            times = series.ignored_in
        if seconds is not None and 0.0 <= seconds < inf:
            times.observe(seconds)
        cost = outcome.cost
        if cost is not None:
            tokens_in, tokens_out = cost.input_tokens, cost.output_tokens
            if 0.0 < tokens_in + tokens_out < inf:
                series.input += tokens_in
                series.output += tokens_out
                series.cached += cost.cached_tokens
        if outcome.ttft is not None:
            gap = mean_gap(outcome)
            if gap is not None:
                series.gaps.observe(gap)

    def _refuse(self, event: Refused) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        key = (event.admission, event.service, event.error.reason, event.error.gate or "")
        waited = event.waited
        with self._lock:
            series.refused += 1
            if key not in self._refused:
                key = self.labels.bounded(FAMILY["refused"], *key)  # type: ignore[assignment]
            self._refused[key] = self._refused.get(key, 0) + 1
            if 0.0 <= waited < inf:
                series.refused_after.observe(waited)

    def _withdrawn(self, event: Withdrawn) -> None:
        series = self._series.get((event.admission, event.service)) or self._add(event)
        waited = event.waited
        series.withdrawn += 1
        if 0.0 <= waited < inf:
            series.withdrawn_after.observe(waited)

    def _limit(self, event: LimitChanged) -> None:
        with self._lock:
            key = self.labels.bounded(FAMILY["gate_limit"], event.admission, event.gate)
            if OTHER not in key and event.limit >= 0:  # one gauge cannot show the limits of several gates
                self._limits[key] = event.limit

    def _signal(self, event: SignalChanged) -> None:
        with self._lock:
            key = self.labels.bounded(FAMILY["signal_fresh"], event.admission, event.signal)
            if OTHER not in key:
                self._signals[key] = float(event.state == "fresh")

    def __repr__(self) -> str:
        return f"<Numbers of {len(self._series)} classes>"


def mean_gap(outcome: Outcome) -> float | None:
    """Mean seconds between the items of one call; None where there are none, or where they say nothing."""
    seconds, ttft, items = outcome.seconds, outcome.ttft, outcome.items
    if seconds is None or ttft is None or items is None or not 1 < items < inf or outcome.ending is Ending.IGNORED:
        return None
    gap = (seconds - ttft) / (items - 1)
    return gap if 0.0 <= gap < inf else None


def nothing_to_count(event: Event) -> None:
    """What `Waiting` tells is known already: who is offered and undecided waits."""
