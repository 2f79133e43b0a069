"""Every gate of the library keeps the laws of a gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiolimiter
import pytest

from andante.gate import Gate
from andante.gates import AioLimiter, Breaker, Concurrency, Cooldown, TokenBucket
from andante.limits import AIMD, Gradient2, Vegas
from andante.testing.clock import ManualClock
from andante.testing.contract import gate_contract
from andante.values import Call, Cost, Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(6)


class Falling:
    """An estimate that moves with what it is told."""

    def __init__(self) -> None:
        self.limit = 5.0

    def sample(self, outcome: Outcome, inside: int, now: float) -> None:
        self.limit = max(1.0, self.limit + (0.25 if outcome.ending is Ending.DONE else -1.0))

    def dump(self) -> dict[str, float]:
        return {"limit": self.limit}

    def load(self, state: dict[str, float], age: float) -> None:
        self.limit = state["limit"]


@dataclass(frozen=True)
class Case:
    make: Callable[[], Gate]
    exempt: tuple[str, ...] = ()


# A gate of a later part adds its row here; what it is exempt from its docstring says.
CASES = {
    "Gate": Case(Gate),
    "TokenBucket-requests": Case(lambda: TokenBucket(5)),
    "TokenBucket-minute": Case(lambda: TokenBucket(60, "minute", burst=7.5, name="rpm")),
    "TokenBucket-day": Case(lambda: TokenBucket(50, "day")),
    "TokenBucket-tokens": Case(lambda: TokenBucket(6000, "minute", unit="tokens")),
    "TokenBucket-fresh": Case(lambda: TokenBucket(2000, "hour", unit="input_tokens", burst=1200, count_cached=False)),
    "TokenBucket-too-small": Case(lambda: TokenBucket(10, unit="output_tokens", burst=25)),
    "TokenBucket-strict": Case(lambda: TokenBucket(5, burst=3, strict_window=True)),
    "TokenBucket-strict-tokens": Case(lambda: TokenBucket(1e5, "minute", unit="tokens", strict_window=True)),
    "TokenBucket-strict-day": Case(lambda: TokenBucket(20, "day", strict_window=True)),
    "Breaker": Case(Breaker),
    "Breaker-nervous": Case(lambda: Breaker(0.1, 5.0, 1, least=1, pause=0.5)),
    "Concurrency": Case(lambda: Concurrency(3)),
    "Concurrency-estimate": Case(lambda: Concurrency(Falling()), exempt=("capacity",)),  # what it learned stays
    "Concurrency-AIMD": Case(lambda: Concurrency(AIMD(initial=3, timeout=1)), exempt=("capacity",)),
    "Concurrency-Vegas": Case(lambda: Concurrency(Vegas(initial=3, probe=2)), exempt=("capacity",)),
    "Concurrency-Gradient2": Case(lambda: Concurrency(Gradient2(initial=3, queue=1)), exempt=("capacity",)),
    "Cooldown": Case(Cooldown),
    "Cooldown-short": Case(lambda: Cooldown(initial=0.05, factor=1, ramp=1.5)),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_laws(case: str, seed: int) -> None:
    """Each gate keeps each law that it is not exempt from."""
    gate_contract(CASES[case].make, exempt=CASES[case].exempt, seed=seed)


def _set(gate: Gate, name: str, value: float) -> Gate:
    setattr(gate, name, value)
    return gate


def _held() -> Gate:
    gate = Cooldown()
    gate.hold(30.0, 999.0)
    return gate


def _loaded() -> Gate:
    gate = TokenBucket(5, burst=10)
    gate.load({"level": -7.0}, 0.5)
    return gate


CONFIGURED = {
    "rate": lambda: _set(TokenBucket(50), "rate", 5.0),
    "burst": lambda: _set(TokenBucket(5, burst=10), "burst", 3),
    "limit": lambda: _set(Concurrency(9), "limit", 2),
    "held": _held,
    "loaded": _loaded,
}


@pytest.mark.parametrize("case", CONFIGURED)
def test_laws_after_setting(case: str) -> None:
    """Limits set, holds begun and states loaded before the first call leave the laws as they are. (There is less in
    such a gate than in one that had a rest, so what fits into it at first is not the measure.)"""
    gate_contract(CONFIGURED[case], exempt=("capacity",) if case in {"held", "loaded", "burst", "rate"} else ())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", ["requests", "input_tokens"])
def test_aiolimiter(seed: int, unit: str) -> None:
    """AioLimiter keeps all laws but that of undo (law 3). It takes its time from a loop, which here is moved along;
    where that is not done its decisions cannot be replayed (law 11)."""
    clock = ManualClock()

    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return clock()

    async def work() -> None:
        gate_contract(
            lambda: AioLimiter(aiolimiter.AsyncLimiter(1000 if unit == "input_tokens" else 5, 60), unit=unit),  # type: ignore[arg-type]
            exempt=("undo",),
            seed=seed,
            set_time=clock.advance_to,
        )

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work())


def test_calls_of_your_own() -> None:
    """A gate may be tried with the calls that it is made for, of several classes."""
    calls = [Call(Cost(input_tokens=n * 100.0), service=f"class {n}") for n in range(1, 4)]
    gate_contract(lambda: TokenBucket(300, unit="tokens"), calls=calls)
