"""Interleaved measuring: small chunks of each case in turn, ratios inside a round, medians and quartiles over rounds.

Work that only computes is timed by the CPU time of its thread, so that other processes of a shared machine count as
little as they can; what has to happen in time is timed by the monotonic clock.
"""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Spread:
    """Many measurements of one thing: `least`, quartiles, and what they were."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.values) < 2:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a value has to lie; `aim` is better than the bound, and only mentioned."""

    most: float = inf
    least: float = -inf
    aim: float | None = None

    def __str__(self) -> str:
        text = f"<= {self.most:g}" if self.least == -inf else f"{self.least:g} to {self.most:g}"
        return text if self.aim is None else f"{text} (aim {self.aim:g})"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table.

    Attributes:
        row: the name by which `--only` finds it.
        what: what was measured.
        mine, peer: figures of andante and of what it is compared with, as printed.
        value: what the bound is about, one value per round.
        unit: of the value: "x" for ratios.
        bound: None for a line that is only printed.
        by_least: ratio of the least figures of all rounds, where that says more than the median on a noisy machine.
    """

    row: str
    what: str
    mine: str
    peer: str
    value: Spread
    unit: str = "x"
    bound: Bound | None = None
    by_least: float | None = None

    @property
    def mark(self) -> str:
        """Whether the median holds the bound: "pass" or "over"; "extra" where there is none."""
        if self.bound is None:
            return "extra"
        return "pass" if self.bound.least <= self.value.median <= self.bound.most else "over"


@dataclass(slots=True)
class Size:
    """How much to measure. `quick` only shows that everything works."""

    quick: bool = False
    rounds: int | None = None
    notes: list[str] = field(default_factory=list)

    def of(self, full: int, quick: int) -> int:
        """A size of work."""
        return quick if self.quick else full

    def times(self, full: int, quick: int = 2) -> int:
        """A number of rounds; `--rounds` replaces it."""
        return self.rounds or self.of(full, quick)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are measured together, since they are compared with the same peers."""

    name: str
    rows: Mapping[str, str]
    """What each row is about, by its name."""
    measure: Callable[[Size, Callable[[str], bool]], Iterable[Result]]
    """Given the size and which rows are wanted."""


Figures = dict[str, list[float]]


def turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Every name once a round, in another order each time, so that none always follows the same neighbour."""
    names = list(names)
    for number in range(rounds):
        shift = number % len(names)
        turned = names[shift:] + names[:shift]
        yield from turned if number % 2 == 0 else reversed(turned)


def interleave(cases: Mapping[str, Callable[[], float]], rounds: int, *, warm_up: int = 1) -> Figures:
    """Figures of each case, one per round."""
    figures: Figures = {name: [] for name in cases}
    for name in turns(list(cases), warm_up):
        cases[name]()
    for name in turns(list(cases), rounds):
        gc.collect()
        figures[name].append(cases[name]())
    return figures


async def interleave_async(
    cases: Mapping[str, Callable[[], Awaitable[float]]], rounds: int, *, warm_up: int = 1
) -> Figures:
    """The same inside one running event loop."""
    figures: Figures = {name: [] for name in cases}
    for name in turns(list(cases), warm_up):
        await cases[name]()
    gc.collect()
    for name in turns(list(cases), rounds):
        figures[name].append(await cases[name]())
    return figures


def less(figures: Figures, case: str, floor: str) -> list[float]:
    """What `case` takes more than `floor`, per round."""
    return [mine - bare for mine, bare in zip(figures[case], figures[floor], strict=True)]


def ratio(mine: Sequence[float], peer: Sequence[float], times: float = 1.0) -> Spread:
    """`mine` over `times` the `peer`, per round. A round in which the peer was not measurable is left out."""
    ratios = tuple(one / (times * other) for one, other in zip(mine, peer, strict=True) if other > 0)
    return Spread(ratios or (inf,))


def by_least(figures: Figures, mine: str, peer: str, floor: str | None = None, times: float = 1.0) -> float:
    """The ratio of the least figures of all rounds: what is left when nobody disturbs."""
    bare = min(figures[floor]) if floor else 0.0
    against = min(figures[peer]) - bare
    return (min(figures[mine]) - bare) / (times * against) if against > 0 else inf


def micro(seconds: Sequence[float]) -> str:
    """The median, in microseconds."""
    return f"{statistics.median(seconds) * 1e6:.2f} us"


def versions() -> dict[str, Any]:
    """What ran where."""
    import importlib.metadata
    import os
    import platform

    packages = {}
    for name in ("andante", "anyio", "trio", "uvloop", "aiolimiter", "asynciolimiter", "prometheus-client"):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "from source" if name == "andante" else "not here"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "load": load,
        "system": platform.system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": packages,
    }


def _cpu() -> str:
    import platform
    from pathlib import Path

    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()
