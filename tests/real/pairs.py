"""Two policies in front of two real engines in the same minute: what each serves within its objectives.

python -m tests.real.pairs natural 1 --seeds 11 12 13 --loads 1.5 3 [--shape bursts] [--slots 4] [--silent 5] [--whole]

A policy is `natural` (NaturalPace), a number (Concurrency of so many places) or `none`; all but the last have the same
three service classes. Each lane is an engine and its callers, pinned together to a core of its own; the same callers
come to both, and the lanes change sides from seed to seed. All answers are streamed, or, with `--whole`, none is; then
the interactive callers want the end within 2 s. Printed is the value of what was served within its objectives, a
second, and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai

from andante import Admission, Concurrency, NaturalPace, ServiceClass
from tests.real.engine import Engine, Model, made, serving
from tests.real.guarded import put_guard
from tests.real.load import KINDS, Kind, Record, Request, capacity, plan, run

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMED = {kind.name: replace(kind, streamed=True) for kind in KINDS}
WHOLE = {
    kind.name: replace(kind, streamed=False, ttft=inf, itl=inf, e2e=2.0 if kind.ttft < inf else kind.e2e)
    for kind in KINDS
}
DRAIN = 15.0
BURST, TROUGH = (4.0, 5.0), (16.0, 0.5)  # seconds, times the load


def callers(model: Model, rate: float, seconds: float, seed: int, shape: str, kinds: dict[str, Kind]) -> list[Request]:
    """Poisson arrivals, at a steady rate or on and off."""
    if shape == "steady":
        requests = plan(model, rate, seconds, seed)
    else:
        draw = random.Random(seed)
        requests = []
        period = BURST[0] + TROUGH[0]
        for request in plan(model, rate * BURST[1], seconds, seed):
            high = request.at % period < BURST[0]
            if high or draw.random() < TROUGH[1] / BURST[1]:
                requests.append(request)
    return [replace(request, kind=kinds[request.kind.name]) for request in requests]


def classes(kinds: dict[str, Kind]) -> list[ServiceClass]:
    """The kinds of callers as service classes, the most urgent first."""
    return [
        ServiceClass(
            kind.name,
            ttft=kind.ttft if kind.ttft < inf else None,
            itl=kind.itl if kind.itl < inf else None,
            e2e=kind.e2e if kind.e2e < inf else None,
        )
        for kind in kinds.values()
    ]


@contextmanager
def silent(engine: Engine, seconds: float) -> Iterator[None]:
    """The engine's process stands still for so long from now on."""
    if seconds:
        engine.process.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(seconds, engine.process.send_signal, signal.SIGCONT)
    try:
        yield
    finally:
        engine.process.send_signal(signal.SIGCONT)


async def lane(options: argparse.Namespace) -> dict[str, Any]:
    """One policy, one engine. Says its capacity, waits to be told the rate, runs."""
    model = Model(Path(options.model))
    kinds = WHOLE if options.whole else STREAMED
    with serving(model, Path(options.model) / f"engine-{options.core}.txt", slots=options.slots) as engine:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=engine.url, api_key="none", max_retries=0, timeout=600, http_client=http,
            default_headers={"Connection": "close"},
        ) as client:  # fmt: skip
            create = client.chat.completions.create
            print(await capacity(create, model, 1), flush=True)
            rate = float(await asyncio.to_thread(sys.stdin.readline))
            requests = callers(model, rate, options.seconds, options.seed, options.shape, kinds)
            admission = None
            creates = dict.fromkeys(kinds, create)
            if options.policy != "none":
                gate = NaturalPace() if options.policy == "natural" else Concurrency(int(options.policy))
                admission = Admission(gate, classes=classes(kinds), name="llama")
                creates = {name: put_guard(admission, create, name) for name in kinds}
            with silent(engine, options.silent):
                records = await run(creates, requests, drain=DRAIN)
            last = admission.snapshot().gates if admission is not None else None
    return summary(records, options.seconds, kinds) | {"gates": repr(last)}


