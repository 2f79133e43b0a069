"""A scenario in a TOML file: which engine, how much load, whose calls. The demo's is packaged."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from math import inf
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.simulate.profiles import profile
from andante.simulate.workload import ClientClass
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a demo run assumes.

    Attributes:
        profile: name of the engine's profile.
        load: calls offered, as a multiple of what the engine can serve.
        seed: of the assignment of calls to classes.
        seconds: how much of the trace, before it is sped up.
        speed_up: how much faster the packaged trace must run on `profile` for load 1.
        concurrencies: at which the engine is measured; the cap is one of them.
        clients: the classes, from the most urgent to the least.
    """

    profile: str
    load: float
    seed: int
    seconds: float
    speed_up: float
    concurrencies: tuple[int, ...]
    clients: tuple[ClientClass, ...]

    @property
    def itl(self) -> float:
        """The tightest itl objective, seconds; inf where no class has one."""
        return min(client.itl for client in self.clients)

    def changed(self, *, profile: str | None = None, load: float | None = None, seed: int | None = None) -> Scenario:
        """The same with these in place of its own; None keeps what is."""
        return replace(
            self,
            profile=self.profile if profile is None else profile,
            load=self.load if load is None else load,
            seed=self.seed if seed is None else seed,
        )


def parse_scenario(text: str, *, source: str = "scenario") -> Scenario:
    """The scenario in a TOML text, laid out as `simulate/data/demo.toml`, which explains each field.

    Raises ConfigurationError, naming `source` and the field, for anything missing, unknown or of the wrong kind.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: {error}", path="scenario") from error
    try:
        name = _take(data, "profile", str)
        profile(name)
        load_one, cap = _take(data, "load_one", dict), _take(data, "cap", dict)
        scenario = Scenario(
            profile=name,
            load=_positive(data, "load"),
            seed=_take(data, "seed", int),
            seconds=_positive(data, "seconds"),
            speed_up=_positive(load_one, "capacity") / _positive(load_one, "rate"),
            concurrencies=tuple(sorted(_take(cap, "concurrencies", list))),
            clients=tuple(_client(entry) for entry in _take(data, "classes", list)),
        )
        if not scenario.concurrencies or not all(type(n) is int and n > 0 for n in scenario.concurrencies):
            raise ConfigurationError("concurrencies must be whole numbers above 0", path="concurrencies")
        if not scenario.clients:
            raise ConfigurationError("there must be at least one class", path="classes")
        for rest in (data, load_one, cap):
            if rest:
                raise ConfigurationError(f"unknown field {next(iter(rest))!r}", path=next(iter(rest)))
    except (ConfigurationError, TypeError) as error:
        raise ConfigurationError(f"{source}: {error}", path=getattr(error, "path", None)) from error
    return scenario


def demo_scenario() -> Scenario:
    """The packaged scenario of `andante demo`."""
    return parse_scenario((files("andante.simulate") / "data" / "demo.toml").read_text("utf-8"), source="demo.toml")


def _client(entry: Mapping[str, Any]) -> ClientClass:
    known = {field.name for field in fields(ClientClass)}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ConfigurationError(f"class {entry.get('name')!r}: unknown field {unknown[0]!r}", path=unknown[0])
    return ClientClass(**entry)


def _take(data: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """Takes the field out of `data`; what stays there is unknown."""
    if name not in data:
        raise ConfigurationError(f"no field {name!r}", path=name)
    value = data.pop(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ConfigurationError(f"{name} must be of type {kind.__name__}, not {value!r}", path=name)
    return value


def _positive(data: dict[str, Any], name: str) -> float:
    value = data.pop(name, None)
    if not is_number(value) or not 0 < value < inf:
        raise ConfigurationError(f"{name} must be a finite number above 0, not {value!r}", path=name)
    return float(value)
