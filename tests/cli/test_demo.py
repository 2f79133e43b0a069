"""`andante demo` on a small trace: the report, the JSON, and the two lines that are read off the results."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from andante.cli import demo_report, main
from andante.simulate.comparison import Comparison, Result, compare
from andante.simulate.scenario import demo_scenario
from andante.simulate.score import Score
from andante.simulate.traces import poisson

if TYPE_CHECKING:
    from pathlib import Path

NUMBER = (int, float)
MAYBE = (int, float, type(None))
CLASS_FIELDS = {
    "name": str, "offered": int, "met": int, "done": int, "refused": int, "left": int, "goodput": NUMBER,
    "ttft_p50": MAYBE, "ttft_p99": MAYBE, "itl_p50": MAYBE, "itl_p99": MAYBE, "e2e_p50": MAYBE, "e2e_p99": MAYBE,
    "refused_p50": MAYBE, "left_p50": MAYBE, "tokens": int, "wasted": NUMBER,
}  # fmt: skip
POLICY_FIELDS = {
    "name": str, "kind": str, "parameter": MAYBE, "why_not": (str, type(None)), "value": MAYBE, "total": dict,
    "classes": dict, "preemptions": int, "seconds": NUMBER,
}  # fmt: skip
SCENARIO_FIELDS = {
    "trace": str, "calls": int, "left_out": int, "seconds": NUMBER, "speed_up": NUMBER, "offered_rate": NUMBER,
    "profile": str, "load": NUMBER, "own_load": NUMBER, "seed": int, "classes": list,
}  # fmt: skip


def check(value: dict[str, Any], fields: dict[str, Any]) -> None:
    assert set(value) == set(fields)
    for name, kind in fields.items():
        assert isinstance(value[name], kind), (name, value[name])


@pytest.fixture
def small(tmp_path: Path) -> str:
    file = tmp_path / "small.csv"
    rows = [f"{a.at:.4f},{a.prompt_tokens},{a.output_tokens}" for a in poisson(6.0, 15.0, seed=4)]
    file.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")
    return str(file)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    scenario = replace(demo_scenario(), concurrencies=(16, 64), seconds=15.0)
    return compare(scenario, trace=poisson(6.0, 15.0, seed=4))


def test_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but JSON on stdout, with every field of the schema, and numbers that add up."""
    assert main(["demo", "--json", "--trace", small, "--load", "2", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert set(report) == {"scenario", "engine", "policies", "best_semaphore", "summary"}
    check(report["scenario"], SCENARIO_FIELDS)
    assert (report["scenario"]["load"], report["scenario"]["seed"]) == (2.0, 3)
    assert report["scenario"]["own_load"] == pytest.approx(2.0)
    check(report["engine"], {"capacity": NUMBER, "best_concurrency": int, "cap": int, "sweep": list})
    kinds = [policy["kind"] for policy in report["policies"]]
    assert kinds == ["none", *["semaphore"] * 3, "aiolimiter", "andante", "pace"]
    for policy in report["policies"]:
        check(policy, POLICY_FIELDS)
        assert list(policy["classes"]) == ["interactive", "standard", "batch"]
        for each in (policy["total"], *policy["classes"].values()):
            check(each, CLASS_FIELDS)
            assert each["offered"] == each["done"] + each["refused"] + each["left"]
            assert each["met"] <= each["done"]
        assert policy["total"]["offered"] == report["scenario"]["calls"]
        assert policy["total"]["met"] == sum(each["met"] for each in policy["classes"].values())
    assert len(report["summary"]) == 2
    assert "1/8 measuring the engine" in err
    assert "\x1b" not in err


def test_text(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table within 100 columns, without colours where there is no terminal, and two lines at the end."""
    assert main(["demo", "--trace", small]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(len(line) <= 100 for line in out.splitlines())
    table = [
        line.split()[0]
        for line in out.splitlines()
        if re.match(r"(no control|semaphore \d|aiolimiter|andante \d|natural pace)", line)
    ]
    assert table == ["no", "semaphore", "aiolimiter", "andante", "natural"]
    assert re.search(r"semaphore, value served: (\d+ places \d+ %( \(best\))?(, )?){3}\n", out)
    assert out.rstrip("\n").splitlines()[-1].startswith("Next: andante demo --load 0.5")


def test_the_seed_matters(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed prints the same; another seed gives other calls to the classes."""
    reports = []
    for seed in ("1", "1", "2"):
        assert main(["demo", "--json", "--trace", small, "--seed", seed]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    offered = [report["policies"][0]["classes"]["interactive"]["offered"] for report in reports]
    assert offered[0] != offered[2]


def test_colours_only_for_terminals(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours on a terminal that can and may; they change nothing else."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert demo_report.wants_colour(Terminal())
    assert not demo_report.wants_colour(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not demo_report.wants_colour(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not demo_report.wants_colour(Terminal())
    painted = demo_report.as_text(comparison, colour=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == demo_report.as_text(comparison)


def with_values(comparison: Comparison, mine: float, theirs: float) -> Comparison:
    """The comparison as it would be had andante served `mine` of the value, and the others `theirs`."""

    def changed(result: Result) -> Result:
        assert isinstance(result.score, Score)
        return replace(result, score=replace(result.score, value=mine if result.kind == "andante" else theirs))

    return replace(comparison, results=tuple(changed(result) for result in comparison.results))


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (0.6, 0.3, "andante served 2x the value of no control, next best"),
        (0.3, 0.6, "no control served 2x the value of andante"),
        (0.5, 0.505, "andante served as much value as no control"),
        (0.4, 0.0, "andante served 40 % of the value, the others next to nothing"),
        (0.0, 0.4, "no control did better"),
    ],
)
def test_the_last_lines_say_what_was_measured(comparison: Comparison, mine: float, theirs: float, said: str) -> None:
    """They are computed: a defeat is called one."""
    shows, _ = demo_report.summary(with_values(comparison, mine, theirs))
    assert shows.startswith(said)


def test_what_to_try_next(comparison: Comparison) -> None:
    """Below the capacity it proposes more load, above it less."""
    calm = replace(comparison, scenario=comparison.scenario.changed(load=0.5))
    assert "--load 2 " in demo_report.summary(calm)[1]
    assert "--load 0.5 " in demo_report.summary(comparison)[1]


def test_a_policy_that_could_not_run(comparison: Comparison) -> None:
    """Its row says why, in the table and in JSON."""
    results = tuple(
        replace(each, score=None, why_not="not run: aiolimiter is not installed") if each.kind == "aiolimiter" else each
        for each in comparison.results
    )
    partly = replace(comparison, results=results)
    assert "not run: aiolimiter is not installed" in demo_report.as_text(partly)
    (row,) = [each for each in demo_report.as_json(partly)["policies"] if each["kind"] == "aiolimiter"]
    assert row["value"] is None
    json.dumps(demo_report.as_json(partly), allow_nan=False)


@pytest.mark.slow
def test_the_packaged_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """`make demo` as it is: at twice the capacity andante serves at least twice the value of the best other way, and
    most interactive calls, which no other way does; and it serves more when it is told no number."""
    assert main(["demo", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    values = {policy["name"]: policy["value"] for policy in report["policies"]}
    found = values.pop("natural pace")
    mine = values.pop(f"andante {report['engine']['cap']}")
    assert found > mine > 2 * max(values.values())
    assert report["scenario"]["speed_up"] == pytest.approx(3.16, abs=0.005)
    reached = [policy["classes"]["interactive"]["goodput"] for policy in report["policies"]]
    assert min(reached[-2:]) > 0.7
    assert max(reached[:-2]) < 0.2
