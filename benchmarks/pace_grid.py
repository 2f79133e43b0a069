"""FROZEN: the scenarios, the score and the upper bound that the natural pace is judged by.

Nothing here may be changed together with anything else: the hash of this file is printed with every figure, and a
figure counts only beside others of the same hash.

A *cell* is an engine, a mix of calls, a shape of arrivals and a load. Load 1 is what the engine serves of that mix at
most: first come, first served, patient clients, the best number in flight (`LOAD_ONE`, measured by
`andante.simulate.capacity` and rounded to 1 %). It asks for no objective, so less than that can be served within them.

The *score* of a run is the value of the calls that were served within their objectives before the horizon, as a share
of the *bound*: what a machine could have served that knows everything beforehand.

The *bound* (policy-lab's oracle): call j is divisible, preemptive work of

    w = b P + (O - 1) (c + a / S) + d (O P + O^2 / 2) + a P / M + e P^2 / 2      seconds

(a ... e, S = seqs, M = mbt of the engine; P and O its prompt and output tokens), that is its cost in the fullest batch
there can be, to be done between its arrival and its last moment, with credit for parts, on one machine of unit speed.
The feasible sets of work are a polymatroid, so that greedy by value / w is exact for this relaxation (Edmonds 1970);
windows are rounded outwards to 1/240 of the horizon. It ignores that a batch must stay small where gaps have an
objective, so it cannot be reached there.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from hashlib import sha256
from math import inf, log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from andante.simulate import PROFILES, ClientClass, EngineProfile, Record, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HASH = sha256(Path(__file__).read_bytes()).hexdigest()[:12]

SLOTS = 240  # of a horizon: the resolution of the bound
LONGEST = 8192  # tokens of a prompt or an answer

# Engines ------------------------------------------------------------------------------------------------------------

ENGINES: dict[str, EngineProfile] = {
    **PROFILES,
    # A 70B model on cards half as fast: even a small batch is close to the objective for gaps.
    "70b-slow": EngineProfile(a=32.0, b=0.136, c=0.06, d=4.8e-5, e=1.86e-6, kv=496_000, seqs=256, mbt=2048),
}

# Mixes --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """Log-normal prompt and output tokens: medians, sigmas, and the most an answer may have."""

    prompt: float
    prompt_sigma: float
    output: float
    output_sigma: float
    most: int = LONGEST


Mix = tuple[tuple[ClientClass, Lengths], ...]


def _mix(interactive: Lengths, standard: Lengths, batch: Lengths, *, ttft: float = 1.0, itl: float = 0.06) -> Mix:
    return (
        (ClientClass("interactive", share=50, value=3, ttft=ttft, itl=itl, leaves_without_first=10.0), interactive),
        (ClientClass("standard", share=30, value=2, e2e=30.0, leaves=60.0), standard),
        (ClientClass("batch", share=20, value=1, e2e=600.0), batch),
    )


_CHAT = (Lengths(300, 1.0, 120, 0.8), Lengths(700, 1.0, 180, 0.8, 512), Lengths(1000, 0.8, 250, 0.8))

MIXES: dict[str, Mix] = {
    "chat": _mix(*_CHAT),
    "noitl": _mix(*_CHAT, itl=inf),
    "heavy": _mix(Lengths(300, 1.6, 120, 1.3), Lengths(700, 1.6, 180, 1.2), Lengths(1000, 1.4, 250, 1.3)),
    "code": _mix(Lengths(1500, 0.8, 30, 0.8), Lengths(2000, 0.8, 60, 0.8, 512), Lengths(2500, 0.8, 120, 0.8)),
    "offline": (
        (ClientClass("nightly", share=60, value=1, e2e=60.0), Lengths(700, 1.0, 180, 0.8)),
        (ClientClass("archive", share=40, value=1, e2e=600.0), Lengths(1000, 0.8, 250, 0.8)),
    ),
    "embed": (
        (ClientClass("query", share=60, value=3, ttft=1.0, leaves=10.0), Lengths(60, 0.8, 1, 0.0, 1)),
        (ClientClass("index", share=40, value=1, e2e=120.0), Lengths(400, 0.8, 1, 0.0, 1)),
    ),
}

# Calls per second.
LOAD_ONE: dict[tuple[str, str], float] = {
    ("a100-8b", "chat"): 9.42,
    ("h100-8b", "chat"): 21.9,
    ("h100x4-70b", "chat"): 9.79,
    ("rtx4090-8b", "chat"): 3.47,
    ("h100-7b-mha", "chat"): 11.9,
    ("70b-slow", "chat"): 4.9,
    ("h100x4-70b", "noitl"): 9.79,
    ("a100-8b", "heavy"): 4.37,
    ("a100-8b", "code"): 5.0,
    ("a100-8b", "embed"): 53.1,
    ("a100-8b", "offline"): 6.7,
    ("h100x4-70b", "offline"): 7.35,
}

# Shapes -------------------------------------------------------------------------------------------------------------

SHAPES = ("poisson", "bursty", "ramp", "step", "drift")


def _bursts(draw: random.Random, seconds: float) -> Callable[[float], float]:
    """2 for about 10 s, 0.5 for about 20 s, exponentially distributed: 1 on average. Without control they cost about
    what policy-lab's bursts, whose form it does not tell, cost there."""
    changes, at, high = [], 0.0, draw.random() < 1 / 3
    while at < seconds:
        changes.append((at, 2.0 if high else 0.5))
        at += draw.expovariate(1 / (10.0 if high else 20.0))
        high = not high
    index = 0

    def rate(t: float) -> float:
        nonlocal index
        while index + 1 < len(changes) and changes[index + 1][0] <= t:
            index += 1
        return changes[index][1]

    return rate


