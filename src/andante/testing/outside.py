"""Who outside the event loop may still wake it, and who inside it waits."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_MOST_TASKS = 20


class Outside:
    """The threads around one event loop, told apart: those that were there before it, workers, and strangers."""

    def __init__(self) -> None:
        # Threads that are older than the loop (a test runner's watchdog, say) are furniture: they never slow it down.
        self._known: weakref.WeakSet[threading.Thread] = weakref.WeakSet(threading.enumerate())

    @contextmanager
    def recruiting(self) -> Iterator[None]:
        """Threads that start while this is open belong to an executor: its jobs are counted, so they are not."""
        before = set(threading.enumerate())
        try:
            yield
        finally:
            for thread in threading.enumerate():
                if thread not in before:
                    self._known.add(thread)

    def threads(self) -> tuple[bool, bool]:
        """Whether a worker thread of anyio is at work, and whether there are strangers, which may do anything."""
        busy = strange = False
        here = threading.current_thread()
        for thread in threading.enumerate():
            if thread is here or thread in self._known:
                continue
            work = _anyio_jobs(thread)
            busy = busy or bool(work)
            strange = strange or work is None
        return busy, strange

    @staticmethod
    def elsewhere() -> bool:
        """Whether the loop runs outside the main thread, so that the main thread may speak to it."""
        return threading.current_thread() is not threading.main_thread()


def _anyio_jobs(thread: threading.Thread) -> int | None:
    """How many jobs a worker thread of anyio has; None if it is none.

    anyio tells nobody about jobs in its threads. What is used here is public in `queue.Queue`; should anyio do it
    otherwise one day, its workers become strangers, which get the loop's grace.
    """
    if not type(thread).__module__.startswith("anyio."):
        return None
    jobs: int | None = getattr(getattr(thread, "queue", None), "unfinished_tasks", None)
    return jobs


def waiting_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    """One line for each unfinished task: its name, the coroutines it is in, and the line where it stands."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: (len(task.get_name()), task.get_name()))
    lines = [f"  {task.get_name()}: {_where(task.get_coro())}" for task in tasks[:_MOST_TASKS]]
    if len(tasks) > _MOST_TASKS:
        lines.append(f"  and {len(tasks) - _MOST_TASKS} more")
    return lines


def _where(work: Any) -> str:
    names: list[str] = []
    frame: FrameType | None = None
    while (name := getattr(work, "__qualname__", None)) is not None:
        names.append(name)
        for kind, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(work, kind):
                frame = getattr(work, kind) or frame
                work = getattr(work, inner)
                break
        else:
            break
    place = f" ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})" if frame is not None else ""
    return (" > ".join(names) or "unknown") + place
