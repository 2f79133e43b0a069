"""`andante simulate`: own policies on an own trace, what is printed, the page, and what is said of mistakes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from andante.cli import main
from andante.simulate import campaign
from andante.simulate.traces import poisson

SRC = Path(__file__).parents[2] / "src"
SMALL = ["--profile", "rtx4090-8b"]  # serves fewer calls, which takes less time
FAST = ["--seeds", "1", "--jobs", "1", *SMALL]

MINE = """
from andante import Concurrency

def policy_a(classes):
    return Concurrency(8)

def policy_b(classes):
    return [Concurrency(64)]

def broken(classes):
    raise LookupError("no plan")
"""


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CONCURRENCIES", (16, 128))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with policies and a trace, as the current one."""
    (tmp_path / "mine.py").write_text(MINE)
    rows = [f"{a.at:.4f},{a.prompt_tokens},{a.output_tokens}" for a in poisson(8.0, 20.0, seed=4)]
    (tmp_path / "mine.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


def test_what_if_of_ones_own(here: Path) -> None:
    """`andante simulate --compare mine:policy_a mine:policy_b --trace mine.csv`, typed as it stands, in a directory
    with these two files: it says which of the two serves more of one's own calls."""
    command = "simulate --compare mine:policy_a mine:policy_b --trace mine.csv"
    # As the installed command does it: without -m Python does not look into the current directory by itself.
    program = "import sys; sys.path.remove(''); from andante.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *shlex.split(command)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    rows = re.findall(r"^  (mine:policy_[ab]) +([\d.]+) ± [\d.]+$", done.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == ["mine:policy_a", "mine:policy_b"]
    assert rows[0][1] != rows[1][1]
    for word in ("interactive", "standard", "batch", "TTFT", "ITL", "refused %", "wasted %", "fair: sizes"):
        assert word in done.stdout
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["mine.csv", "mine.py"]


def test_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but JSON on stdout: every cell, numbers that add up, and the same again for the same seeds."""
    command = [
        "simulate",
        "--compare",
        "mine:policy_a",
        "none",
        "--load",
        "0.5",
        "2",
        "--json",
        "--seconds",
        "20",
        *SMALL,
    ]
    assert main([*command, "--seeds", "1", "2", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["policies"] == ["mine:policy_a", "none"]
    assert (report["loads"], report["seeds"]) == ([0.5, 2.0], [1, 2])
    assert len(report["cells"]) == 8
    for cell in report["cells"]:
        total = cell["total"]
        assert total["offered"] == total["done"] + total["refused"] + total["left"]
        assert total["met"] == sum(each["met"] for each in cell["classes"].values())
        assert set(cell["classes"]["interactive"]["fairness"]) == {"sizes", "tenants"}
        assert cell["settled"] == []
    goodputs = [c["goodput"] for c in report["cells"] if c["policy"] == "none" and c["load"] == 2.0]
    told = report["goodput"]["none"][1]
    assert (told["least"], told["most"]) == (min(goodputs), max(goodputs))
    assert told["mean"] == pytest.approx(sum(goodputs) / 2)
    assert "1/9 measuring the engine" in err
    assert "9/9 none, load 2, seed 2" in err
    assert main([*command, "--seeds", "1", "2", "--jobs", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == report


def test_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written where it was asked for, and the foot has the command with everything that was taken for granted."""
    assert (
        main(["simulate", "--compare", "mine:policy_a", "--seconds", "10", "--load", "1", "--html", "r.html", *FAST])
        == 0
    )
    assert "Plots: r.html" in capsys.readouterr().out
    page = (here / "r.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert (
        "<pre>andante simulate --profile rtx4090-8b --shape poisson --seconds 10 --load 1 --seeds 1 --mix chat "
        "--compare mine:policy_a</pre>"
    ) in page


def test_classes_and_shape(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Own classes, and a shape: settling is shown where the load steps."""
    (here / "c.toml").write_text(
        '[[classes]]\nname = "only"\nshare = 1\ne2e = 20.0\nprompt = [50, 0.5]\noutput = [20, 0.5]\n'
    )
    command = ["simulate", "--compare", "static:4", "--classes", "c.toml", "--shape", "steps", "--seconds", "130"]
    assert main([*command, "--load", "0.05", *FAST]) == 0
    out = capsys.readouterr().out
    assert "only, load 0.05" in out
    assert "settled s" in out
    assert "interactive" not in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--compare", "--compare"),
        ("--compare nope", "no policy 'nope'"),
        ("--compare absent:f", "no module 'absent'"),
        ("--compare mine:absent", "mine has no function 'absent'"),
        ("--compare mine:broken", "policy mine:broken: LookupError: no plan (mine.py, line 11)"),
        ("--compare none none", "'none' is there twice"),
        ("--load 0", "finite number above 0, not '0'"),
        ("--load nan", "finite number above 0"),
        ("--load inf", "finite number above 0"),
        ("--seconds -1", "finite number above 0"),
        ("--seconds soon", "finite number above 0"),
        ("--seeds", "--seeds"),
        ("--seeds 1.5", "--seeds"),
        ("--seeds 1 1", "is there twice"),
        ("--jobs 0", "whole number above 0"),
        ("--jobs -2", "--jobs"),
        ("--shape wavy", "--shape"),
        ("--profile b200", "no engine profile 'b200'"),
        ("--mix soup", "no mix 'soup'"),
        ("--classes absent.toml", "cannot read absent.toml"),
        ("--classes c.toml --mix chat", "not allowed with"),
        ("--trace absent.csv", "absent.csv: No such file"),
        ("--trace bad.csv", "bad.csv, line 3: prompt_tokens"),
        ("--trace mine.csv --shape ramp", "a trace has a shape of its own"),
        ("--html absent/r.html", "cannot write absent/r.html"),
        ("--html .", "is a directory"),
    ],
)
def test_mistakes(here: Path, options: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, nothing on stdout, one line that names what is wrong, before anything runs."""
    (here / "bad.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,-5,1\n")
    assert main(["simulate", *shlex.split(options)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert said in err
    assert err.count("\n") == 1, "no progress, no traceback"


def test_the_path_is_left_as_it_was(here: Path) -> None:
    """Modules of the current directory are found while the command runs, not afterwards."""
    before = list(sys.path)
    assert main(["simulate", "--compare", "mine:policy_a", "--seconds", "5", "--load", "1", *FAST]) == 0
    assert sys.path == before


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals to a group")
def test_ctrl_c_leaves_no_mess(here: Path) -> None:
    """A terminal sends Ctrl-C to all processes at once: one line, status 130, no process and no file remain."""
    command = "simulate --compare none static:8 --load 3 --seconds 3000 --jobs 2 --html r.html"
    with subprocess.Popen(
        [sys.executable, "-m", "andante.cli", *shlex.split(command)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        first = running.stderr.readline()
        assert "measuring the engine" in first
        time.sleep(2.5)
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=30)  # ends when the last process that could write has gone
    assert (running.returncode, out, err) == (130, "", "andante: interrupted\n")
    assert not (here / "r.html").exists()