def _rate(shape: str, draw: random.Random, seconds: float) -> tuple[Callable[[float], float], float]:
    """The rate over time as a multiple of the load, and the most it can be."""
    if shape == "bursty":
        return _bursts(draw, seconds), 2.0
    if shape == "ramp":  # from 0.2 up to 1.8 and down again
        return lambda t: 1 - 0.8 * math.cos(2 * math.pi * t / seconds), 1.8
    if shape == "step":  # the middle third at double load
        return lambda t: 2.0 if seconds / 3 <= t < 2 * seconds / 3 else 0.7, 2.0
    return lambda _: 1.0, 1.0


def _longer(shape: str, t: float, seconds: float) -> float:
    """Factor on the answers: drift doubles them in the middle third."""
    return 2.0 if shape == "drift" and seconds / 3 <= t < 2 * seconds / 3 else 1.0


# Cells --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One scenario with one seed."""

    engine: str
    mix: str
    shape: str
    load: float
    seed: int
    seconds: float = 600.0

    @property
    def clients(self) -> tuple[ClientClass, ...]:
        """The classes, from the most urgent to the least."""
        return tuple(client for client, _ in MIXES[self.mix])

    @property
    def profile(self) -> EngineProfile:
        """The engine."""
        return ENGINES[self.engine]

    def requests(self) -> list[Request]:
        """The calls, in order of arrival."""
        draw = random.Random(f"{self.shape} {self.load} {self.seed}")
        mix = MIXES[self.mix]
        shares = [client.share for client, _ in mix]
        rate, most = _rate(self.shape, draw, self.seconds)
        peak = LOAD_ONE[self.engine, self.mix] * self.load * most
        requests, t = [], draw.expovariate(peak)
        while t < self.seconds:
            if draw.random() * most < rate(t):
                client, lengths = draw.choices(mix, shares)[0]
                prompt, output = _draw(draw, lengths, _longer(self.shape, t, self.seconds))
                if prompt + output <= self.profile.kv:
                    requests.append(Request(t, prompt, output, client))
            t += draw.expovariate(peak)
        return requests

    def __str__(self) -> str:
        return f"{self.engine} {self.mix} {self.shape} {self.load:g}"


