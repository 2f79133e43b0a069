"""How one kind of call is to be treated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from math import inf

from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.values import Seconds, seconds


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """How one kind of call is to be treated. An admission lists its classes from the most urgent to the least.

    Objectives are hard: a call that could no longer meet them is refused, never started. Leave an objective out to
    make it soft, and use rank.

    Args:
        name: its name; bounded, it becomes a metric label.
        ttft: seconds from arrival to the first result.
        itl: seconds between items, on average (a goal for gates that steer by it; it refuses nobody).
        e2e: seconds from arrival to the end.
        max_wait: longest time in the line; 0 is now or never. None: no bound of its own.
        max_waiting: how many may wait (default 1,000; `math.inf` for no bound).
        floor: share of the started cost (0 to 1) that the class gets at least while it waits.
        gates: gates of this class alone. When they block it, it is skipped and the door stays open for others.
        deferrable: starts only when nothing else waits, until its latest start.
        early_refusal: whether a call is refused on arrival when its predicted wait is too long.
    """

    name: str
    _: KW_ONLY
    ttft: Seconds | None = None
    itl: Seconds | None = None
    e2e: Seconds | None = None
    max_wait: Seconds | None = None
    max_waiting: float = 1000
    floor: float = 0.0
    gates: tuple[Gate, ...] = ()
    deferrable: bool = False
    early_refusal: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"ServiceClass.name must be a non-empty string, not {self.name!r}", path="name")
        for field in ("ttft", "itl", "e2e", "max_wait"):
            value = getattr(self, field)
            if value is not None:
                checked = seconds(value, f"ServiceClass({self.name!r}).{field}", positive=field != "max_wait")
                object.__setattr__(self, field, checked)
        where = f"ServiceClass({self.name!r})"
        if (
            not isinstance(self.max_waiting, (int, float))
            or isinstance(self.max_waiting, bool)
            or not self.max_waiting >= 0
        ):
            raise ConfigurationError(
                f"{where}.max_waiting must be 0 or more, not {self.max_waiting!r}", path="max_waiting"
            )
        if not isinstance(self.floor, (int, float)) or isinstance(self.floor, bool) or not 0 <= self.floor <= 1:
            raise ConfigurationError(f"{where}.floor must be a share from 0 to 1, not {self.floor!r}", path="floor")
        for field in ("deferrable", "early_refusal"):
            if not isinstance(getattr(self, field), bool):
                raise ConfigurationError(
                    f"{where}.{field} must be True or False, not {getattr(self, field)!r}", path=field
                )
        if isinstance(self.gates, Gate):
            gates: tuple[Gate, ...] = (self.gates,)
        elif isinstance(self.gates, Iterable):
            gates = tuple(self.gates)
        else:
            raise ConfigurationError(f"{where}.gates must be gates, not {self.gates!r}", path="gates")
        for gate in gates:
            if not isinstance(gate, Gate):
                raise ConfigurationError(f"{where}.gates must hold gates, not {gate!r}", path="gates")
        object.__setattr__(self, "gates", gates)

    @property
    def horizon(self) -> float:
        """D of the virtual deadline: the class's ttft, else its e2e objective, else inf (first come, first served)."""
        goal = self.ttft if self.ttft is not None else self.e2e
        return inf if goal is None else float(goal)  # type: ignore[arg-type]  # __post_init__ made it float
