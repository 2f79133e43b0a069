"""Who calls in a campaign, when, and for how much: drawn in a shape, or of a trace; at any rate."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from andante.errors import ConfigurationError
from andante.simulate import shapes
from andante.simulate.workload import ClientClass, Request, assign
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.simulate.mixes import Mix
    from andante.simulate.traces import Trace

SHAPES = ("poisson", "bursty", "ramp", "steps", "drift", "on-off")
"""How the rate of drawn arrivals may move; see `andante.simulate.shapes`."""


class Arrivals(Protocol):
    """Calls of some classes at any rate. All times in seconds, all rates in calls a second."""

    @property
    def clients(self) -> tuple[ClientClass, ...]:
        """The classes, from the most urgent to the least."""

    @property
    def rate(self) -> float | None:
        """The rate it has by itself; None for drawn ones, which have none."""

    @property
    def facts(self) -> Any:
        """Everything that decides what arrives; its repr goes into the fingerprint."""

    @property
    def text(self) -> str:
        """What reports call it."""

    def fitting(self, tokens: int) -> tuple[Arrivals, int]:
        """The same without calls longer than `tokens`, and how many of a trace these are."""

    def mix(self) -> Trace:
        """Calls of the same lengths, to measure an engine with."""

    def requests(self, rate: float, seed: int) -> list[Request]:
        """The calls, at this rate."""

    def seconds(self, rate: float) -> float:
        """How long they arrive."""

    def steps(self, rate: float) -> tuple[float, ...]:
        """When the rate, or the mix, changes at once; what follows lasts until the next change, or to the end."""


@dataclass(frozen=True, slots=True)
class OfTrace:
    """The calls of a trace, as fast as the rate asks for; the seed decides only which class a call is of.

    Raises ConfigurationError for a trace that lasts no time.
    """

    trace: Trace
    clients: tuple[ClientClass, ...]

    def __post_init__(self) -> None:
        if not self.trace.rate:
            raise ConfigurationError(f"{self.trace!r} lasts no time, so it has no rate", path="trace")

    @property
    def rate(self) -> float | None:
        return self.trace.rate

    @property
    def facts(self) -> Any:
        return [astuple(a) for a in self.trace], self.trace.seconds, [astuple(client) for client in self.clients]

    @property
    def text(self) -> str:
        return f"{self.trace.name} ({len(self.trace):,} calls in {self.trace.seconds:.4g} s)"

    def fitting(self, tokens: int) -> tuple[OfTrace, int]:
        kept = self.trace.within(tokens)
        if not len(kept):
            raise ConfigurationError(
                f"none of the {len(self.trace)} calls of {self.trace.name} fits into the engine's {tokens} KV tokens",
                path="trace",
            )
        return OfTrace(kept, self.clients), len(self.trace) - len(kept)

    def mix(self) -> Trace:
        return self.trace

    def requests(self, rate: float, seed: int) -> list[Request]:
        return assign(self.trace.faster(rate / self.trace.rate), self.clients, seed=seed)

    def seconds(self, rate: float) -> float:
        return self.trace.seconds * self.trace.rate / rate

    def steps(self, rate: float) -> tuple[float, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn calls; the seed decides everything.

    Args:
        calls: the classes, each with its lengths.
        lasts: seconds.
        shape: one of `SHAPES`; the load is the rate at the multiple 1 of the shape.
        longest: tokens that prompt and answer may have together; longer calls do not arrive. None: no bound.

    Raises ConfigurationError for an unknown shape, or a time that makes no sense.
    """

    calls: Mix
    lasts: float
    shape: str = "poisson"
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ConfigurationError(f"no shape {self.shape!r}; there are {', '.join(SHAPES)}", path="shape")
        if not is_number(self.lasts) or not 0 < self.lasts < inf:
            raise ConfigurationError(f"seconds must be a finite number above 0, not {self.lasts!r}", path="seconds")

    @property
    def clients(self) -> tuple[ClientClass, ...]:
        return tuple(client for client, _ in self.calls)

    @property
    def rate(self) -> float | None:
        return None

    @property
    def facts(self) -> Any:
        return self.shape, self.lasts, [(astuple(client), astuple(lengths)) for client, lengths in self.calls]

    @property
    def text(self) -> str:
        return f"Drawn calls, {self.lasts:g} s, {self.shape}"

    def fitting(self, tokens: int) -> tuple[Drawn, int]:
        return replace(self, longest=tokens), 0

    def mix(self) -> Trace:
        return shapes.trace_of(self._drawn(shapes.steady(), 50.0, 40.0, seed=0))

    def requests(self, rate: float, seed: int) -> list[Request]:
        makers: dict[str, Callable[[float], shapes.Shape]] = {
            "poisson": lambda _: shapes.steady(),
            "bursty": lambda seconds: shapes.bursty(seconds, seed=seed),
            "ramp": shapes.ramp,
            "steps": shapes.step,
            "drift": shapes.drift,
            "on-off": lambda _: shapes.on_off(),
        }
        return self._drawn(makers[self.shape](self.lasts), rate, self.lasts, seed=seed)

    def seconds(self, rate: float) -> float:
        return self.lasts

    def steps(self, rate: float) -> tuple[float, ...]:
        return (self.lasts / 3, 2 * self.lasts / 3) if self.shape in ("steps", "drift") else ()

    def _drawn(self, shape: shapes.Shape, rate: float, seconds: float, *, seed: int) -> list[Request]:
        calls = shapes.draw(shape, self.calls, rate, seconds, seed=seed)
        most = inf if self.longest is None else self.longest
        return [call for call in calls if call.prompt_tokens + call.output_tokens <= most]
