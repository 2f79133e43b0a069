"""What `andante simulate` runs: every policy at every load with every seed, in several processes where cores allow."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, replace
from hashlib import sha256
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from andante.errors import AndanteError, ConfigurationError
from andante.simulate.capacity import Capacity, capacity
from andante.simulate.contenders import contender
from andante.simulate.picture import Picture, picture
from andante.simulate.profiles import profile
from andante.simulate.score import Score, score, settling
from andante.values import is_number

if TYPE_CHECKING:
    from andante.simulate.arrivals import Arrivals
    from andante.simulate.record import Tells
    from andante.simulate.workload import ClientClass, Request

CONCURRENCIES = (4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
"""At which the engine is measured to learn what load 1 is."""

_LOOK = 0.25  # seconds between two looks at what the other processes have done


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay.

    Attributes:
        policy: its name.
        load: calls offered / calls the engine can serve.
        seed: of the arrivals and of the classes of calls.
    """

    policy: str
    load: float
    seed: int

    def __str__(self) -> str:
        return f"{self.policy}, load {self.load:.3g}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be compared.

    Attributes:
        policies: names, see `andante.simulate.contenders`.
        arrivals: who calls and when: drawn in a shape, or of a trace.
        profile: name of the engine's profile.
        loads: calls offered / calls the engine can serve; none: a trace at its own speed.
        seeds: one replay of each cell for each.
        tells: what policies hear of calls inside: "streams", each token; "ends", their ends alone, as of calls that are
            not streamed.

    Raises ConfigurationError for nothing to run, anything twice, and a load or a seed that makes no sense.
    """

    policies: tuple[str, ...]
    arrivals: Arrivals
    _: KW_ONLY
    profile: str = "a100-8b"
    loads: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (1,)
    tells: Tells = "streams"

    def __post_init__(self) -> None:
        profile(self.profile)
        for name in ("policies", "loads", "seeds"):
            values: tuple[Any, ...] = getattr(self, name)
            if not values and (name != "loads" or self.arrivals.rate is None):
                raise ConfigurationError(f"{name}: there must be at least one", path=name)
            if len(set(values)) < len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise ConfigurationError(f"{name}: {twice!r} is there twice", path=name)
        for load in self.loads:
            if not is_number(load) or not 0 < load < inf:
                raise ConfigurationError(f"a load must be a finite number above 0, not {load!r}", path="loads")
        for seed in self.seeds:
            if isinstance(seed, bool) or not isinstance(seed, int):
                raise ConfigurationError(f"a seed must be a whole number, not {seed!r}", path="seeds")

    @property
    def clients(self) -> tuple[ClientClass, ...]:
        """The classes, from the most urgent to the least."""
        return self.arrivals.clients

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every replay, in the order of the report."""
        return tuple(Cell(p, load, seed) for load in self.loads for p in self.policies for seed in self.seeds)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits over all that decides the result but the library itself: the same digits and the same
        version, the same figures. The files of own policies count, what these import does not."""
        told = sha256()
        facts = (self.policies, self.loads, self.seeds, self.tells, asdict(profile(self.profile)), self.arrivals.facts)
        told.update(repr(facts).encode())
        for name in self.policies:
            source = contender(name).source
            if source is not None:
                told.update(Path(source).read_bytes())
        return told.hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one replay came to.

    Attributes:
        cell: which.
        score: its score.
        settled: seconds until it had settled after each step of the load (None: cannot be told).
        picture: what its plots show.
    """

    cell: Cell
    score: Score
    settled: tuple[float | None, ...]
    picture: Picture


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of a campaign.

    Attributes:
        campaign: with the loads that were run.
        capacity: what the engine serves of this mix at most: load 1.
        left_out: calls of the trace that could never fit into the engine.
        results: in the order of `campaign.cells`.
    """

    campaign: Campaign
    capacity: Capacity
    left_out: int
    results: tuple[CellResult, ...]

    def of(self, policy: str, load: float) -> list[CellResult]:
        """The results of one policy at one load, one for each seed."""
        return [each for each in self.results if each.cell.policy == policy and each.cell.load == load]


Watch = Callable[[str, float], None]
"""Told what is being done, and which share of it is done; of what is done beside it by other processes too, so that the
share may exceed 1."""


def run(campaign: Campaign, *, jobs: int = 1, watch: Watch | None = None) -> Findings:
    """Measures load 1 and runs every cell, in `jobs` processes; results do not depend on how many.

    Every policy is made once before anything runs, so that a mistake is said at once.

    Raises ConfigurationError for a policy that cannot be made or fails, and for arrivals of which nothing fits.
    """
    watch = watch or _unwatched
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigurationError(f"jobs must be a whole number of processes above 0, not {jobs!r}", path="jobs")
    for name in campaign.policies:
        contender(name).check(campaign.clients)
    engine = profile(campaign.profile)
    what = "measuring the engine"
    watch(what, 0.0)
    arrivals, left_out = campaign.arrivals.fitting(engine.kv)
    measured = capacity(
        engine,
        arrivals.mix(),
        concurrencies=CONCURRENCIES,
        progress=lambda done, total: watch(what, done / total),
    )
    loads = campaign.loads or ((arrivals.rate or 0.0) / measured.rate,)
    ready = replace(campaign, arrivals=arrivals, loads=loads)
    task = _Task(ready, measured.rate)
    jobs = min(jobs, len(ready.cells))
    results = list(_alone(task, watch)) if jobs == 1 else _together(task, jobs, watch)
    return Findings(ready, measured, left_out, tuple(results))


@dataclass(frozen=True, slots=True)
class _Task:
    """Whatever a process needs to know to run any cell."""

    campaign: Campaign
    load_one: float

    def requests(self, load: float, seed: int) -> list[Request]:
        return self.campaign.arrivals.requests(load * self.load_one, seed)

    def run(self, cell: Cell, progress: Callable[[int, int], None]) -> CellResult:
        campaign = self.campaign
        requests = self.requests(cell.load, cell.seed)
        if not requests:
            raise ConfigurationError(f"{cell}: no call arrives; give it more seconds, or more load", path="seconds")
        try:
            records = contender(cell.policy).serve(
                requests, profile(campaign.profile), campaign.clients, tells=campaign.tells, progress=progress
            )
        except AndanteError as error:
            raise ConfigurationError(f"{error} [load {cell.load:.3g}, seed {cell.seed}]", path="compare") from error
        ends = campaign.arrivals.seconds(cell.load * self.load_one)
        steps = campaign.arrivals.steps(cell.load * self.load_one)
        return CellResult(
            cell,
            score(records, campaign.clients),
            tuple(settling(records, begins, until) for begins, until in pairwise((*steps, ends))),
            picture(records, campaign.clients, ends),
        )


def _alone(task: _Task, watch: Watch) -> Iterator[CellResult]:
    for cell in task.campaign.cells:
        watch(str(cell), 0.0)
        yield task.run(cell, lambda done, total, cell=cell: watch(str(cell), done / total))  # type: ignore[misc]


# Several processes. -----------------------------------------------------------------------------------------------

_task: _Task
_shares: Any


def _together(task: _Task, jobs: int, watch: Watch) -> list[CellResult]:
    """Results in the order of the cells. Interrupted, or when a cell fails, it ends every process it began."""
    cells = task.campaign.cells
    context = multiprocessing.get_context("spawn")  # a fork would copy whatever threads and locks the caller has
    shares = context.Array("d", len(cells), lock=False)
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(task, shares))
    try:
        with _deaf():
            futures: dict[Future[CellResult], Cell] = {pool.submit(_one, place): c for place, c in enumerate(cells)}
        running = set(futures)
        latest, over = "measuring the engine", 0.0
        while running:
            done, running = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                latest, over = str(futures[future]), over + 1
                watch(latest, 1.0)
            watch(latest, 1.0 + max(0.0, sum(shares) - over))
        return [future.result() for future in futures]
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise AndanteError(
                "a process that ran replays ended by itself: killed, or out of memory, or begun by a script without "
                "`if __name__ == '__main__'`; try fewer jobs, or one"
            ) from error
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes begun in here never hear of Ctrl-C, which the terminal sends to all: whoever began them ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(task: _Task, shares: Any) -> None:
    global _task, _shares  # a process of a pool has no other place
    _task, _shares = task, shares


def _one(place: int) -> CellResult:
    def progress(done: int, total: int) -> None:
        _shares[place] = done / total

    result = _task.run(_task.campaign.cells[place], progress)
    _shares[place] = 1.0
    return result


def _unwatched(what: str, share: float) -> None:
    """Nobody wants to know."""
