"""`andante calibrate` as a command: it asks, it measures, it can be interrupted, and it tells what is wrong."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from andante.cli import main

if TYPE_CHECKING:
    from pathlib import Path

BACKEND = """
import asyncio
places = asyncio.Semaphore(2)
sent = 0
async def model(prompt):
    global sent
    sent += 1
    async with places:
        for _ in range(4):
            await asyncio.sleep(0.004)
            yield "word"
async def broken(index):
    raise ConnectionError("no model today")
def plain(index):
    return index
"""


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the working directory, new for each test."""
    name = f"backend_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BACKEND)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_json_of_a_function(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but JSON on stdout; progress and the cost beforehand on stderr; within the bounds."""
    argv = ["calibrate", f"{backend}:model", "--seconds", "1.5", "--at-most", "4", "--rounds", "1", "--json"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["pace"]["in_flight"] in {1, 2, 3, 4}
    assert report["seconds"] <= 1.6
    assert max(each["in_flight"] for each in report["levels"]) <= 4
    assert report["levels"][0]["ttft"]["p50"] > 0.003
    assert f"from {backend} import model" in report["python"]
    assert "one call took" in err
    assert "1 in flight" in err


def test_text_of_a_function(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The curve, the pace, and the Python."""
    assert main(["calibrate", f"{backend}:model", "--seconds", "0.6", "--at-most", "1", "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    assert "Natural pace: 1 in flight" in out
    assert "The Python that uses it:" in out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_asks_before_a_long_climb(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than ten seconds need a yes: on a terminal after the estimate, elsewhere with `--yes`, before any call."""
    argv = ["calibrate", f"{backend}:model", "--seconds", "30"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(argv) == 2
    assert "--yes" in capsys.readouterr().err
    assert sys.modules[backend].sent == 0
    for answer in ("n\n", "\n", ""):
        before = sys.modules[backend].sent
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        assert main(argv) == 1
        out, err = capsys.readouterr()
        assert not out
        assert "at most 30 s and 64 in flight, which is at most" in err
        assert "nothing more was sent" in err
        assert sys.modules[backend].sent == before + 1


def test_a_first_call_that_fails(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told, nothing more is sent, and the status is 1."""
    assert main(["calibrate", f"{backend}:broken", "--seconds", "5"]) == 1
    out = capsys.readouterr().out
    assert "the first call failed: ConnectionError: no model today" in out
    assert "1 call in" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "module:function"),
        ([":f"], "module:function"),
        (["no_such_module_here:f"], "no_such_module_here"),
        (["json:no_such"], "no 'no_such'"),
        (["json:decoder"], "not an async function"),
        (["json:dumps", "--at-most", "0"], "at_most"),
        (["json:dumps", "--seconds", "nan"], "seconds"),
        (["json:dumps", "--seconds", "-1"], "seconds"),
        (["json:dumps", "--itl", "0"], "itl"),
        (["json:dumps", "--at-most", "two"], "--at-most"),
        (["json:dumps", "--prompt-tokens", "0"], "--prompt-tokens"),
        (["json:dumps", "--model", "m"], "--model is for URLs"),
        (["ftp://host/v1"], "http://host:8000/v1"),
        (["http://host/v1", "--api-key-env", "NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE"),
        (["http://host/v1", "--header", "x"], "NAME:VALUE"),
        (["http://host/v1", "--body", "x=y"], "NAME=JSON"),
        ([], "URL"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr that names what is wrong, nothing sent, status 2."""
    if any(argument.startswith("http") for argument in arguments):
        pytest.importorskip("httpx")
    assert main(["calibrate", *arguments, "--yes"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert said in err


def test_without_httpx(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A URL needs the extra, and says which."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "andante.calibrate.endpoint", raising=False)
    assert main(["calibrate", "http://host/v1", "--yes"]) == 2
    assert "andante[calibrate]" in capsys.readouterr().err


def test_interrupted(backend: str, tmp_path: Path) -> None:
    """Ctrl-C: all calls are ended, what was measured until then is printed, status 130."""
    with subprocess.Popen(
        [sys.executable, "-m", "andante.cli", "calibrate", f"{backend}:model", "--seconds", "60", "--yes"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"2 in flight" in line:
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    text = out.decode()
    assert "Interrupted: all calls were ended" in text
    assert "Natural pace: " in text
