"""Is the engine model like a real engine? Serves the requests of real vLLM runs and compares the times.

python -m andante.simulate.validate tests/data
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from andante.errors import AndanteError, ConfigurationError
from andante.simulate.capacity import serve
from andante.simulate.engine import Engine
from andante.simulate.job import Job
from andante.simulate.profiles import profile
from andante.simulate.score import quantile
from andante.simulate.traces import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = {
    "vllm_run_h100_llama2_7b.csv": "h100-7b-mha",
    "vllm_run_rtx4090_llama31_8b.csv": "rtx4090-8b",
    "vllm_run_rtxpro6000_llama31_8b.csv": "rtxpro6000-8b",
}
"""Files of real runs, and the profile that stands for their engine."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One real run and its simulation; all times in seconds, `real` first.

    Attributes:
        run: the file's name.
        profile: the profile's name.
        requests: how many.
        ttft: mean time to first token.
        tpot: mean of (end - first token) / (tokens - 1).
        e2e: mean time to the last token.
        ttft_p99: 99th percentile of the time to first token.
        makespan: from the first arrival to the last token.
        preemptions: in the simulation (the real runs do not tell).
    """

    run: str
    profile: str
    requests: int
    ttft: tuple[float, float]
    tpot: tuple[float, float]
    e2e: tuple[float, float]
    ttft_p99: tuple[float, float]
    makespan: tuple[float, float]
    preemptions: int


def compare(path: Path, name: str) -> Comparison:
    """Serves the requests of the run in `path` with the profile `name`, first come first served."""
    trace = read_trace(path)
    with path.open(newline="") as file:
        try:
            real = [(float(row["ttft_s"]), float(row["e2e_s"])) for row in csv.DictReader(file)]
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{path}: no numbers in the columns ttft_s and e2e_s ({error!r})", path="run"
            ) from error
    engine = Engine(profile(name))
    jobs = [(arrival.at, Job(arrival.prompt_tokens, arrival.output_tokens)) for arrival in trace]
    serve(engine, jobs)
    simulated = [((job.first or 0.0) - at, (job.end or 0.0) - at) for at, job in jobs]

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    def tpot(times: Sequence[tuple[float, float]]) -> float:
        rows = zip(times, jobs, strict=True)
        return mean([(e2e - ttft) / (job.output_tokens - 1) for (ttft, e2e), (_, job) in rows if job.output_tokens > 1])

    def makespan(times: Sequence[tuple[float, float]]) -> float:
        return max(at + e2e for (_, e2e), (at, _) in zip(times, jobs, strict=True))

    return Comparison(
        run=path.name,
        profile=name,
        requests=len(jobs),
        ttft=(mean([t for t, _ in real]), mean([t for t, _ in simulated])),
        tpot=(tpot(real), tpot(simulated)),
        e2e=(mean([e for _, e in real]), mean([e for _, e in simulated])),
        ttft_p99=(quantile([t for t, _ in real], 0.99), quantile([t for t, _ in simulated], 0.99)),
        makespan=(makespan(real), makespan(simulated)),
        preemptions=engine.preemptions,
    )


def table(rows: Sequence[Comparison]) -> str:
    """The comparisons, one a line: real / simulated, and the difference of the means."""
    columns = (
        "profile",
        "requests",
        "TTFT mean, s",
        "",
        "TPOT, ms",
        "",
        "e2e mean, s",
        "",
        "TTFT p99, s",
        "makespan, s",
    )
    widths = (14, 8, 15, 6, 13, 6, 15, 6, 15, 15)
    cells = [(*columns, "preempted")]
    for row in rows:
        cells.append(
            (
                row.profile,
                f"{row.requests}",
                *_pair(row.ttft, 3),
                *_pair((1000 * row.tpot[0], 1000 * row.tpot[1]), 1),
                *_pair(row.e2e, 3),
                _pair(row.ttft_p99, 2)[0],
                _pair(row.makespan, 1)[0],
                f"{row.preemptions}",
            )
        )
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, (*widths, 9), strict=True)) for line in cells
    )


def _pair(values: tuple[float, float], digits: int) -> tuple[str, str]:
    real, simulated = values
    return f"{real:.{digits}f} / {simulated:.{digits}f}", f"{100 * (simulated / real - 1):+.1f}%"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table for the folder named on the command line."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1:
        print("usage: python -m andante.simulate.validate FOLDER  (tests/data of the repository)", file=sys.stderr)
        return 2
    try:
        print(table([compare(Path(arguments[0]) / run, name) for run, name in RUNS.items()]))
    except AndanteError as error:
        print(f"validate: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
