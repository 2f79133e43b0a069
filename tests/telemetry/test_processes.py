"""Several processes, whose numbers are added up from files."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from andante.errors import LineFull
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
from andante.telemetry.families import FAMILIES, FAMILY, Labels, check_buckets
from andante.telemetry.processes import Children
from andante.telemetry.prometheus import _native
from andante.values import Call, Cost, Ending, Outcome

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """
import os, sys
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, multiprocess
from prometheus_client.parser import text_string_to_metric_families
from andante.errors import LineFull
from andante.events import *
from andante.telemetry import PrometheusListener
from andante.values import Call, Cost, Ending, Outcome

to, call = PrometheusListener(), Call()
PrometheusListener()  # FC-59: twice is fine here as well

def several(n, inside, waiting):
    for i in range(n):
        to.on(Offered("llm", "chat", 0.0, call))
        to.on(Admitted("llm", "chat", 2.0, call, 2.0, True))
        to.on(First("llm", "chat", 3.0, call, 1.0))
        if i >= inside:
            to.on(Left("llm", "chat", 7.0, call, Outcome(Ending.DONE, 5.0, 1.0, 5.0, Cost(1, 700, 5)), 2.0))
    for i in range(waiting):
        to.on(Offered("llm", "chat", 0.0, call))
    for event in (
        Offered("llm", "chat", 0.0, call), Refused("llm", "chat", 0.0, call, LineFull(gate="pace"), 0.0, False),
        Offered("llm", "chat", 0.0, call), Withdrawn("llm", "chat", 1.0, call, 1.0),
        LimitChanged("llm", "", 0.0, "places", 8.0),
        SignalChanged("llm", "", 0.0, "gpu", "fresh" if inside else "stale"),
        LimitChanged("llm", "", 0.0, "places", float("nan")), Offered([], 7, 0.0, call), None,
    ):
        to.on(event)
    for i in range(300):
        to.on(Offered(f"user-{i}", "chat", 0.0, call))
        to.on(Withdrawn(f"user-{i}", "chat", 0.0, call, 0.0))

def shown():
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return list(text_string_to_metric_families(generate_latest(registry).decode()))
"""


def python(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER + code],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


READ = """
families = shown()
assert len({family.name for family in families}) == len(families)
for family in families:
    for sample in family.samples:
        if sample.labels["admission"] == "llm" and sample.labels.get("le", "+Inf") == "+Inf":
            labels = ",".join(value for key, value in sorted(sample.labels.items()) if key not in ("admission", "le"))
            print(sample.name, labels, sample.value, sep="|")
