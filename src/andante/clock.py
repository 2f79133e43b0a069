"""Which clock counts here: the monotonic one, or the virtual one of a test.

Never the wall clock, which steps. Nothing here imports asyncio's or trio's machinery that is not already loaded.
"""

from __future__ import annotations

import sys
import time
from asyncio import _get_running_loop
from collections.abc import Callable

Clock = Callable[[], float]
"""A function that returns seconds and never goes back."""


def current_clock() -> Clock:
    """The clock of the running event loop where that is virtual time, else `time.monotonic`.

    asyncio: a loop with the attribute `virtual_clock` (andante.testing's). trio: a run with a clock of its own, such
    as `trio.testing.MockClock`.
    """
    loop = _get_running_loop()
    if loop is not None:
        virtual: Clock | None = getattr(loop, "virtual_clock", None)
        return time.monotonic if virtual is None else virtual
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            clock = trio.lowlevel.current_clock()
        except RuntimeError:
            return time.monotonic
        if type(clock).__name__ != "SystemClock":
            return clock.current_time  # type: ignore[no-any-return]
    return time.monotonic
