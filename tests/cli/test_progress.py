"""The progress bar: a bar on a terminal, lines elsewhere, gone at the end."""

from __future__ import annotations

import io
import os
import time

import pytest

from andante.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_where_there_is_no_terminal() -> None:
    """One line a task, no escape sequences, no carriage returns."""
    stream = io.StringIO()
    with Progress(2, "demo", stream) as progress:
        for share in (0.0, 0.5, 1.0):
            progress("first", share)
        progress("second", 0.0)
    assert stream.getvalue() == "demo: 1/2 first\ndemo: 2/2 second\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows, keeps within the width of the terminal, is not drawn too often, and is wiped at the end."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 24)))
    stream = Terminal()
    with Progress(2, "demo", stream) as progress:
        progress("first", 0.0)
        progress("first", 0.3)  # too soon to draw again
        now = 1.0
        progress("first", 0.5)
        now = 2.0
        progress("second", 0.5)
    frames = stream.getvalue().split("\r")[1:]
    assert frames[-1] == "\x1b[K"
    assert [frame.split("]")[1].split()[0] for frame in frames[:-1]] == ["0", "25", "75"]
    assert [frame.count("#") for frame in frames[:-1]] == sorted(frame.count("#") for frame in frames[:-1])
    assert all(len(frame.removesuffix("\x1b[K")) <= 60 for frame in frames)


def test_a_narrow_terminal_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for a bar, the text alone is shown, cut to the width."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((12, 24)))
    stream = Terminal()
    with Progress(1, "demo", stream) as progress:
        progress("something long", 0.5)
    assert "[" not in stream.getvalue().replace("\x1b[K", "")
    assert all(len(frame.removesuffix("\x1b[K")) <= 12 for frame in stream.getvalue().split("\r"))


def test_wiped_when_it_fails() -> None:
    """An error or Ctrl-C leaves no half a bar behind."""
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), Progress(1, "demo", stream) as progress:
        progress("first", 0.5)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_closed_stream_is_no_trouble() -> None:
    """Nobody watches: the work goes on."""
    stream = Terminal()
    with Progress(1, "demo", stream) as progress:
        stream.close()
        progress("first", 0.5)
