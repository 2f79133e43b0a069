"""The Prometheus listener, by what a scrape shows."""

from __future__ import annotations

import gc
import importlib
import logging
import subprocess
import sys
import weakref
from math import inf, nan
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from andante.errors import ConfigurationError, LineFull, Rejected
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
from andante.telemetry import PrometheusListener
from andante.telemetry.families import FAMILIES
from andante.values import Call, Cost, Ending, Outcome

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CALL = Call(tenant="customer-7", key="secret-key")

ONE_OF_EACH = [
    Offered("llm", "chat", 0.0, CALL),
    Waiting("llm", "chat", 0.0, CALL, "pace"),
    Admitted("llm", "chat", 2.0, CALL, 2.0, True),
    First("llm", "chat", 3.0, CALL, 1.0),
    Left("llm", "chat", 7.0, CALL, Outcome(Ending.DONE, 5.0, 1.0, 5.0, Cost(1, 700, 5)), 2.0),
    Offered("llm", "chat", 8.0, CALL),
    Refused("llm", "chat", 8.0, CALL, LineFull(gate="pace"), 0.0, False),
    Offered("llm", "chat", 8.0, CALL),
    Withdrawn("llm", "chat", 9.0, CALL, 1.0),
    LimitChanged("llm", "", 9.0, "places", 8.0),
    SignalChanged("llm", "", 9.0, "gpu", "stale"),
]


def scrape(registry: CollectorRegistry) -> dict[str, Metric]:
    """What a scrape shows, checked as promtool does: families once, histograms consistent, no row twice.

    The stricter OpenMetrics parser is asked as well: it refuses histograms that do not add up.
    """
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    for family in families:
        assert family.documentation
        rows = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(rows) == len(set(rows))
        if family.type == "histogram":
            check_histogram(family)
    strict = list(parse_openmetrics(openmetrics(registry).decode()))
    assert [family.name for family in strict] == [name for name in names if not name.endswith("_created")]
    return {family.name: family for family in families}


def check_histogram(family: Metric) -> None:
    buckets: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    counts: dict[tuple[Any, ...], float] = {}
    for sample in family.samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[labels] = sample.value
    for labels, cumulative in buckets.items():
        assert cumulative == sorted(cumulative)
        assert [n for _, n in cumulative] == sorted(n for _, n in cumulative)
        assert cumulative[-1] == (inf, counts[labels])


def listener(**options: Any) -> tuple[PrometheusListener, CollectorRegistry]:
    registry = CollectorRegistry()
    return PrometheusListener(registry, **options), registry


def tell(to: PrometheusListener, events: list[Event]) -> None:
    for event in events:
        to.on(event)


def test_everything_shown() -> None:
    """One of each event: every family occurs once, with the values that the events said, and no secret."""
    to, registry = listener()
    tell(to, ONE_OF_EACH)
    shown = scrape(registry)
    assert set(shown) == {f"andante_{family.name}" for family in FAMILIES}
    value = registry.get_sample_value
    chat = {"admission": "llm", "service": "chat"}
    assert value("andante_offered_total", chat) == 3
    assert value("andante_started_total", chat) == 1
    assert value("andante_withdrawn_total", chat) == 1
    assert value("andante_refused_total", {**chat, "reason": "line_full", "gate": "pace"}) == 1
    assert value("andante_calls_total", {**chat, "ending": "done"}) == 1
    assert value("andante_calls_total", {**chat, "ending": "overloaded"}) == 0
    assert value("andante_tokens_total", {**chat, "kind": "input"}) == 700
    assert value("andante_inside_calls", chat) == 0
    assert value("andante_waiting_calls", chat) == 0
    assert value("andante_gate_limit", {"admission": "llm", "gate": "places"}) == 8
    assert value("andante_signal_fresh", {"admission": "llm", "signal": "gpu"}) == 0
    text = generate_latest(registry).decode()
    assert "customer-7" not in text
    assert "secret-key" not in text


