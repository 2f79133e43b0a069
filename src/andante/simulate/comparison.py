"""The same workload through several policies: what `andante demo` runs and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from andante.errors import ConfigurationError
from andante.gates.concurrency import Concurrency
from andante.gates.natural_pace import NaturalPace
from andante.simulate.capacity import Capacity, capacity
from andante.simulate.policies import Policy, admission, aiolimiter, no_control, semaphore
from andante.simulate.profiles import EngineProfile, profile
from andante.simulate.replay import replay
from andante.simulate.scenario import Scenario, demo_scenario
from andante.simulate.score import Score, score
from andante.simulate.traces import Trace, azure_conversation
from andante.simulate.workload import Request, assign

Watch = Callable[[str, float], None]
"""Told what is being done, and which share of it (0 to 1) is done."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one policy reached.

    Attributes:
        name: of the policy, with its parameter.
        kind: "none", "semaphore", "aiolimiter", "andante" (the cap is told to it) or "pace" (it finds its own).
        parameter: places, or calls per second; None for none.
        score: its score; None where it could not run.
        why_not: why it could not run.
    """

    name: str
    kind: str
    parameter: float | None
    score: Score | None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of one scenario on one trace.

    Attributes:
        scenario: with the load, seed and profile that were used.
        trace: as it was replayed, sped up.
        left_out: calls of the trace that could never fit into the engine.
        speed_up: how much faster the trace ran.
        capacity: what the engine serves of this mix at most, measured.
        cap: calls at once: the concurrency of the capacity, or fewer where the tightest itl objective asks for it
            (`Capacity.within_itl`).
        results: in the order in which they ran.
    """

    scenario: Scenario
    trace: Trace
    left_out: int
    speed_up: float
    capacity: Capacity
    cap: int
    results: tuple[Result, ...]

    @property
    def own_load(self) -> float:
        """Calls offered / calls the engine can serve of this very mix."""
        return self.trace.rate / self.capacity.rate

    @property
    def cap_keeps_itl(self) -> bool:
        """Whether nine calls in ten keep the tightest itl objective at the cap."""
        return any(p.concurrency == self.cap and p.itl_p90 <= self.scenario.itl for p in self.capacity.sweep)

    @property
    def andante(self) -> Result:
        """The result of andante with the cap."""
        return next(result for result in self.results if result.kind == "andante")

    @property
    def best_semaphore(self) -> Result:
        """The semaphore of the sweep that served the most value."""
        return max((result for result in self.results if result.kind == "semaphore"), key=_value)

    @property
    def best_other(self) -> Result:
        """The best of all but andante's two."""
        return max((result for result in self.results if result.kind not in ("andante", "pace")), key=_value)


def compare(scenario: Scenario | None = None, *, trace: Trace | None = None, watch: Watch | None = None) -> Comparison:
    """Runs the scenario (the packaged one if None) on the trace (the packaged one if None) through every policy.

    First the engine is measured: its capacity for the mix of this trace, and the cap. Then the trace, sped up to
    `scenario.load`, is replayed with no control, through a semaphore of cap / 2, cap and 2 cap, through aiolimiter at
    the capacity, and through an andante admission with the classes' objectives: with `Concurrency(cap)`, and with
    `NaturalPace()`, to which nothing is told.

    Raises ConfigurationError for a trace of which nothing fits into the engine, or that lasts no time.
    """
    scenario, watch = scenario or demo_scenario(), watch or _unwatched
    engine = profile(scenario.profile)
    base = scenario.seconds
    offered = (trace or azure_conversation()).first(base)
    fitting = offered.within(engine.kv)
    if not fitting.rate:
        raise ConfigurationError(
            f"nothing to replay: {len(fitting)} of {len(offered)} calls in the first {base:g} s of {offered.name} fit "
            f"into {engine.kv} KV tokens, and the trace must last longer than 0 s",
            path="trace",
        )
    measured = _measure(scenario, engine, fitting, watch)
    cap = min(measured.concurrency, measured.within_itl(scenario.itl))
    as_packaged = trace is None and scenario.profile == demo_scenario().profile
    speed_up = scenario.load * (scenario.speed_up if as_packaged else measured.rate / fitting.rate)
    fast = fitting.faster(speed_up)
    requests = assign(fast, scenario.clients, seed=scenario.seed)

    ways: list[tuple[str, str, float | None, Callable[[], Policy]]] = [("no control", "none", None, lambda: no_control)]
    for places in sorted({max(1, cap // 2), cap, 2 * cap}):
        ways.append((f"semaphore {places}", "semaphore", places, lambda places=places: semaphore(places)))  # type: ignore[misc]
    rate = measured.rate
    ways.append((f"aiolimiter {rate:.3g}/s", "aiolimiter", rate, lambda: aiolimiter(rate)))
    ways.append((f"andante {cap}", "andante", cap, lambda: admission(scenario.clients, lambda: [Concurrency(cap)])))
    ways.append(("natural pace", "pace", None, lambda: admission(scenario.clients, lambda: [NaturalPace()])))
    results = tuple(_run(scenario, engine, requests, way, watch) for way in ways)
    return Comparison(scenario, fast, len(offered) - len(fitting), speed_up, measured, cap, results)


def _measure(scenario: Scenario, engine: EngineProfile, trace: Trace, watch: Watch) -> Capacity:
    what = "measuring the engine"
    watch(what, 0.0)
    return capacity(
        engine,
        trace,
        concurrencies=scenario.concurrencies,
        progress=lambda done, total: watch(what, done / total),
    )


def _run(
    scenario: Scenario,
    engine: EngineProfile,
    requests: list[Request],
    way: tuple[str, str, float | None, Callable[[], Policy]],
    watch: Watch,
) -> Result:
    name, kind, parameter, make = way
    watch(name, 0.0)
    try:
        policy = make()
    except ImportError as missing:
        return Result(name, kind, parameter, None, f"not run: {missing.name or missing} is not installed")
    records = replay(requests, engine, policy, progress=lambda done, total: watch(name, done / total))
    return Result(name, kind, parameter, score(records, scenario.clients))


def _unwatched(what: str, share: float) -> None:
    """Nobody wants to know."""


def _value(result: Result) -> float:
    return -1.0 if result.score is None else result.score.value
