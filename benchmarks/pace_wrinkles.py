"""The natural pace where the world is not as it should be.

python -m benchmarks.pace_wrinkles [--only WRINKLE ...] [--seeds 1 2] [--seconds 300]

Each row is one imperfection, each figure the mean over the cells of value within objectives / bound, the bound being
that of the undisturbed engine. The last column is the loss against the first row. Several gateways see only their own
calls.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from andante import Controller, NaturalPace
from andante.simulate import Engine, Retry, replay_controller, service_classes
from andante.simulate.gateways import Gateways, uncontrolled
from andante.simulate.hearsay import Chunks, Late, misjudged, prefix_cached
from andante.simulate.imperfect import freezes, noisy, silent_first
from benchmarks import pace_grid
from benchmarks.pace_grid import Cell

if TYPE_CHECKING:
    from collections.abc import Sequence

WRINKLES = (
    "none", "noise", "chunks", "prefix cache", "jitter", "retry", "sizes", "all of these", "freezes", "silent start",
    "share 0.5", "share 1.3", "2 gateways", "4 gateways", "8 gateways", "a fourth uncontrolled",
    "whole calls, 4 gateways",
)  # fmt: skip
CELLS = (("poisson", 0.8), ("poisson", 1.5), ("poisson", 3.0), ("bursty", 1.25), ("drift", 1.0))


def reached(wrinkle: str, cell: Cell) -> float:
    """Value within objectives / bound of one run with one imperfection."""
    requests = cell.requests()
    bound = pace_grid.bound(requests, cell.profile, cell.seconds)
    every = wrinkle == "all of these"
    if every or wrinkle == "prefix cache":
        requests = prefix_cached(requests, seed=cell.seed)
    if every or wrinkle == "sizes":
        requests = misjudged(requests, 2.0, seed=cell.seed)
    engine = Engine(cell.profile)
    if every or wrinkle == "noise":
        engine = noisy(engine, 0.2, seed=cell.seed)
    if wrinkle == "freezes":
        engine = freezes(engine, 1.0, every=30.0)
    if wrinkle == "silent start":
        engine = silent_first(engine, 5.0)
    gateway = _gateway(wrinkle, cell)
    if every or wrinkle == "chunks":
        gateway = Chunks(gateway, 4, counted=False)
    if every or wrinkle == "jitter":
        gateway = Late(gateway, 0.05, seed=cell.seed)
    records = replay_controller(
        requests,
        engine,
        gateway,
        tells="ends" if wrinkle.startswith("whole calls") else "streams",
        retry=Retry(1) if every or wrinkle == "retry" else None,
    )
    return pace_grid.value(records, cell.seconds) / bound


def _gateway(wrinkle: str, cell: Cell) -> Controller | Gateways:
    def one() -> Controller:
        pace = NaturalPace()
        if wrinkle.startswith("share"):
            pace._company.share.value = float(wrinkle.split()[1])
        return Controller(pace, classes=service_classes(cell.clients))

    if wrinkle.endswith("gateways"):
        return Gateways(*(one() for _ in range(int(wrinkle.split()[-2]))), seed=cell.seed)
    if wrinkle == "a fourth uncontrolled":
        return Gateways(one(), uncontrolled(cell.clients), shares=[3, 1], seed=cell.seed)
    return one()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs every wrinkle on every cell and prints the means."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pace_wrinkles", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", nargs="+", default=list(WRINKLES), choices=WRINKLES, metavar="WRINKLE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(argv)
    cells = [
        Cell("a100-8b", "chat", shape, load, seed, arguments.seconds)
        for shape, load in CELLS
        for seed in arguments.seeds
    ]
    since = time.monotonic()
    head = f"grid {pace_grid.HASH}, seeds {arguments.seeds}, {arguments.seconds:g} s a cell"
    print(f"value within objectives / bound; {head}")
    print(f"{'':26}" + "".join(f"{f'{shape} {load:g}':>14}" for shape, load in CELLS) + f"{'mean':>9}{'loss':>8}")
    first = None
    with ProcessPoolExecutor(arguments.jobs) as pool:
        tasks = {wrinkle: [pool.submit(reached, wrinkle, cell) for cell in cells] for wrinkle in arguments.only}
        for wrinkle, runs in tasks.items():
            values = [run.result() for run in runs]
            n = len(arguments.seeds)
            means = [statistics.fmean(values[k * n : (k + 1) * n]) for k in range(len(CELLS))]
            mean = statistics.fmean(values)
            first = mean if first is None else first
            print(
                f"{wrinkle:26}" + "".join(f"{m:>14.3f}" for m in means) + f"{mean:>9.3f}{first - mean:>8.3f}",
                flush=True,
            )
    print(f"{time.monotonic() - since:.0f} s on {arguments.jobs} processes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