def test_right_times() -> None:
    """FC-61: queue wait, time to the first item, gaps and service time are separate and right to the millisecond.

    A call of 1 s; a stream of 5 s with its first item at 1 s that waited 2 s; a call that failed after 3 s and its
    retry; a cancelled one: each with its ending.
    """
    to, registry = listener()

    def call(waited: float, outcome: Outcome) -> None:
        tell(to, [Offered("a", "s", 0, CALL), Admitted("a", "s", 0, CALL, waited, waited > 0)])
        if outcome.ttft is not None:
            to.on(First("a", "s", 0, CALL, outcome.ttft))
        to.on(Left("a", "s", 0, CALL, outcome, waited))

    call(0.0, Outcome(Ending.DONE, 1.0, None, 0.0, Cost()))
    call(2.0, Outcome(Ending.DONE, 5.0, 1.0, 41.0, Cost()))
    call(0.0, Outcome(Ending.OVERLOADED, 3.0, None, 0.0, Cost()))
    call(0.0, Outcome(Ending.DONE, 1.0, None, 0.0, Cost()))
    call(0.5, Outcome(Ending.IGNORED, 0.25, None, 0.0, Cost()))

    def total(name: str, **labels: str) -> tuple[float | None, float | None]:
        labels |= {"admission": "a", "service": "s"}
        return registry.get_sample_value(f"{name}_sum", labels), registry.get_sample_value(f"{name}_count", labels)

    assert total("andante_service_seconds", ending="done") == (pytest.approx(7.0, abs=0.001), 3)
    assert total("andante_service_seconds", ending="overloaded") == (pytest.approx(3.0, abs=0.001), 1)
    assert total("andante_service_seconds", ending="ignored") == (pytest.approx(0.25, abs=0.001), 1)
    assert total("andante_queue_wait_seconds", result="admitted") == (pytest.approx(2.5, abs=0.001), 5)
    assert total("andante_time_to_first_item_seconds") == (pytest.approx(1.0, abs=0.001), 1)
    assert total("andante_inter_token_seconds") == (pytest.approx(0.1, abs=0.001), 1)
    scrape(registry)


def test_created_twice() -> None:
    """FC-59: listeners of one registry share the families; creating and dropping them changes nothing."""
    registry = CollectorRegistry()
    for _ in range(3):
        tell(PrometheusListener(registry), ONE_OF_EACH)
    gc.collect()
    again = PrometheusListener(registry, max_names=100, buckets={})
    assert len(scrape(registry)) == len(FAMILIES)
    assert registry.get_sample_value("andante_offered_total", {"admission": "llm", "service": "chat"}) == 9
    assert "1 classes" in repr(again)


def test_module_loaded_again() -> None:
    """FC-59: after reloading, and after forgetting and importing anew, the families are found again."""
    registry = CollectorRegistry()
    tell(PrometheusListener(registry), ONE_OF_EACH)
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "andante"}
    try:
        module = importlib.reload(sys.modules["andante.telemetry.prometheus"])
        tell(module.PrometheusListener(registry), ONE_OF_EACH)
        for name in before:
            del sys.modules[name]
        anew = importlib.import_module("andante.telemetry.prometheus")
        assert anew is not module
        events = importlib.import_module("andante.events")
        anew.PrometheusListener(registry).on(events.Offered("llm", "chat", 0.0, CALL))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "andante"]:
            del sys.modules[name]
        sys.modules.update(before)
    shown = scrape(registry)
    assert len(shown) == len(FAMILIES)
    assert registry.get_sample_value("andante_offered_total", {"admission": "llm", "service": "chat"}) == 7


def test_registries_are_separate() -> None:
    """A registry of one's own is honoured, and takes its numbers with it when it goes."""
    first, registry = listener()
    _, other = listener()
    tell(first, ONE_OF_EACH)
    labels = {"admission": "llm", "service": "chat"}
    assert registry.get_sample_value("andante_offered_total", labels) == 3
    assert other.get_sample_value("andante_offered_total", labels) is None
    alive = weakref.ref(registry)
    del first, registry
    gc.collect()
    assert alive() is None


