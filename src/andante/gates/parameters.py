"""What the gates accept as a parameter: finite numbers that make sense, and what a call counts as."""

from __future__ import annotations

from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from andante.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.values import Cost

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]
"""What a gate counts of a `Cost`. `tokens` is input plus output."""

UNITS: tuple[Unit, ...] = ("requests", "tokens", "input_tokens", "output_tokens")


def finite(value: object, name: str, *, least: float = 0.0, above: bool = False) -> float:
    """`value` as a float. ConfigurationError unless it is a finite number >= `least` (greater, where `above`)."""
    wanted = f"a finite number {'above' if above else 'of at least'} {least:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{name} must be {wanted}, not {value!r}", path=name)
    try:
        number = float(value)
    except OverflowError:
        raise ConfigurationError(f"{name} must be {wanted}, not an integer beyond all floats", path=name) from None
    if not isfinite(number) or number < least or (above and number == least):
        raise ConfigurationError(f"{name} must be {wanted}, not {value!r}", path=name)
    return number


def share(value: object, name: str) -> float:
    """`value`, which must be above 0 and below 1."""
    number = finite(value, name, above=True)
    if number >= 1:
        raise ConfigurationError(f"{name} must be below 1, not {value!r}", path=name)
    return number


def whole(value: object, name: str, least: int) -> int:
    """`value`, which must be an int of at least `least`."""
    finite(value, name, least=least)
    if not isinstance(value, int):
        raise ConfigurationError(f"{name} must be a whole number, not {value!r}", path=name)
    return value


def flag(value: object, name: str) -> bool:
    """`value`, which must be True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}", path=name)
    return value


def measure(unit: Unit, *, count_cached: bool = True) -> Callable[[Cost], float]:
    """The function that says how many `unit`s a cost is. ConfigurationError for an unknown unit."""
    if unit not in UNITS:
        raise ConfigurationError(f"unit must be one of {', '.join(UNITS)}, not {unit!r}", path="unit")
    if unit == "tokens":
        return _tokens if count_cached else _fresh_tokens
    if unit == "input_tokens" and not count_cached:
        return _fresh_input
    return attrgetter(unit)


def _tokens(cost: Cost) -> float:
    return cost.input_tokens + cost.output_tokens


def _fresh_input(cost: Cost) -> float:
    return max(0.0, cost.input_tokens - cost.cached_tokens)


def _fresh_tokens(cost: Cost) -> float:
    return _fresh_input(cost) + cost.output_tokens