def summary(records: list[Record], seconds: float, kinds: dict[str, Kind]) -> dict[str, Any]:
    """Value a second, and per kind: good, offered, late, refused; inter-token misses of the interactive."""
    told = {}
    for name, kind in kinds.items():
        mine = [r for r in records if r.request.kind is kind]
        done = [r for r in mine if r.answered]
        told[name] = {
            "good": sum(r.good for r in mine),
            "offered": len(mine),
            "late": sum(not r.good for r in done),
            "itl misses": sum(r.itl > kind.itl for r in done),
            "refused": sum(r.refused is not None for r in mine),
            "failed": [repr(r.failed) for r in mine if r.failed is not None][:3],
        }
    return {"value": sum(r.request.kind.value for r in records if r.good) / seconds, "kinds": told}


def pair(
    names: tuple[str, str], load: float, seed: int, options: argparse.Namespace, model: Path
) -> list[dict[str, Any]]:
    """Both at once; the results in the order of `names`."""
    cores = (0, 1) if seed % 2 else (1, 0)
    lanes = []
    for name, core in zip(names, cores, strict=True):
        command = [
            sys.executable,
            "-m",
            "tests.real.pairs",
            name,
            name,
            "--lane",
            "--model",
            str(model),
            "--core",
            str(core),
        ]
        command += ["--seeds", str(seed), "--seconds", str(options.seconds), "--shape", options.shape]
        command += ["--slots", str(options.slots), "--silent", str(options.silent)]
        command += ["--whole"] if options.whole else []
        lanes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    capacities = [float(one.stdout.readline()) for one in lanes if one.stdout is not None]
    rate = load * statistics.mean(capacities)
    for one in lanes:
        assert one.stdin is not None
        one.stdin.write(f"{rate}\n")
        one.stdin.flush()
    results = [json.loads(one.communicate()[0].splitlines()[-1]) for one in lanes]
    for result in results:
        result["rate"] = rate
    return results


def line(name: str, result: dict[str, Any]) -> str:
    """One policy's run, in one line."""
    kinds = ", ".join(
        f"{kind} {counts['good']}/{counts['offered']} ({counts['refused']} refused, {counts['late']} late"
        + (f", {counts['itl misses']} itl" if counts["itl misses"] else "")
        + (f", FAILED {counts['failed']}" if counts["failed"] else "")
        + ")"
        for kind, counts in result["kinds"].items()
    )
    return f"    {name:>8} {result['value']:6.2f}/s  {kinds}"


def main() -> int:
    """Runs all pairs, prints each, then the median and the lower quartile of the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.pairs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("policy")
    parser.add_argument("against")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--loads", type=float, nargs="+", default=[1.5, 3.0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--shape", choices=("steady", "bursts"), default="steady")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--silent", type=float, default=0.0, help="seconds of silence at the start")
    parser.add_argument("--whole", action="store_true", help="no answer is streamed")
    parser.add_argument("--lane", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lane:
        os.sched_setaffinity(0, {options.core % (os.cpu_count() or 1)})
        options.seed = options.seeds[0]
        print(json.dumps(asyncio.run(lane(options))), flush=True)
        return 0
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        model = made("small", Path(folder)).folder
        for load in options.loads:
            for seed in options.seeds:
                names = (options.policy, options.against)
                one, other = pair(names, load, seed, options, model)
                ratios.append(one["value"] / other["value"] if other["value"] else float("inf"))
                print(f"{options.shape} {load:g}x ({one['rate']:.2f}/s), seed {seed}: {ratios[-1]:.2f}")
                print(line(names[0], one), line(names[1], other), sep="\n", flush=True)
    ordered = sorted(ratios)
    low = statistics.quantiles(ordered, n=4)[0] if len(ordered) > 1 else ordered[0]
    print(f"{options.policy} / {options.against}: median {statistics.median(ordered):.2f}, lower quartile {low:.2f}, "
          f"{len(ordered)} pairs: {' '.join(f'{ratio:.2f}' for ratio in ordered)}")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
