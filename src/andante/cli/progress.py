"""A progress bar on stderr: a bar on a terminal, one line a task elsewhere, and never anything on stdout."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

_EVERY = 0.05  # seconds between two drawings of the bar


class Progress:
    """Draws how far a list of tasks is. As a context manager it wipes its bar at the end, whatever happens.

    Args:
        tasks: how many tasks there will be.
        label: stands in front of each line.
        stream: default: stderr as it is now.
    """

    def __init__(self, tasks: int, label: str, stream: TextIO | None = None) -> None:
        self._tasks = max(1, tasks)
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._bar = self._stream.isatty()
        self._current: str | None = None
        self._begun = 0
        self._drawn = -1.0
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar and self._current is not None:
            self._write("\r\x1b[K")

    def __call__(self, task: str, share: float) -> None:
        """`share` (0 to 1) of `task` is done; a new name begins the next task."""
        if task != self._current:
            self._current = task
            self._begun += 1
            self._drawn = -1.0
            if not self._bar:
                self._write(f"{self._label}: {self._begun}/{self._tasks} {task}\n")
        now = time.monotonic()
        if self._bar and now - self._drawn >= _EVERY:
            self._drawn = now
            self._draw(task, min(1.0, (self._begun - 1 + share) / self._tasks), now - self._since)

    def _draw(self, task: str, done: float, spent: float) -> None:
        columns = shutil.get_terminal_size().columns
        tail = f" {100 * done:3.0f} %  {spent:3.0f} s  {task}"
        room = min(40, columns - len(self._label) - len(tail) - 4)
        bar = f" [{'#' * round(done * room):.<{room}}]" if room >= 5 else ""
        self._write(f"\r{self._label}{bar}{tail}"[: max(1, columns)] + "\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # stderr is closed: nobody watches
            self._bar = False
