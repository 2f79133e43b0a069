"""What is printed: within 100 columns, with the numbers that were measured, and Python that runs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import andante
from andante.calibrate import Bounds, Calibration, Effect, Level, Sample, Stop, Trouble
from andante.calibrate.report import as_json, as_text
from andante.calibrate.snippet import EndpointUse, FunctionUse, _up, snippet

USE = EndpointUse("http://host:8000/v1", "m", 64)


def level(n: int, rate: float, **more: Any) -> Level:
    values = tuple(rate * factor for factor in (0.95, 1.0, 1.0, 1.05))
    known: dict[str, Any] = {
        "calls": tuple(value / 10 for value in values),
        "tokens": values,
        "ttft": (0.1, 0.2),
        "itl": (0.01, 0.02),
        "seconds": (0.5, 1.5),
        "ended": 9,
    }
    return Level(n, **(known | more))


def measured(*visits: Level, stop: Stop | None = None, **bounds: Any) -> Calibration:
    done = Calibration("http://host:8000/v1", Bounds(**bounds), list(visits), stop)
    done.calls, done.seconds, done.prompt = 321, 43.2, 130.0
    return done


KNEE = measured(level(1, 100), level(2, 200), level(4, 210), stop=Stop("knee", "4 in flight brought +5 % over 2"))


def test_the_curve_and_the_pace() -> None:
    """A line for each number, longer bars for higher rates, the pace marked and said with its quartiles."""
    text = as_text(KNEE)
    lines = text.splitlines()
    assert all(len(line) <= 103 for line in lines), max(lines, key=len)
    rows = [line for line in lines if "█" in line]
    assert [int(row.split()[0]) for row in rows] == [1, 2, 4]
    assert rows[0].count("█") < rows[1].count("█") <= rows[2].count("█")
    assert [("◀" in row) for row in rows] == [False, True, False]
    assert "Natural pace: 2 in flight, 200 (198 to 202) tokens/s, 20 (19.8 to 20.2) calls/s" in text
    assert "first output 150 ms (p90 190 ms), gap 15 ms (p90 19 ms), whole call 1 s (p90 1.4 s)" in text
    assert "In brackets the quartiles of one visit" in text
    assert "Stopped: 4 in flight brought +5 % over 2." in text
    assert "321 calls in 43.2 s; 130 input tokens a call" in text
    plain = as_text(KNEE, blocks=False)
    assert plain.isascii()
    assert plain.count("\n") == text.count("\n")


def test_troubles_are_counted() -> None:
    """Calls that failed are told with what the server said, and how often."""
    pushed = level(4, 210, troubles=((Trouble("HTTP 429", "slow", Effect.PUSHBACK), 3), (Trouble("HTTP 500"), 1)))
    text = as_text(measured(level(2, 200), pushed, stop=Stop("pushback", "it said no")))
    assert "Failed: 4 calls." in text
    assert "    3 x HTTP 429: slow" in text
    assert "    1 x HTTP 500" in text


def test_drift_is_told() -> None:
    """A backend whose speed changed between visits of one number is told; visits that agree are not."""
    text = as_text(measured(level(1, 100), level(2, 150), level(1, 130), stop=Stop("seconds", "over")))
    assert "Visits of 1 in flight differ by 30 %" in text
    steady = measured(level(1, 100), level(2, 150), level(1, 105), stop=Stop("seconds", "over"))
    assert "differ" not in as_text(steady)
    assert as_json(steady)["drift"] == {"in_flight": 1, "ratio": pytest.approx(1.05)}
    assert as_json(KNEE)["drift"] is None


def test_nothing_found_and_interrupted() -> None:
    """Without a pace it says so and prints no Python; interrupted, what there is until then."""
    nothing = measured(stop=Stop("fatal", "the first call failed: HTTP 401"))
    nothing.probe = Sample(0.0, ended=1.0, trouble=Trouble("HTTP 401", effect=Effect.FATAL))
    text = as_text(nothing)
    assert "Natural pace: not found." in text
    assert "1 x HTTP 401" in text
    assert snippet(nothing, USE) is None
    part = measured(level(1, 100))
    assert "Interrupted: all calls were ended" in as_text(part)
    assert "Natural pace: 1 in flight" in as_text(part)


@given(
    st.lists(
        st.builds(
            Level,
            n=st.integers(1, 10_000),
            calls=st.lists(st.floats(0, 1e9), max_size=4).map(tuple),
            tokens=st.lists(st.floats(0, 1e9), max_size=4).map(tuple),
            ttft=st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
            itl=st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
            seconds=st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
        ),
        max_size=5,
    )
)
def test_any_measurement_can_be_told(visits: list[Level]) -> None:
    """Whatever was measured, there is a text, strict JSON and, where there is a pace, Python that parses."""
    done = measured(*visits)
    assert as_text(done)
    assert json.loads(json.dumps(as_json(done), allow_nan=False))["target"] == done.target
    for use in (USE, FunctionUse("m", "f", "0")):
        python = snippet(done, use)
        assert (python is None) == (done.pace is None)
        if python is not None:
            ast.parse(python)


def test_json() -> None:
    """All that the text says, and the bounds."""
    report = as_json(KNEE, "print()")
    assert report["pace"]["in_flight"] == 2
    assert report["pace"]["tokens_per_second"] == {"q1": 197.5, "median": 200.0, "q3": 202.5}
    assert report["pace"]["ttft"]["p90"] == pytest.approx(0.19)
    assert report["stop"]["reason"] == "knee"
    assert report["bounds"] == {
        "at_most": 64, "seconds": 60.0, "ttft": None, "itl": None, "rounds": 3, "timeout": 60.0,
    }  # fmt: skip
    assert [each["in_flight"] for each in report["levels"]] == [1, 2, 4]
    assert report["python"] == "print()"


def test_objectives_in_the_python() -> None:
    """Goals that were given stand there as they are; others are twice what nine in ten kept, rounded up."""
    python = snippet(KNEE, USE)
    assert python is not None
    assert 'ServiceClass("default", ttft=0.38, itl=0.038)' in python
    assert "Concurrency(2)" in python
    assert "NaturalPace()" in python
    own = snippet(measured(level(1, 100), level(2, 200), level(4, 201), itl=0.5), USE)
    assert own is not None
    assert 'ServiceClass("default", ttft=0.38, itl=0.5)' in own
    assert "Concurrency(4)" in own, "all that kept the objectives were tried and held"
    pushed = level(4, 210, troubles=((Trouble("HTTP 429", "slow", Effect.PUSHBACK), 1),))
    assert "Cooldown()" in str(snippet(measured(level(2, 200), pushed), USE))
    whole = snippet(measured(level(3, 30, ttft=(), itl=())), USE)
    assert whole is not None
    assert "NaturalPace" not in whole
    assert "Concurrency(3)" in whole
    assert "e2e=2.8" in whole


@given(st.floats(1e-6, 1e6))
def test_rounded_up_to_two_digits(value: float) -> None:
    """Never below the value, never more than a tenth above it; a millisecond at least."""
    assert value * (1 - 1e-5) <= _up(value) <= max(0.001, value * 1.1001)


FUNCTIONS = """
import asyncio
async def generator(prompt):
    for word in prompt.split():
        await asyncio.sleep(0)
        yield word
async def whole():
    return 42
class Client:
    async def stream(self, number):
        return generator(f"number {number}")
client = Client()
"""


@pytest.mark.parametrize(
    ("use", "streams", "printed"),
    [
        (FunctionUse("mine", "generator", '"one two"', generator=True), True, "one\ntwo\n"),
        (FunctionUse("mine", "client.stream", "0"), True, "number\n0\n"),
        (FunctionUse("mine", "whole"), False, "42\n"),
    ],
)
def test_the_python_runs(use: FunctionUse, streams: bool, printed: str, tmp_path: Path) -> None:
    """What is printed for a function is a program: it runs, and calls it."""
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    more: dict[str, Any] = {} if streams else {"ttft": (), "itl": ()}
    python = snippet(measured(level(3, 30, **more)), use)
    assert python is not None
    (tmp_path / "program.py").write_text(python)
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(andante.__file__).parents[1])},
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)
