"""How much an engine can serve of a mix of calls, and at which concurrency.

python -m andante.simulate.capacity [--profile a100-8b] [--trace FILE]
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING

from andante.errors import AndanteError, ConfigurationError
from andante.simulate.engine import Engine, EngineModel
from andante.simulate.job import Job
from andante.simulate.profiles import PROFILES, EngineProfile, profile
from andante.simulate.traces import Trace, azure_conversation, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CONCURRENCIES = (4, 8, 16, 32, 64, 128, 256)
"""The in-flight caps that `capacity` tries."""

_ENOUGH = 500  # calls that a measurement takes at least, if it may


@dataclass(frozen=True, slots=True)
class Saturated:
    """What an engine does when `concurrency` calls are always inside and more are waiting.

    Attributes:
        concurrency: calls inside.
        rate: calls per second, the emptying at the end included.
        itl: mean over calls of a call's mean gap between two tokens, seconds.
        itl_p90: 90th percentile over calls of the same.
        preemptions: per call.
    """

    concurrency: int
    rate: float
    itl: float
    itl_p90: float
    preemptions: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of `capacity`.

    Attributes:
        rate: calls per second at `concurrency`.
        concurrency: the smallest cap whose rate is within 2 % of the best.
        sweep: one `Saturated` for each cap tried.
    """

    rate: float
    concurrency: int
    sweep: tuple[Saturated, ...]

    def within_itl(self, itl: float) -> int:
        """The largest cap of the sweep at which nine calls in ten keep a mean gap of at most `itl` seconds; the
        smallest cap tried where none does."""
        fitting = [point.concurrency for point in self.sweep if point.itl_p90 <= itl]
        return max(fitting, default=self.sweep[0].concurrency)


def serve(engine: EngineModel, jobs: Iterable[tuple[float, Job]], *, concurrency: float = inf) -> float:
    """Serves `jobs`, pairs of arrival time (ascending, seconds) and job, first come first served, with at most
    `concurrency` of them in the engine; patient clients, no event loop. Returns the time of the last token."""
    now = 0.0
    inside = 0
    upcoming = iter(jobs)
    following = next(upcoming, None)
    while True:
        while following is not None and following[0] <= now and inside < concurrency:
            engine.submit(following[1])
            inside += 1
            following = next(upcoming, None)
        if engine.idle:
            if following is None:
                return now
            now = max(now, following[0])
            continue
        step = engine.step(now)
        now = step.at
        inside -= len(step.finished)


def saturated(profile: EngineProfile, trace: Trace, concurrency: int) -> Saturated:
    """Serves all calls of `trace` at once, `concurrency` of them at a time (their arrival times are not used)."""
    engine = Engine(profile)
    jobs = [Job(arrival.prompt_tokens, arrival.output_tokens) for arrival in trace]
    end = serve(engine, ((0.0, job) for job in jobs), concurrency=concurrency)
    gaps = sorted(
        (job.end - job.first) / (job.output_tokens - 1)
        for job in jobs
        if job.output_tokens > 1 and job.end is not None and job.first is not None
    )
    return Saturated(
        concurrency=concurrency,
        rate=len(jobs) / end,
        itl=sum(gaps) / len(gaps) if gaps else 0.0,
        itl_p90=gaps[ceil(0.9 * len(gaps)) - 1] if gaps else 0.0,
        preemptions=engine.preemptions / len(jobs),
    )


def capacity(
    profile: EngineProfile,
    trace: Trace,
    *,
    calls: int = 2500,
    seed: int = 0,
    concurrencies: Sequence[int] = CONCURRENCIES,
    progress: Callable[[int, int], None] | None = None,
) -> Capacity:
    """Measures the saturated first-come-first-served throughput of `profile` for the mix of `trace`.

    Args:
        profile: the engine.
        trace: its lengths count, its arrival times do not. Calls that can never fit the KV cache are left out.
        calls: so many are drawn at random, without replacement. Of a shorter trace all are taken, again and again until
            there are 500: the filling and the emptying of the engine would weigh too much in less.
        seed: of that draw.
        concurrencies: the in-flight caps to try; those above `profile.seqs` only queue inside the engine.
        progress: called after each cap with the number of caps done and their total.
    """
    fitting = [arrival for arrival in trace if arrival.prompt_tokens + arrival.output_tokens <= profile.kv]
    if not fitting:
        raise ConfigurationError(f"no call of {trace!r} fits into {profile.kv} KV tokens", path="trace")
    if not concurrencies or min(concurrencies) < 1:
        raise ConfigurationError(
            f"concurrencies must be whole numbers above 0, not {concurrencies!r}", path="concurrencies"
        )
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ConfigurationError(f"calls must be a whole number above 0, not {calls!r}", path="calls")
    drawn = random.Random(seed).sample(fitting, calls) if calls < len(fitting) else fitting
    drawn = drawn * max(1, ceil(min(calls, _ENOUGH) / len(drawn)))
    mix = Trace([type(a)(0.0, a.prompt_tokens, a.output_tokens) for a in drawn], name=trace.name)
    sweep: list[Saturated] = []
    for done, concurrency in enumerate(sorted(concurrencies), 1):
        sweep.append(saturated(profile, mix, concurrency))
        if progress is not None:
            progress(done, len(concurrencies))
    best = max(point.rate for point in sweep)
    chosen = next(point for point in sweep if point.rate >= 0.98 * best)
    return Capacity(chosen.rate, chosen.concurrency, tuple(sweep))


def table(result: Capacity) -> str:
    """The sweep, one cap a line, the chosen one marked."""
    lines = ["in flight   calls/s   gap mean ms   gap p90 ms   preemptions/call"]
    for point in result.sweep:
        mark = "  <- smallest within 2 % of the best" if point.concurrency == result.concurrency else ""
        lines.append(
            f"{point.concurrency:>9}   {point.rate:>7.2f}   {1000 * point.itl:>11.1f}   {1000 * point.itl_p90:>10.1f}"
            f"   {point.preemptions:>16.2f}{mark}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the sweep for a profile and a trace."""
    parser = argparse.ArgumentParser(
        prog="python -m andante.simulate.capacity", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--profile", default="a100-8b", help=f"one of {', '.join(PROFILES)}")
    parser.add_argument("--trace", metavar="FILE", help="CSV or CSV.gz (default: the packaged Azure excerpt)")
    parser.add_argument(
        "--caps", metavar="N", type=int, nargs="+", default=list(CONCURRENCIES), help="in-flight caps to try"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    try:
        trace = read_trace(arguments.trace) if arguments.trace else azure_conversation()
        result = capacity(profile(arguments.profile), trace, seed=arguments.seed, concurrencies=arguments.caps)
    except AndanteError as error:
        print(f"capacity: {error}", file=sys.stderr)
        return 2
    print(f"{arguments.profile}, {trace.name}: {result.rate:.2f} calls/s at {result.concurrency} in flight")
    print(table(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
