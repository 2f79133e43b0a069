"""How much of what is possible the natural pace serves: value within objectives / bound, in virtual time.

python -m benchmarks.pace [main|held-out|offline|short] [--policies NAME ...] [--gate] [--record] [--json FILE]

`short --gate` is the gate of CI: it fails when the mean is more than 0.01, or any cell more than 0.03, below what
`pace_baseline.json` says; `--record` writes that file anew. Scenarios, score and bound stand in `pace_grid.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from andante import Concurrency, Controller, NaturalPace
from andante.simulate import replay_controller, service_classes
from benchmarks import pace_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante import Gate
    from benchmarks.pace_grid import Cell

BASELINE = Path(__file__).with_name("pace_baseline.json")
GRIDS = {
    "main": pace_grid.MAIN,
    "held-out": pace_grid.HELD_OUT,
    "offline": pace_grid.OFFLINE,
    "short": pace_grid.SHORT,
}
MEAN_MAY_DROP, CELL_MAY_DROP = 0.01, 0.03


def policy(name: str) -> tuple[list[Gate], str]:
    """The gates of the policy called `name`, and what the gateway is told: "streams" or "ends"."""
    if name == "natural":
        return [NaturalPace()], "streams"
    if name == "natural-whole":
        return [NaturalPace()], "ends"
    if name == "none":
        return [], "streams"
    if name.startswith("static-"):
        return [Concurrency(int(name.removeprefix("static-")))], "streams"
    raise SystemExit(f"no policy {name!r}; there are natural, natural-whole, none, static-N")


@cache
def _offered(cell: Cell) -> tuple[list[pace_grid.Request], float]:
    requests = cell.requests()
    return requests, pace_grid.bound(requests, cell.profile, cell.seconds)


def reached(cell: Cell, name: str) -> float:
    """Value within objectives / bound of one run."""
    requests, bound = _offered(cell)
    gates, tells = policy(name)
    controller = Controller(*gates, classes=service_classes(cell.clients))
    records = replay_controller(requests, cell.profile, controller, tells=tells)
    return pace_grid.value(records, cell.seconds) / bound


def run(cells: Sequence[Cell], names: Sequence[str], jobs: int) -> dict[str, dict[Cell, float]]:
    """Every policy on every cell; progress goes to standard error."""
    results: dict[str, dict[Cell, float]] = {name: {} for name in names}
    with ProcessPoolExecutor(jobs) as pool:
        tasks = {pool.submit(reached, cell, name): (name, cell) for cell in cells for name in names}
        for done, task in enumerate(as_completed(tasks), 1):
            name, cell = tasks[task]
            results[name][cell] = task.result()
            if sys.stderr.isatty() or done % 20 == 0 or done == len(tasks):
                print(f"\r{done} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def table(results: dict[str, dict[Cell, float]]) -> str:
    """One line a scenario, a column a policy: the mean over seeds, and half the range between them."""
    scenarios: dict[str, list[Cell]] = {}
    order = {str(cell): place for place, cell in enumerate(cell for grid in GRIDS.values() for cell in grid)}
    for cell in sorted(next(iter(results.values())), key=lambda cell: (order[str(cell)], cell.seed)):
        scenarios.setdefault(str(cell), []).append(cell)
    width = max(len(scenario) for scenario in scenarios)
    lines = [f"{'':{width}}" + "".join(f"{name:>17}" for name in results)]
    for scenario, members in scenarios.items():
        lines.append(
            f"{scenario:{width}}" + "".join(_entry([values[c] for c in members]) for values in results.values())
        )
    lines.append(
        f"{'mean':{width}}"
        + "".join(f"{statistics.fmean(values.values()):>11.3f}      " for values in results.values())
    )
    worst = [min((statistics.fmean(values[c] for c in members), scenario) for scenario, members in scenarios.items())
             for values in results.values()]  # fmt: skip
    lines.append(f"{'worst':{width}}" + "".join(f"{least:>11.3f}      " for least, _ in worst))
    return "\n".join(lines)


def _entry(values: Sequence[float]) -> str:
    spread = f" ± {(max(values) - min(values)) / 2:.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):>9.3f}{spread:8}"


def gate(results: dict[str, dict[Cell, float]]) -> list[str]:
    """What has become worse than the baseline allows."""
    baseline = json.loads(BASELINE.read_text("utf-8"))
    if baseline["grid"] != pace_grid.HASH:
        return [
            f"the baseline is of grid {baseline['grid']}, this is {pace_grid.HASH}: --record, in a commit of its own"
        ]
    faults = []
    for name, values in results.items():
        before = baseline["reached"].get(name)
        if before is None or set(before) != {str(cell) for cell in values}:
            faults.append(f"{name}: the baseline has other cells; --record")
            continue
        for cell, value in values.items():
            if value < before[str(cell)] - CELL_MAY_DROP:
                faults.append(f"{name}, {cell}: {value:.3f}, was {before[str(cell)]:.3f}")
        mean, was = statistics.fmean(values.values()), statistics.fmean(before.values())
        if mean < was - MEAN_MAY_DROP:
            faults.append(f"{name}, mean: {mean:.3f}, was {was:.3f}")
    return faults


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a grid and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pace", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("grid", nargs="?", choices=GRIDS, default="main")
    parser.add_argument("--policies", nargs="+", metavar="NAME", help="natural, natural-whole, none, static-N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gate", action="store_true", help="fail at a drop below the baseline")
    parser.add_argument("--record", action="store_true", help="write the baseline")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    arguments = parser.parse_args(argv)
    names = arguments.policies or (
        ["natural", "natural-whole"]
        if arguments.gate or arguments.record
        else ["natural", "natural-whole", "static-80"]
    )
    for name in names:
        policy(name)
    cells = GRIDS[arguments.grid]
    since = time.monotonic()
    results = run(cells, names, arguments.jobs)
    seeds = sorted({cell.seed for cell in cells})
    print(f"value within objectives / bound; grid {arguments.grid}, {pace_grid.HASH}, seeds {seeds}")
    print(table(results))
    print(f"{time.monotonic() - since:.0f} s on {arguments.jobs} processes")
    plain = {
        name: {f"{cell}, seed {cell.seed}": value for cell, value in values.items()} for name, values in results.items()
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"grid": pace_grid.HASH, "reached": plain}, indent=1), "utf-8")
    if arguments.record:
        reached_ = {name: {str(c): round(v, 4) for c, v in values.items()} for name, values in results.items()}
        BASELINE.write_text(json.dumps({"grid": pace_grid.HASH, "reached": reached_}, indent=1) + "\n", "utf-8")
    if arguments.gate:
        faults = gate(results)
        print("\n".join(faults) or "not below the baseline")
        return 1 if faults else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