def test_default_registry() -> None:
    """Without a registry the package's own is used, twice without a complaint."""
    code = """
from prometheus_client import REGISTRY, generate_latest
from andante.telemetry import PrometheusListener
PrometheusListener(); PrometheusListener(); PrometheusListener(REGISTRY)
print(generate_latest().decode().count("# TYPE andante_offered_total counter"))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_namespaces() -> None:
    """Two namespaces in one registry stand side by side."""
    first, registry = listener()
    second = PrometheusListener(registry, namespace="pace", buckets={"service_seconds": [1.0]}, max_names=5)
    tell(first, ONE_OF_EACH)
    tell(second, ONE_OF_EACH)
    shown = scrape(registry)
    assert len(shown) == 2 * len(FAMILIES)
    bounds = {s.labels["le"] for s in shown["pace_service_seconds"].samples if "le" in s.labels}
    assert bounds == {"1.0", "+Inf"}


def test_options_that_differ() -> None:
    """Another listener's buckets or bound cannot be changed behind its back."""
    _, registry = listener(buckets={"service_seconds": [1, 2]}, max_names=10)
    PrometheusListener(registry)
    PrometheusListener(registry, buckets={"service_seconds": [1.0, 2.0]}, max_names=10)
    with pytest.raises(ConfigurationError, match="buckets differ"):
        PrometheusListener(registry, buckets={"service_seconds": [1, 3]})
    with pytest.raises(ConfigurationError, match="max_names is 11") as caught:
        PrometheusListener(registry, max_names=11)
    assert caught.value.path == "max_names"


@pytest.mark.parametrize("namespace", ["", "9a", "a-b", "a b", "ä", None, 7, "a\n"])
def test_bad_namespace(namespace: object) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        PrometheusListener(CollectorRegistry(), namespace=namespace)  # type: ignore[arg-type]


def test_bad_registry() -> None:
    with pytest.raises(ConfigurationError, match="registry"):
        PrometheusListener("default")  # type: ignore[arg-type]


def test_name_taken_by_somebody_else() -> None:
    """A foreign metric of the same name is left alone, and the error says what to do; nothing is half registered."""
    registry = CollectorRegistry()
    Counter("andante_offered", "Mine.", registry=registry)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="choose another namespace"):
            PrometheusListener(registry)
    PrometheusListener(registry, namespace="pace")
    assert {f"pace_{family.name}" for family in FAMILIES} < set(scrape(registry))


def held_by(root: object) -> int:
    """The bytes of all objects that can be reached from `root`, less code and what the code knows."""
    seen: dict[int, object] = {}
    ahead = [root]
    while ahead:
        item = ahead.pop()
        if id(item) not in seen and not isinstance(item, (type, ModuleType, FunctionType, BuiltinFunctionType)):
            seen[id(item)] = item
            ahead += gc.get_referents(item)
    return sum(sys.getsizeof(item) for item in seen.values())


@pytest.mark.slow
def test_unbounded_names_stay_bounded() -> None:
    """FC-60: after the first names, series and memory are flat over 100,000 distinct ones, and no call is lost."""
    to, registry = listener()

    def calls(start: int, stop: int) -> None:
        for i in range(start, stop):
            call, name = Call(key=i, tenant=f"user-{i}"), f"model-{i}"
            to.on(Offered(name, name, 0, call))
            if i % 2:
                to.on(Refused(name, name, 0, call, Rejected(f"text {i}", gate=name), 0.0, False))
            else:
                to.on(Admitted(name, name, 0, call, 0.0, False))
                to.on(Left(name, name, 0, call, Outcome(Ending.DONE, 1.0, None, 0, Cost()), 0.0))
            if i < 5_000:
                to.on(LimitChanged(name, "", 0, name, i))
                to.on(SignalChanged(name, "", 0, name, "fresh"))

    def rows() -> int:
        return sum(len(family.samples) for family in registry.collect())

    calls(0, 1_000)
    first, bytes_then = rows(), held_by(to)
    calls(1_000, 101_000)
    assert rows() == first
    assert held_by(to) < bytes_then + 1_000, "100,000 further names take no memory"
    shown = scrape(registry)
    assert sum(s.value for s in shown["andante_offered"].samples) == 101_000
    assert sum(s.value for s in shown["andante_refused"].samples) == 50_500
    assert sum(s.value for s in shown["andante_inside_calls"].samples) == 0
    assert sum(s.value for s in shown["andante_waiting_calls"].samples) == 0


