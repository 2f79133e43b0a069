"""What a scripted backend is told to do with a call: one step for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.values import Seconds, seconds

if TYPE_CHECKING:
    from andante.testing.stream import ServedCall


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with `value`, `after` seconds from arrival. Played as a stream: one item."""

    value: Any = "ok"
    after: Seconds = 0.0

    def __post_init__(self) -> None:
        _delay(self, "after")


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise `error` (an exception, or an exception class to make a new one from), `after` seconds from arrival."""

    error: BaseException | type[BaseException]
    after: Seconds = 0.0

    def __post_init__(self) -> None:
        _delay(self, "after")
        _error(self.error, "Fail.error")


@dataclass(frozen=True, slots=True)
class Stall:
    """Never answer: only cancelling or closing ends the call."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Send `items`, the first `first` seconds from arrival, the next each `gap` seconds later.

    Attributes:
        items: what to send; an endless iterable is fine. An iterator can be sent once only.
        first: seconds from arrival to the first item.
        gap: seconds between items.
        fail_after: how many items to send before `error` (0: instead of the first); None: never fails.
        error: what to raise then, an exception or a class (default `ConnectionError`).
        stall_after: how many items to send before falling silent for ever; None: never.
        ahead: True (default): items come on the backend's own schedule, and a slow consumer finds them ready, as from
            a server. False: the backend works on an item only while it is asked for, as a model in the own process.
        attributes: further attributes of the stream object, such as `{"request_id": "r-1"}`.
    """

    items: Iterable[Any] = ()
    first: Seconds = 0.0
    gap: Seconds = 0.0
    fail_after: int | None = None
    error: BaseException | type[BaseException] = ConnectionError
    stall_after: int | None = None
    ahead: bool = True
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.items, Iterable):
            raise ConfigurationError(f"Stream.items must be iterable, not {self.items!r}", path="items")
        _delay(self, "first")
        _delay(self, "gap")
        _error(self.error, "Stream.error")
        for name in ("fail_after", "stall_after"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                message = f"Stream.{name} must be a number of items, 0 or more, not {value!r}"
                raise ConfigurationError(message, path=name)


Step = Answer | Fail | Stall | Stream
Script = Iterable[Step] | Callable[["ServedCall"], Step]


class Reader:
    """Gives each call its step: the next of the script, or what the function says; `default` after its end."""

    def __init__(self, script: Script, default: Step) -> None:
        self._default = _step(default, "default")
        given: object = script
        self._ask: Callable[[ServedCall], Step] | None = None
        self._steps: Iterator[Step] = iter(())
        if isinstance(given, Step):
            message = f"script must be a list of steps; for one step for every call say default={given!r}"
            raise ConfigurationError(message, path="script")
        if isinstance(script, Iterable):
            # A list is checked at once, so that a slip shows where it was made; an iterator may be endless.
            known = script if isinstance(script, Iterator) else [_step(step, "script") for step in script]
            self._steps = iter(known)
        elif callable(given):
            self._ask = script
        else:
            message = f"script must be steps or a function that gives them, not {given!r}"
            raise ConfigurationError(message, path="script")

    def step(self, call: ServedCall) -> Step:
        """What to do with `call`."""
        step = next(self._steps, self._default) if self._ask is None else self._ask(call)
        return _step(step, "script")


def _step(step: object, name: str) -> Step:
    if not isinstance(step, Step):
        raise ConfigurationError(f"{name} must give Answer, Fail, Stall or Stream, not {step!r}", path=name)
    return step


def _delay(step: object, name: str) -> None:
    where = f"{type(step).__name__}.{name}"
    value = seconds(getattr(step, name), where)
    if not isfinite(value):
        raise ConfigurationError(f"{where} must be finite seconds, not {getattr(step, name)!r}; see Stall", path=name)
    object.__setattr__(step, name, value)


def _error(error: object, where: str) -> None:
    if not isinstance(error, BaseException) and not (isinstance(error, type) and issubclass(error, BaseException)):
        raise ConfigurationError(f"{where} must be an exception or an exception class, not {error!r}", path="error")
