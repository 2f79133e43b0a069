"""The small values that travel: what a call costs, how it ended, what was decided about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any, TypeGuard

from andante.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Seconds = float | timedelta
"""A duration: float seconds, or a timedelta where users write one."""


def seconds(value: Seconds | None, name: str, *, positive: bool = False) -> float:
    """`value` as float seconds; None means no bound (infinity).

    Raises ConfigurationError when it is NaN, negative (or zero, where `positive`), or not a number.
    """
    if value is None:
        return inf
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_number(number) or isnan(number):
        raise ConfigurationError(f"{name} must be a number of seconds or a timedelta, not {value!r}", path=name)
    if number < 0 or (positive and number == 0):
        raise ConfigurationError(
            f"{name} must be {'above 0' if positive else '0 or more'} seconds, not {value!r}", path=name
        )
    return float(number)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is an int or float that a float can hold; True and False are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call takes, in the units that gates count. Every field is finite and >= 0, else ValueError.

    Attributes:
        requests: how many requests it counts as (default 1).
        input_tokens: prompt tokens, cached ones included.
        output_tokens: generated tokens; before the call an estimate, after it the truth.
        cached_tokens: the part of `input_tokens` that the backend had cached.
        memory_bytes: accelerator memory that the call needs.
    """

    requests: float = 1.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_tokens: float = 0.0
    memory_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("requests", "input_tokens", "output_tokens", "cached_tokens", "memory_bytes"):
            value = getattr(self, name)
            if not is_number(value) or not isfinite(value) or value < 0:
                raise ConfigurationError(f"Cost.{name} must be a finite number >= 0, not {value!r}", path=name)

    @property
    def tokens(self) -> float:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def weight(self) -> float:
        """The one number by which tenants and floors are compared: tokens where there are any, else requests."""
        return self.input_tokens + self.output_tokens or self.requests

    @property
    def size(self) -> float:
        """The one number by which calls of a class are ordered: input tokens where there are any, else requests."""
        return self.input_tokens or self.requests

    def __repr__(self) -> str:
        parts = [f"requests={self.requests:g}"]
        parts += [
            f"{name}={getattr(self, name):g}"
            for name in ("input_tokens", "output_tokens", "cached_tokens", "memory_bytes")
            if getattr(self, name)
        ]
        return f"Cost({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Call:
    """One request for admission. Immutable, and may be reused for many attempts.

    Attributes:
        cost: what it takes.
        service: the name of its service class.
        tenant: whom it is for; tenants of a class share it fairly. Calls without one are one tenant.
        deadline: the absolute time, on the admission's clock, by which the call must have *ended*.
        key: anything that identifies the work (used by wrappers that join or cache calls).
    """

    cost: Cost = Cost()
    service: str = "default"
    tenant: Hashable = None
    deadline: float = inf
    key: Hashable = None

    def __post_init__(self) -> None:
        if not isinstance(self.cost, Cost):
            raise ConfigurationError(f"Call.cost must be a Cost, not {self.cost!r}", path="cost")
        if not isinstance(self.service, str):
            raise ConfigurationError(f"Call.service must be a class name, not {self.service!r}", path="service")
        try:
            hash(self.tenant)
        except TypeError:
            raise ConfigurationError(f"Call.tenant must be hashable, not {self.tenant!r}", path="tenant") from None
        deadline = self.deadline
        if not is_number(deadline) or isnan(deadline):
            raise ConfigurationError(f"Call.deadline must be a time in seconds, not {deadline!r}", path="deadline")


class Ending(Enum):
    """How a call ended, as far as the backend's capacity is concerned."""

    DONE = "done"
    """It ran; its times say something about the backend."""
    OVERLOADED = "overloaded"
    """The backend said it cannot: 429, 503, 529, out of memory, a time-out, an overload error inside a stream."""
    IGNORED = "ignored"
    """It says nothing about capacity: cancelled by the caller, or the caller's own mistake. Never sampled."""


@dataclass(slots=True)
class Outcome:
    """What `Gate.leave` is told. Fields left None are filled by the controller from its own measurements.

    Attributes:
        ending: DONE, OVERLOADED or IGNORED.
        seconds: from start to end.
        ttft: from start to the first result, None if there was none.
        items: output tokens (or items) seen.
        cost: what it really cost; the reservation where nobody settled.
        retry_after: seconds the server asked to stay away, or None.
        error: the exception that ended it, or None.
    """

    ending: Ending = Ending.DONE
    seconds: float | None = None
    ttft: float | None = None
    items: float | None = None
    cost: Cost | None = None
    retry_after: float | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was, or would be, decided about a call.

    Attributes:
        admitted: whether it may start now.
        reason: `"admitted"`, `"waiting"` or the reason of the refusal.
        gate: the name of the gate that holds it, or None.
        start_in: predicted seconds until it starts; 0 when admitted, inf when only an event can tell.
        retry_after: seconds after which a new try may succeed (a lower bound), or None.
        ahead: calls of its own class that wait in front of it.
    """

    admitted: bool
    reason: str
    gate: str | None = None
    start_in: float = 0.0
    retry_after: float | None = None
    ahead: int = 0


@dataclass(slots=True)
class Account:
    """What happened to one call, told afterwards. `permit.account` makes one; `request()` collects them.

    Attributes:
        service: the class it ran in.
        waited: seconds in the line.
        by_gate: of these, seconds for which each gate held it.
        first: seconds from start to the first result, None if there was none.
        seconds: seconds from start to end, None while it runs.
        applied: parameters that a `Dial` changed.
        skipped: True when an optional stage was left out.
        rung: the name of the cascade's rung that answered.
        age: seconds since a reused answer was made.
    """

    service: str = "default"
    waited: float = 0.0
    by_gate: Mapping[str, float] = field(default_factory=dict)
    first: float | None = None
    seconds: float | None = None
    applied: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False
    rung: str | None = None
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many calls came and what became of them. Law of conservation, at every moment:

    offered = started + refused + withdrawn + waiting, and started = done + overloaded + ignored + inside.
    """

    offered: int = 0
    started: int = 0
    refused: int = 0
    withdrawn: int = 0
    waiting: int = 0
    done: int = 0
    overloaded: int = 0
    ignored: int = 0
    inside: int = 0

    @classmethod
    def of(cls, source: Any) -> Counts:
        """The same attributes, read from anything that has them."""
        return cls(*(getattr(source, name) for name in COUNTED))

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in COUNTED))


COUNTED = ("offered", "started", "refused", "withdrawn", "waiting", "done", "overloaded", "ignored", "inside")


@dataclass(frozen=True, slots=True)
class Snapshot(Counts):
    """An admission at one moment: its counts since it was made, the same per class, and what its gates say.

    Attributes:
        classes: counts by class name, in rank order; classes that were reconfigured away come last.
        gates: every gate's own snapshot, by name.
        pressure: `"calm"`, `"steady"`, `"strained"` or `"saturated"`.
    """

    classes: Mapping[str, Counts] = field(default_factory=dict)
    gates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pressure: str = "calm"