class Nonsense:
    """Every attribute is missing but the names."""

    def __init__(self, admission: object = "a", service: object = "s") -> None:
        self.admission = admission
        self.service = service


ODD = [
    Admitted("a", "s", 0, CALL, "soon", False),  # type: ignore[arg-type]
    Admitted("a", "s", 0, CALL, None, False),  # type: ignore[arg-type]
    Admitted("a", "s", 0, CALL, nan, False),
    Admitted("a", "s", 0, CALL, inf, False),
    Admitted("a", "s", 0, CALL, -1.0, False),
    First("a", "s", 0, CALL, nan),
    First("a", "s", 0, CALL, -1),
    First("a", "s", 0, CALL, None),  # type: ignore[arg-type]
    Left("a", "s", 0, CALL, None, 0),  # type: ignore[arg-type]
    Left("a", "s", 0, CALL, Outcome(None, nan, nan, nan, None), 0),  # type: ignore[arg-type]
    Left("a", "s", 0, CALL, Outcome(Ending.DONE, -1, -1, -1, "cost"), 0),  # type: ignore[arg-type]
    Left("a", "s", 0, CALL, Outcome(Ending.DONE, 10**400, 0, 10**400, Cost()), 0),
    Refused("a", "s", 0, CALL, ValueError("no"), 0, False),  # type: ignore[arg-type]
    Refused("a", "s", 0, CALL, None, nan, False),  # type: ignore[arg-type]
    LimitChanged("a", "", 0, "g", nan),
    LimitChanged("a", "", 0, "g", "many"),  # type: ignore[arg-type]
    SignalChanged("a", "", 0, None, None),  # type: ignore[arg-type]
    Offered([], {}, 0, CALL),  # type: ignore[arg-type]
    Offered(None, 7, 0, CALL),  # type: ignore[arg-type]
    Offered("half \ud800", '\n"\\', 0, CALL),
    Withdrawn("a", "s", None, None, "x"),  # type: ignore[arg-type]
    None,
    7,
    Nonsense(),
]


def test_odd_events(caplog: pytest.LogCaptureFixture) -> None:
    """No event raises, however odd; it is reported once, without its values; and what is shown stays readable."""
    to, registry = listener()
    with caplog.at_level(logging.DEBUG):
        for event in ODD:
            to.on(event)  # type: ignore[arg-type]
    assert [record.name for record in caplog.records] == ["andante"]
    assert "Admitted" in caplog.text
    assert "soon" not in caplog.text
    for family in scrape(registry).values():
        for sample in family.samples:
            assert sample.value == sample.value, sample  # no NaN
    tell(to, ONE_OF_EACH)
    assert registry.get_sample_value("andante_offered_total", {"admission": "llm", "service": "chat"}) == 3


def test_restricted_scrape() -> None:
    """A scrape that names its metrics gets the same numbers."""
    to, registry = listener()
    tell(to, ONE_OF_EACH)
    text = generate_latest(registry.restricted_registry(["andante_calls_total"])).decode()  # type: ignore[arg-type]
    assert 'andante_calls_total{admission="llm",ending="done",service="chat"} 1.0' in text
    assert "andante_offered" not in text
