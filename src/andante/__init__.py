"""andante: pace-aware admission for any async model-calling function.

Gates say how long a call should wait, one line orders who waits, and an `Admission` lets calls in at the pace that
their backend can sustain.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andante.admission import Admission as Admission
    from andante.controller import Controller as Controller
    from andante.deadline import request as request
    from andante.errors import AndanteError as AndanteError
    from andante.errors import Closed as Closed
    from andante.errors import ConfigurationError as ConfigurationError
    from andante.errors import CoolingDown as CoolingDown
    from andante.errors import CostTooLarge as CostTooLarge
    from andante.errors import DeadlineExpired as DeadlineExpired
    from andante.errors import DeadlineOverrun as DeadlineOverrun
    from andante.errors import DeadlineUnreachable as DeadlineUnreachable
    from andante.errors import LineFull as LineFull
    from andante.errors import Nested as Nested
    from andante.errors import Rejected as Rejected
    from andante.errors import Shed as Shed
    from andante.errors import UnderPressure as UnderPressure
    from andante.errors import WouldWait as WouldWait
    from andante.errors import WrongThread as WrongThread
    from andante.gate import Entry as Entry
    from andante.gate import Gate as Gate
    from andante.gates import AioLimiter as AioLimiter
    from andante.gates import Breaker as Breaker
    from andante.gates import Concurrency as Concurrency
    from andante.gates import Cooldown as Cooldown
    from andante.gates import TokenBucket as TokenBucket
    from andante.gates.natural_pace import IntertokenGate as IntertokenGate
    from andante.gates.natural_pace import Knee as Knee
    from andante.gates.natural_pace import MemoryCeiling as MemoryCeiling
    from andante.gates.natural_pace import NaturalPace as NaturalPace
    from andante.gates.natural_pace import PrefillWindow as PrefillWindow
    from andante.guard import guard as guard
    from andante.limits import AIMD as AIMD
    from andante.limits import Gradient2 as Gradient2
    from andante.limits import Vegas as Vegas
    from andante.permit import Permit as Permit
    from andante.reading import Reading as Reading
    from andante.reading import Signal as Signal
    from andante.service import ServiceClass as ServiceClass
    from andante.ticket import State as State
    from andante.ticket import Ticket as Ticket
    from andante.values import Account as Account
    from andante.values import Call as Call
    from andante.values import Cost as Cost
    from andante.values import Counts as Counts
    from andante.values import Decision as Decision
    from andante.values import Ending as Ending
    from andante.values import Outcome as Outcome
    from andante.values import Snapshot as Snapshot
    from andante.wrappers.stage import stage as stage

_HOMES = {
    "admission": ("Admission",),
    "controller": ("Controller",),
    "deadline": ("request",),
    "errors": (
        "AndanteError",
        "Closed",
        "ConfigurationError",
        "CoolingDown",
        "CostTooLarge",
        "DeadlineExpired",
        "DeadlineOverrun",
        "DeadlineUnreachable",
        "LineFull",
        "Nested",
        "Rejected",
        "Shed",
        "UnderPressure",
        "WouldWait",
        "WrongThread",
    ),
    "gate": ("Entry", "Gate"),
    "gates": ("AioLimiter", "Breaker", "Concurrency", "Cooldown", "TokenBucket"),
    "gates.natural_pace": ("IntertokenGate", "Knee", "MemoryCeiling", "NaturalPace", "PrefillWindow"),
    "guard": ("guard",),
    "limits": ("AIMD", "Gradient2", "Vegas"),
    "permit": ("Permit",),
    "reading": ("Reading", "Signal"),
    "service": ("ServiceClass",),
    "ticket": ("State", "Ticket"),
    "values": ("Account", "Call", "Cost", "Counts", "Decision", "Ending", "Outcome", "Snapshot"),
    "wrappers.stage": ("stage",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605  # a list of strings, made from the table above


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'andante' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"andante.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
