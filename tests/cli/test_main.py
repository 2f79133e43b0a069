"""The command itself: bad arguments in one line, help, version, interruption."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from andante.cli import demo, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["--loud"], "--loud|COMMAND"),
        (["demo", "--load", "0"], "finite number above 0, not '0'"),
        (["demo", "--load", "-2"], "finite number above 0"),
        (["demo", "--load", "nan"], "finite number above 0, not 'nan'"),
        (["demo", "--load", "inf"], "finite number above 0, not 'inf'"),
        (["demo", "--load", "two"], "finite number above 0, not 'two'"),
        (["demo", "--load"], "--load"),
        (["demo", "--seed", "1.5"], "--seed"),
        (["demo", "--profile", "b200"], "no engine profile 'b200'"),
        (["demo", "--trace", "no-such-file.csv"], "no-such-file.csv"),
        (["demo", "extra"], "extra"),
    ],
)
def test_bad_arguments(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, nothing on stdout, one line on stderr that names what is wrong."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert any(each in err for each in said.split("|"))


def test_a_bad_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line of the file stands in it."""
    file = tmp_path / "bad.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,-5,1\n")
    assert main(["demo", "--trace", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "bad.csv, line 3: prompt_tokens" in err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Both go to stdout, with exit status 0."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("andante ")
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0
    assert "--load" in capsys.readouterr().out


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends it with one line and status 130, as a shell expects."""

    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupt)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "andante: interrupted\n"


def test_argv_by_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an argument it reads the command line."""
    monkeypatch.setattr(sys, "argv", ["andante", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("andante ")