names = {s.labels["admission"] for family in families for s in family.samples}
print("names", len(names), sum(s.value for f in families if f.name == "andante_withdrawn" for s in f.samples), sep="|")
"""


def test_two_processes(tmp_path: Path) -> None:
    """Counters and histograms of two processes add up, live ones and dead; gauges are those of the living.

    Labels are bounded in each process, and no call is lost to that.
    """
    first = python("several(3, 1, 2); print('ready', flush=True); input()", tmp_path)
    second = python("several(4, 0, 1); print('ready', flush=True); input()", tmp_path)
    try:
        for worker in (first, second):
            assert worker.stdout is not None
            line = worker.stdout.readline()
            assert line == "ready\n", worker.communicate()[1]
        reader = python(READ, tmp_path)
        out, err = reader.communicate(timeout=60)
        assert reader.returncode == 0, err
        rows = {tuple(line.split("|")[:-1]): float(line.split("|")[-1]) for line in out.splitlines()}
        assert rows["andante_offered_total", "chat"] == 14
        assert rows["andante_started_total", "chat"] == 7
        assert rows["andante_calls_total", "done,chat"] == 6
        assert rows["andante_refused_total", "pace,line_full,chat"] == 2
        assert rows["andante_withdrawn_total", "chat"] == 2
        assert rows["andante_inside_calls", "chat"] == 1
        assert rows["andante_waiting_calls", "chat"] == 3
        assert rows["andante_gate_limit", "places"] == 16
        assert rows["andante_signal_fresh", "gpu"] == 0
        assert rows["andante_tokens_total", "input,chat"] == 4_200
        assert rows["andante_service_seconds_count", "done,chat"] == 6
        assert rows["andante_service_seconds_sum", "done,chat"] == 30
        assert rows["andante_queue_wait_seconds_sum", "admitted,chat"] == 14
        assert rows["andante_queue_wait_seconds_bucket", "admitted,chat"] == 7
        assert rows["andante_inter_token_seconds_sum", "chat"] == 6
        assert rows["andante_time_to_first_item_seconds_count", "chat"] == 7
        assert rows["names", "101"] == 602
        for worker in (first, second):
            worker.communicate("\n", timeout=60)
            assert worker.returncode == 0
        after = python(f"for pid in {first.pid}, {second.pid}: multiprocess.mark_process_dead(pid)" + READ, tmp_path)
        out, err = after.communicate(timeout=60)
        assert after.returncode == 0, err
        rows = {tuple(line.split("|")[:-1]): float(line.split("|")[-1]) for line in out.splitlines()}
        assert rows["andante_calls_total", "done,chat"] == 6
        assert ("andante_inside_calls", "chat") not in rows
        assert ("andante_gate_limit", "places") not in rows
    finally:
        for worker in (first, second):
            worker.kill()
            worker.communicate()


NAME, AT, CALL = st.sampled_from(["a", "b", "c"]), st.just(0.0), st.just(Call())
SECONDS = st.floats(0, 400)
COSTS = st.builds(Cost, input_tokens=st.integers(0, 99), output_tokens=st.integers(0, 9), cached_tokens=st.just(1))
OUTCOMES = st.builds(
    Outcome,
    ending=st.sampled_from(Ending),
    seconds=st.none() | SECONDS,
    ttft=st.none() | SECONDS,
    items=st.none() | st.integers(0, 9),
    cost=st.none() | COSTS,
)
REFUSALS = st.builds(LineFull, gate=st.none() | NAME)
EVENTS = st.one_of(
    st.builds(Offered, NAME, NAME, AT, CALL),
    st.builds(Waiting, NAME, NAME, AT, CALL, NAME),
    st.builds(Admitted, NAME, NAME, AT, CALL, SECONDS, st.booleans()),
    st.builds(First, NAME, NAME, AT, CALL, SECONDS),
    st.builds(Left, NAME, NAME, AT, CALL, OUTCOMES, SECONDS),
    st.builds(Refused, NAME, NAME, AT, CALL, REFUSALS, SECONDS, st.booleans()),
    st.builds(Withdrawn, NAME, NAME, AT, CALL, SECONDS),
    st.builds(LimitChanged, NAME, st.just(""), AT, NAME, st.floats()),
    st.builds(SignalChanged, NAME, st.just(""), AT, NAME, st.sampled_from(["fresh", "stale", "missing"])),
)


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Everything shown that is not 0, rounded, since sums are added up in another order."""
    return {
        (sample.name, *sample.labels.values()): round(sample.value, 6)
        for family in registry.collect()
        for sample in family.samples
        if sample.value and not sample.name.endswith("_created")
    }


@given(st.lists(EVENTS, max_size=40), st.integers(1, 3))
def test_both_ways_show_the_same(events: list[Event], max_names: int) -> None:
    """Whether numbers are kept here or in prometheus_client's metrics, the same events show the same."""
    here, there = CollectorRegistry(), CollectorRegistry()
    listener = PrometheusListener(here, max_names=max_names)
    buckets = check_buckets(None)
    metrics = {family.name: _native(family, "andante", there, buckets) for family in FAMILIES}
    children = Children(metrics, Labels(max_names), buckets)
    assert set(metrics) == set(FAMILY)
    for event in events:
        listener.on(event)
        if type(event) in children.handlers:
            children.handlers[type(event)](event)
    assert samples(here) == samples(there)


def test_name_taken_by_somebody_else(tmp_path: Path) -> None:
    """Nothing is left half registered: the error can be answered with another namespace, or by freeing the name."""
    code = """
from prometheus_client import Counter
registry = CollectorRegistry()
mine = Counter("taken_tokens", "Mine.", registry=registry)
for attempt in range(2):
    try: PrometheusListener(registry, namespace="taken")
    except ValueError as error: print(error)
registry.unregister(mine)
print(PrometheusListener(registry, namespace="taken"))
"""
    done = python(code, tmp_path)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert out.count("choose another namespace") == 2
    assert "<PrometheusListener 'taken' <Children of 0 series>>" in out
