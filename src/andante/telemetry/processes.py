"""The same numbers in prometheus_client's own metrics: for several processes, whose files a collector adds up."""

from __future__ import annotations

from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any

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
from andante.telemetry.families import FAMILY, OTHER
from andante.telemetry.numbers import mean_gap, nothing_to_count
from andante.values import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from andante.telemetry.families import Labels


class Children:
    """Takes events and passes them on to labelled metrics, one for each family of `FAMILIES`.

    Attributes:
        handlers: what to call with an event, by its exact type.
    """

    def __init__(self, metrics: Mapping[str, Any], labels: Labels, buckets: Mapping[str, Sequence[float]]) -> None:
        self.labels = labels
        self.buckets = buckets
        self._metrics = metrics
        self._children: dict[tuple[str, ...], Any] = {}
        self._classes: dict[tuple[str, ...], tuple[str, ...]] = {}  # those whose names were not too many
        self._lock = RLock()
        self.handlers = self.listen()

    def listen(self) -> dict[type[Event], Callable[[Any], None]]:
        """The handlers, made for the event types that this module knows."""
        return {
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

    def _class(self, event: Event) -> tuple[str, ...]:
        names = (event.admission, event.service)
        labels = self._classes.get(names)
        if labels is None:
            labels = self._bounded("offered", *names)
            if labels == names:
                self._classes[names] = labels
        return labels

    def _bounded(self, family: str, *names: str) -> tuple[str, ...]:
        with self._lock:
            return self.labels.bounded(FAMILY[family], *names)

    def _child(self, family: str, *labels: str) -> Any:
        """The metric with these labels, which are bounded already."""
        key = (family, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._metrics[family].labels(*labels)
        return child

    def _observe(self, amount: float | None, family: str, *labels: str) -> None:
        if amount is not None and 0.0 <= amount < inf:
            self._child(family, *labels).observe(amount)

    def _offered(self, event: Offered) -> None:
        labels = self._class(event)
        self._child("offered", *labels).inc()
        self._child("waiting_calls", *labels).inc()

    def _admitted(self, event: Admitted) -> None:
        labels = self._class(event)
        self._child("waiting_calls", *labels).dec()
        self._child("started", *labels).inc()
        self._child("inside_calls", *labels).inc()
        self._observe(event.waited, "queue_wait_seconds", *labels, "admitted")

    def _first(self, event: First) -> None:
        self._observe(event.ttft, "time_to_first_item_seconds", *self._class(event))

    def _left(self, event: Left) -> None:
        labels = self._class(event)
        outcome = event.outcome
        ending = outcome.ending.value if isinstance(outcome.ending, Ending) else Ending.IGNORED.value
        self._child("inside_calls", *labels).dec()
        self._child("calls", *labels, ending).inc()
        self._observe(outcome.seconds, "service_seconds", *labels, ending)
        cost = outcome.cost
        if cost is not None and 0.0 < cost.input_tokens + cost.output_tokens < inf:
            self._child("tokens", *labels, "input").inc(cost.input_tokens)
            self._child("tokens", *labels, "output").inc(cost.output_tokens)
            self._child("tokens", *labels, "cached").inc(cost.cached_tokens)
        self._observe(mean_gap(outcome), "inter_token_seconds", *labels)

    def _refuse(self, event: Refused) -> None:
        labels = self._class(event)
        reason = self._bounded("refused", *labels, event.error.reason, event.error.gate or "")
        self._child("waiting_calls", *labels).dec()
        self._child("refused", *reason).inc()
        self._observe(event.waited, "queue_wait_seconds", *labels, "refused")

    def _withdrawn(self, event: Withdrawn) -> None:
        labels = self._class(event)
        self._child("waiting_calls", *labels).dec()
        self._child("withdrawn", *labels).inc()
        self._observe(event.waited, "queue_wait_seconds", *labels, "withdrawn")

    def _limit(self, event: LimitChanged) -> None:
        labels = self._bounded("gate_limit", event.admission, event.gate)
        if OTHER not in labels and event.limit >= 0:  # one gauge cannot show the limits of several gates
            self._child("gate_limit", *labels).set(event.limit)

    def _signal(self, event: SignalChanged) -> None:
        labels = self._bounded("signal_fresh", event.admission, event.signal)
        if OTHER not in labels:
            self._child("signal_fresh", *labels).set(float(event.state == "fresh"))

    def __repr__(self) -> str:
        return f"<Children of {len(self._children)} series>"
