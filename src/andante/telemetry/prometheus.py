"""Metrics for Prometheus. The only file that imports prometheus_client."""

from __future__ import annotations

import logging
import os
import re
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, cast

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PrometheusListener needs prometheus-client: pip install 'andante[prometheus]'", name=error.name
    ) from error

from andante.errors import ConfigurationError
from andante.telemetry.families import FAMILIES, MAX_NAMES, Family, Labels, check_buckets
from andante.telemetry.numbers import Numbers
from andante.telemetry.processes import Children

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from andante.events import Event
    from andante.telemetry.numbers import Spread

_log = logging.getLogger("andante")
_creating = Lock()

_Sink = Numbers | Children

_HOME = "_andante_families"
"""Where a registry keeps what was registered in it, by namespace. Kept there, and not in a table of this module, it
lives exactly as long as the registry, and is found again after this module has been loaded anew."""


class PrometheusListener:
    """Counts what an admission tells it: `Admission(..., listeners=[PrometheusListener()])`.

    Make as many as you like: those with the same registry and namespace add to the same metrics, and admissions differ
    by their label. One listener may serve many admissions; giving one admission two of the same registry counts twice.

    Labels are bounded: of every label the first `max_names` values are kept, later ones become "other". Tenants, keys,
    prompts and error texts are never labels.

    With the environment variable PROMETHEUS_MULTIPROC_DIR set when the first listener is made, numbers go to
    prometheus_client's files, for a `MultiProcessCollector` to add up; that takes tens of microseconds a call.

    Args:
        registry: a `prometheus_client.CollectorRegistry`; None: the package's own `REGISTRY`.
        namespace: what every name begins with.
        buckets: upper bounds in seconds by histogram, such as `{"service_seconds": [0.5, 1, 2]}`, for those that should
            not have the default. None: as registered already, else the default.
        max_names: distinct values of one label (default 100).

    Raises ConfigurationError for parameters that make no sense, that differ from those of an earlier listener with the
    same registry and namespace, or when somebody else has registered one of the names.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        namespace: str = "andante",
        buckets: Mapping[str, Sequence[float]] | None = None,
        max_names: int | None = None,
    ) -> None:
        registry = REGISTRY if registry is None else registry
        if not isinstance(registry, CollectorRegistry):
            raise ConfigurationError(
                f"registry must be a prometheus_client.CollectorRegistry, not {registry!r}", path="registry"
            )
        if not isinstance(namespace, str) or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", namespace):
            raise ConfigurationError(
                f"namespace must be letters, digits and underscores, not {namespace!r}", path="namespace"
            )
        self._namespace = namespace
        self._sink = _registered(registry, namespace, buckets, max_names)
        self._handlers = self._sink.handlers
        self._complained = False

    def on(self, event: Event) -> None:
        """Count `event`. Never raises; an event that cannot be read is reported once, in the log "andante"."""
        try:
            self._handlers[type(event)](event)
        except Exception as error:
            if type(event) in self._handlers and not self._complained:
                self._complained = True
                kind, event_name = type(error).__name__, type(event).__name__
                _log.warning("%r could not read a %s event (%s); further ones are not reported", self, event_name, kind)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._namespace!r} {self._sink!r}>"


class _Collector:
    """Shows the numbers of this process to a registry."""

    def __init__(self, numbers: Numbers, namespace: str) -> None:
        self._numbers = numbers
        self._namespace = namespace

    def describe(self) -> Iterator[Metric]:
        """Which names are taken."""
        for family in FAMILIES:
            yield _empty(family, self._namespace)

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        for family, rows in self._numbers.rows():
            metric = _empty(family, self._namespace)
            for labels, value in rows:
                if family.kind == "histogram":
                    spread = cast("Spread", value)
                    counts, total = spread.cumulative()
                    bounds = (*map(str, spread.bounds), "+Inf")
                    metric.add_metric(labels, list(zip(bounds, counts, strict=True)), total)
                else:
                    metric.add_metric(labels, cast("float", value))
            yield metric


def _empty(family: Family, namespace: str) -> Any:
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    return kinds[family.kind](f"{namespace}_{family.name}", family.help, labels=family.labels)


def _native(family: Family, namespace: str, registry: CollectorRegistry, buckets: Mapping[str, Sequence[float]]) -> Any:
    name = f"{namespace}_{family.name}"
    if family.kind == "counter":
        return Counter(name, family.help, family.labels, registry=registry)
    if family.kind == "gauge":
        mode: Literal["livemin", "livesum"] = "livemin" if family.name == "signal_fresh" else "livesum"
        return Gauge(name, family.help, family.labels, registry=registry, multiprocess_mode=mode)
    return Histogram(name, family.help, family.labels, registry=registry, buckets=buckets[family.name])


def _registered(
    registry: CollectorRegistry,
    namespace: str,
    buckets: Mapping[str, Sequence[float]] | None,
    max_names: int | None,
) -> _Sink:
    """The sink of this registry and namespace, made at the first request."""
    wanted = check_buckets(buckets)
    labels = Labels(MAX_NAMES if max_names is None else max_names)
    with _creating:
        homes: dict[str, Any] | None = getattr(registry, _HOME, None)
        if homes is None:
            homes = {}
            setattr(registry, _HOME, homes)
        sink = homes.get(namespace)
        if sink is None:
            made = homes[namespace] = _register(registry, namespace, wanted, labels)
            return made
        if not isinstance(sink, _Sink):
            sink = homes[namespace] = _taken_over(sink)
        if buckets is not None and sink.buckets != wanted:
            raise ConfigurationError(
                f"buckets differ from those that {namespace!r} has in this registry already; use the same, or another "
                "namespace",
                path="buckets",
            )
        if max_names is not None and sink.labels.max_names != max_names:
            raise ConfigurationError(
                f"max_names is {max_names}, but {namespace!r} has {sink.labels.max_names} in this registry already; "
                "use the same, or another namespace",
                path="max_names",
            )
        return sink


def _taken_over(sink: Any) -> Numbers | Children:
    """The numbers of `sink`, for events and endings as they are since the whole package was loaded anew."""
    again = Numbers.__new__(Numbers) if type(sink).__name__ == "Numbers" else Children.__new__(Children)
    again.__dict__.update(sink.__dict__)
    again.handlers = again.listen()
    return again


def _register(
    registry: CollectorRegistry, namespace: str, buckets: Mapping[str, Sequence[float]], labels: Labels
) -> _Sink:
    made: list[Any] = []
    try:
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ or "prometheus_multiproc_dir" in os.environ:
            for family in FAMILIES:
                made.append(_native(family, namespace, registry, buckets))
            return Children({f.name: metric for f, metric in zip(FAMILIES, made, strict=True)}, labels, buckets)
        numbers = Numbers(labels, buckets)
        registry.register(_Collector(numbers, namespace))
        return numbers
    except ValueError as error:
        for metric in made:  # some of the names may have been free
            registry.unregister(metric)
        raise ConfigurationError(
            f"somebody else has registered a metric of the namespace {namespace!r} ({error}); choose another namespace",
            path="namespace",
        ) from error
