"""Policies by name: those that are built in, and Python functions, `module:function`."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from andante.controller import Controller
from andante.errors import AndanteError, ConfigurationError
from andante.gate import Gate
from andante.gates.concurrency import Concurrency, Estimate
from andante.simulate.codel import codel_lifo
from andante.simulate.gateways import Gateways
from andante.simulate.policies import Policy, aiolimiter, no_control, semaphore
from andante.simulate.replay import replay
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import service_classes

if TYPE_CHECKING:
    from andante.simulate.engine import EngineModel
    from andante.simulate.profiles import EngineProfile
    from andante.simulate.record import Progress, Record, Tells
    from andante.simulate.workload import ClientClass, Request

Factory = Callable[[list["ClientClass"]], Any]
"""Takes the classes of the clients, the most urgent first, and returns what stands before the engine in one replay: a
gate, several gates, none (`[]`), a `Controller`, `Gateways`, or a `Policy`."""

BUILT_IN = "none, semaphore:N, aiolimiter:RATE, static:N, natural-pace, aimd, vegas, gradient2, codel-lifo:N"
"""The names of the built-in ones. N: calls at once. RATE: calls a second."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One policy of a comparison.

    Attributes:
        name: as it was given.
        factory: see `Factory`.
        source: the file in which it is written; None for a built-in one.
    """

    name: str
    factory: Factory
    source: str | None = None

    def made(self, clients: Sequence[ClientClass]) -> Controller[Any] | Gateways | Policy:
        """What its factory makes, fresh: gates come in a controller with the objectives of `clients`.

        Raises ConfigurationError, naming the policy, for a factory that raises, or returns something else.
        """
        try:
            made = self.factory(list(clients))
            if isinstance(made, (Controller, Gateways)):
                return made
            if isinstance(made, Gate):
                made = [made]
            if isinstance(made, (list, tuple)) and all(isinstance(gate, Gate) for gate in made):
                return Controller(*made, classes=service_classes(clients))
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"policy {self.name}: {said(error)}", path="compare") from error
        if callable(made) and not isinstance(made, type):
            return cast("Policy", made)
        raise ConfigurationError(
            f"policy {self.name}: its factory must return a gate, a list of gates, a Controller, Gateways or a "
            f"Policy, not {made!r}",
            path="compare",
        )

    def check(self, clients: Sequence[ClientClass]) -> None:
        """Makes it twice, as a campaign will, and looks whether the two share a gate. Raises ConfigurationError."""
        first, second = self.made(clients), self.made(clients)
        shared: Any = first if first is second and isinstance(first, (Controller, Gateways)) else None
        if shared is None and isinstance(first, Controller) and isinstance(second, Controller):
            shared = next((gate for gate in first.plan.gates if gate in second.plan.gates), None)
        if shared is not None:
            raise ConfigurationError(
                f"policy {self.name}: its factory returned {shared!r} twice; make a new one each time, since what it "
                "has learned must not pass from one replay to the next",
                path="compare",
            )

    def serve(
        self,
        requests: Sequence[Request],
        engine: EngineProfile | EngineModel,
        clients: Sequence[ClientClass],
        *,
        tells: Tells = "streams",
        progress: Progress | None = None,
    ) -> list[Record]:
        """Serves `requests` with `engine` behind it. Raises ConfigurationError where the policy fails on the way."""
        made = self.made(clients)
        try:
            if isinstance(made, (Controller, Gateways)):
                return replay_controller(requests, engine, made, tells=tells, progress=progress)
            return replay(requests, engine, made, tells=tells, progress=progress)
        except Exception as error:
            raise ConfigurationError(f"policy {self.name}: {said(error)}", path="compare") from error


def contender(name: str) -> Contender:
    """The policy called `name`: built in (`BUILT_IN`), or `module:function`, whose module is imported.

    Raises ConfigurationError for a name, a module, a function or a parameter that makes no sense.
    """
    head, colon, rest = name.partition(":")
    if head in _PLAIN:
        if colon:
            raise ConfigurationError(f"policy {head} takes no parameter, so not {name!r}", path="compare")
        return Contender(name, _PLAIN[head])
    if head in _WITH_NUMBER:
        return Contender(name, _WITH_NUMBER[head](name, rest))
    if not colon or not head or not rest:
        raise ConfigurationError(
            f"no policy {name!r}; there are {BUILT_IN}, and your own as module:function", path="compare"
        )
    return _imported(name, head, rest)


def said(error: BaseException) -> str:
    """What went wrong in somebody's code, and where, in one line."""
    if isinstance(error, AndanteError):
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _imported(name: str, module: str, function: str) -> Contender:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise ConfigurationError(
                f"policy {name}: no module {error.name!r}, neither installed nor in the current directory; built-in "
                f"policies are {BUILT_IN}",
                path="compare",
            ) from error
        raise ConfigurationError(f"policy {name}: importing {module}: {said(error)}", path="compare") from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"policy {name}: importing {module}: {said(error)}", path="compare") from error
    factory = getattr(loaded, function, None)
    if not callable(factory):
        what = "no function" if factory is None else f"a {type(factory).__name__}, not a function, called"
        raise ConfigurationError(
            f"policy {name}: {module} has {what} {function!r}; it must be a function of the list of client classes",
            path="compare",
        )
    return Contender(name, factory, getattr(loaded, "__file__", None))


# The built-in ones. -----------------------------------------------------------------------------------------------


def _natural_pace(_: list[ClientClass]) -> Gate:
    from andante.gates.natural_pace import NaturalPace

    return NaturalPace()


def _estimated(name: str) -> Factory:
    def make(_: list[ClientClass]) -> list[Gate]:
        estimate: Estimate = getattr(importlib.import_module("andante.limits"), name)()
        return [Concurrency(estimate)]

    return make


def _places(make: Callable[[int], Factory]) -> Callable[[str, str], Factory]:
    def parse(name: str, text: str) -> Factory:
        if not text.isdecimal() or int(text) < 1:
            raise ConfigurationError(
                f"policy {name!r}: give a whole number of calls at once above 0, as in {name.partition(':')[0]}:64",
                path="compare",
            )
        return make(int(text))

    return parse


def _rate(name: str, text: str) -> Factory:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < inf:
        raise ConfigurationError(
            f"policy {name!r}: give a rate in calls a second above 0, as in aiolimiter:8.5", path="compare"
        )
    try:
        policy = aiolimiter(rate)
    except ImportError as error:
        raise ConfigurationError(
            f"policy {name}: aiolimiter is not installed; install andante[aiolimiter], or leave the policy out",
            path="compare",
        ) from error
    return lambda _: policy


_PLAIN: dict[str, Factory] = {
    "none": lambda _: no_control,
    "natural-pace": _natural_pace,
    "aimd": _estimated("AIMD"),
    "vegas": _estimated("Vegas"),
    "gradient2": _estimated("Gradient2"),
}
_WITH_NUMBER: dict[str, Callable[[str, str], Factory]] = {
    "semaphore": _places(lambda places: lambda _: semaphore(places)),
    "static": _places(lambda places: lambda _: [Concurrency(places)]),
    "codel-lifo": _places(lambda places: lambda _: codel_lifo(places)),
    "aiolimiter": _rate,
}