def _draw(draw: random.Random, lengths: Lengths, longer: float) -> tuple[int, int]:
    prompt = draw.lognormvariate(log(lengths.prompt), lengths.prompt_sigma)
    output = draw.lognormvariate(log(lengths.output), lengths.output_sigma) * longer
    return max(1, min(LONGEST, round(prompt))), max(1, min(lengths.most, round(output)))


def cells(engine: str, mix: str, named: str, seeds: Sequence[int], seconds: float = 600.0) -> list[Cell]:
    """`named` is like "poisson 0.5 0.8, step 1": shapes and loads."""
    out = []
    for part in named.split(","):
        shape, *loads = part.split()
        out += [
            Cell(engine, mix, shape, float(load), seed, seconds * (1.5 if shape in ("step", "drift") else 1.0))
            for load in loads
            for seed in seeds
        ]
    return out


_USUAL = "poisson 0.8 1.25 2, bursty 1.5, drift 1"

MAIN = cells(
    "a100-8b",
    "chat",
    "poisson 0.5 0.8 1 1.25 1.5 2 3, bursty 0.5 0.8 1 1.25 1.5 2 3, ramp 1 2, step 1, drift 0.8 1.2",
    (1, 2, 3),
)
HELD_OUT = [
    *(cell for engine in ("h100-8b", "h100x4-70b", "rtx4090-8b", "h100-7b-mha", "70b-slow")
      for cell in cells(engine, "chat", _USUAL, (11, 12))),
    *(cell for engine, mix in (("h100x4-70b", "noitl"), ("a100-8b", "heavy"), ("a100-8b", "code"), ("a100-8b", "embed"))
      for cell in cells(engine, mix, "poisson 0.8 1.5, bursty 1.25", (11, 12))),
]  # fmt: skip
OFFLINE = [
    *cells("a100-8b", "offline", "poisson 0.8 1.5, bursty 1.25", (11, 12)),
    *cells("h100x4-70b", "offline", "poisson 0.8 1.5, bursty 1.25", (11, 12)),
]
SHORT = cells("a100-8b", "chat", "poisson 0.5 1.5 3, bursty 1.25, drift 1", (7,), seconds=90.0)

# Score --------------------------------------------------------------------------------------------------------------


def work(profile: EngineProfile, prompt: int, output: int) -> float:
    """Seconds of the whole engine that a call costs in the fullest batch there can be."""
    p, o, e = prompt, output, profile
    ms = (
        e.b * p
        + (o - 1) * (e.c + e.a / e.seqs)
        + e.d * (o * p + o * o / 2)
        + e.a * p / e.mbt
        + e.e * p * p / 2
    )  # fmt: skip
    return ms / 1000


def bound(requests: Sequence[Request], profile: EngineProfile, seconds: float) -> float:
    """The most value that could have been served within the objectives before `seconds`."""
    slot = seconds / SLOTS
    jobs = []
    for r in requests:
        client = r.client
        last = min(r.at + client.e2e, r.at + client.ttft + client.itl * (r.output_tokens - 1), seconds)
        first_slot, end_slot = int(r.at / slot), min(SLOTS, math.ceil(last / slot))
        w = work(profile, r.prompt_tokens, r.output_tokens)
        jobs.append((client.value / w, w, client.value, first_slot, end_slot))
    jobs.sort(reverse=True)
    edges = np.arange(SLOTS + 1) * slot
    slack = edges[None, :] - edges[:, None]  # [from, to]: room that is left in the interval
    total = 0.0
    for _, w, value, first_slot, end_slot in jobs:
        around = slack[: first_slot + 1, end_slot:]
        done = min(w, max(0.0, float(around.min())))
        around -= done
        total += value * done / w
    return total


def value(records: Sequence[Record], seconds: float) -> float:
    """The value that was served within the objectives before `seconds`."""
    return sum(r.request.client.value for r in records if r.met and r.over is not None and r.over <= seconds)
