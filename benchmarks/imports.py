"""What importing costs: fresh processes, their own clocks, `import asyncio` in turn with ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.harness import Bound, Group, Result, Size, Spread, interleave, less

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROWS = {"import": "import andante, alone and with what an ordinary program takes from it, more than import asyncio"}

ASYNCIO = "import asyncio"
ALONE = "import asyncio, andante"
USED = "import asyncio; from andante import Admission, Call, Concurrency, Cost, ServiceClass, TokenBucket, guard"
BOUND = 0.060

_CHILD = "import time; start = time.process_time(); {}; print(time.process_time() - start)"


def importing(statement: str, compiled: str) -> Callable[[], float]:
    """Seconds of CPU that `statement` takes in a fresh interpreter. `compiled`: the folder for its byte code."""
    command = [sys.executable, "-c", _CHILD.format(statement)]
    # Byte code of our own, whatever the environment says about writing it: nobody imports a library from source twice.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    return lambda: float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def measure(size: Size, _: Callable[[str], bool]) -> Iterable[Result]:
    statements = {"asyncio": ASYNCIO, "alone": ALONE, "used": USED}
    with tempfile.TemporaryDirectory() as compiled:
        cases = {name: importing(statement, compiled) for name, statement in statements.items()}
        figures = interleave(cases, size.times(21, 3))
    peer = f"import asyncio {median(figures['asyncio']) * 1e3:.1f} ms"
    for case, what in (("alone", "import andante"), ("used", "from andante import Admission, guard, ...")):
        more = Spread(tuple(1e3 * seconds for seconds in less(figures, case, "asyncio")))
        least = 1e3 * (min(figures[case]) - min(figures["asyncio"]))
        yield Result(
            "import", what, f"{median(figures[case]) * 1e3:.1f} ms", peer, more, "ms more",
            Bound(BOUND * 1e3), least,
        )  # fmt: skip


GROUP = Group("imports", ROWS, measure)
