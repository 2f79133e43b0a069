"""What NaturalPace finds without objectives, on backends that answer each call in one piece.

python -m benchmarks.pace_uniform

Calls a second that end, as a share of the best limit of a sweep, at 1.5 to 2 times the capacity and at a third of that;
the cold start counts.
"""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING

from andante import Concurrency, Controller, NaturalPace, ServiceClass
from andante.simulate import ClientClass, Request, replay_controller
from andante.simulate.uniform import BatchEngine, BatchProfile, ServiceEngine, ServiceProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante import Gate
    from andante.simulate.engine import EngineModel

LIMITS = (4, 8, 12, 16, 32, 64, 128)
CLIENT = ClientClass("bulk", share=1, e2e=1e5)
BACKENDS: dict[str, tuple[Callable[[], EngineModel], float, float]] = {
    "8 workers of 2 s, thrashing past 12": (lambda: ServiceEngine(ServiceProfile(8, 2.0, 12.0)), 8.0, 600.0),
    "20 workers of 0.2 s": (lambda: ServiceEngine(ServiceProfile(20, 0.2)), 150.0, 120.0),
    "batches to 64 of 10 ms + 0.5 ms": (lambda: BatchEngine(BatchProfile(64, 0.010, 0.0005)), 2000.0, 30.0),
    "batches to 64 of 5 ms + 2 ms": (lambda: BatchEngine(BatchProfile(64, 0.005, 0.002)), 700.0, 60.0),
}


def crowd(rate: float, seconds: float) -> list[Request]:
    """Poisson arrivals."""
    draw, at, requests = random.Random(1), 0.0, []
    while (at := at + draw.expovariate(rate)) < seconds:
        requests.append(Request(at, 100, 1, CLIENT))
    return requests


def rate(gate: Gate, engine: EngineModel, requests: list[Request], seconds: float) -> float:
    """Calls a second that ended."""
    controller = Controller(gate, classes=[ServiceClass("bulk", max_waiting=inf)])
    records = replay_controller(requests, engine, controller, tells="ends", until=seconds)
    return sum(record.met for record in records) / seconds


def main() -> int:
    """Prints one line a backend and load."""
    print(f"{'':38}{'offered/s':>10}{'best limit':>12}{'its rate':>10}{'NaturalPace':>13}{'share':>8}")
    for name, (make, offered, seconds) in BACKENDS.items():
        for load in (1.0, 0.3):
            requests = crowd(offered * load, seconds)
            best, limit = max((rate(Concurrency(n), make(), requests, seconds), n) for n in LIMITS)
            found = rate(NaturalPace(), make(), requests, seconds)
            print(
                f"{name:38}{offered * load:>10.0f}{limit:>12}{best:>10.1f}{found:>13.1f}{found / best:>8.3f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
