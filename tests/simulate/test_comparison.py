"""The comparison of the demo: every policy on the same workload, and what is read off it."""

from __future__ import annotations

import builtins
from dataclasses import replace
from typing import Any

import pytest

from andante.errors import ConfigurationError
from andante.simulate.comparison import compare
from andante.simulate.scenario import demo_scenario
from andante.simulate.traces import Arrival, Trace, poisson

SMALL = replace(demo_scenario(), concurrencies=(16, 64), seconds=20.0)
TRACE = poisson(6.0, 60.0, seed=4)


def test_the_small_comparison() -> None:
    """Load is counted by the capacity measured for the trace; the sweep is half, once and twice the cap."""
    heard: list[str] = []
    result = compare(SMALL, trace=TRACE, watch=lambda what, share: heard.append(what))
    assert [each.kind for each in result.results] == ["none", *["semaphore"] * 3, "aiolimiter", "andante", "pace"]
    assert [each.parameter for each in result.results[1:4]] == [result.cap // 2, result.cap, 2 * result.cap]
    assert result.own_load == pytest.approx(2.0)
    assert result.trace.seconds == pytest.approx(20.0 / result.speed_up)
    assert all(each.score is not None and each.score.total.offered == len(result.trace) for each in result.results)
    values = {each.name: each.score.value for each in result.results if each.score}
    assert values[result.best_semaphore.name] == max(value for name, value in values.items() if "semaphore" in name)
    others = [value for name, value in values.items() if not name.startswith(("andante", "natural"))]
    assert values[result.best_other.name] == max(others)
    assert list(dict.fromkeys(heard)) == ["measuring the engine", *values]


def test_overload_is_where_control_pays() -> None:
    """At half the capacity all ways are alike; at twice, classes with objectives serve more value than any of them."""
    light = compare(SMALL.changed(load=0.5), trace=TRACE)
    assert all(each.score is not None and each.score.value > 0.98 for each in light.results)
    heavy = compare(SMALL.changed(load=2.0), trace=TRACE)
    assert heavy.andante.score is not None
    assert heavy.best_other.score is not None
    assert heavy.andante.score.value > heavy.best_other.score.value


def test_without_aiolimiter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is not installed the row says so, and the rest runs."""
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "aiolimiter":
            raise ModuleNotFoundError("No module named 'aiolimiter'", name="aiolimiter")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    result = compare(replace(SMALL, seconds=5.0), trace=TRACE)
    (row,) = [each for each in result.results if each.kind == "aiolimiter"]
    assert row.score is None
    assert row.why_not == "not run: aiolimiter is not installed"
    assert result.andante.score is not None


def test_calls_that_never_fit_are_left_out() -> None:
    """A call longer than the engine's KV cache is left out and counted; a trace of nothing else is an error."""
    long = Arrival(9.0, 400_000, 100_000)
    result = compare(replace(SMALL, seconds=9.5), trace=Trace([*TRACE.first(9.0), long], name="one too long"))
    assert result.left_out == 1
    with pytest.raises(ConfigurationError, match="0 of 1 calls"):
        compare(SMALL, trace=Trace([long]))
    with pytest.raises(ConfigurationError, match="longer than 0 s"):
        compare(SMALL, trace=Trace([Arrival(0.0, 10, 10)] * 3))
