"""What happened, as values, and who may listen. Metrics and logs are listeners, never imports of the core.

An event is shared by all listeners: never change one. That is not enforced: a frozen dataclass takes three times
as long to make, and there are three events to a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from andante.errors import Rejected
    from andante.values import Call, Outcome


@dataclass(slots=True)
class Event:
    """What every event carries: the admission's name, the service class, and the time on the admission's clock."""

    admission: str
    service: str
    at: float


@dataclass(slots=True)
class Offered(Event):
    """A call arrived."""

    call: Call


@dataclass(slots=True)
class Waiting(Event):
    """It could not start at once and stands in the line. `gate` holds it (None: others are in front)."""

    call: Call
    gate: str | None


@dataclass(slots=True)
class Admitted(Event):
    """It started, after `waited` seconds in the line. `queued` tells whether it stood in the line at all."""

    call: Call
    waited: float
    queued: bool


@dataclass(slots=True)
class First(Event):
    """Its first result came, `ttft` seconds after its start."""

    call: Call
    ttft: float


@dataclass(slots=True)
class Left(Event):
    """It ended; `outcome` is complete. `waited` is its time in the line."""

    call: Call
    outcome: Outcome
    waited: float


@dataclass(slots=True)
class Refused(Event):
    """It was refused, `waited` seconds after it came. `queued` tells whether it stood in the line."""

    call: Call
    error: Rejected
    waited: float
    queued: bool


@dataclass(slots=True)
class Withdrawn(Event):
    """Its caller left while it waited, or after the grant but before it ran."""

    call: Call
    waited: float


@dataclass(slots=True)
class LimitChanged(Event):
    """A gate's limit is `limit` now. `service` is empty: it concerns the gate."""

    gate: str
    limit: float


@dataclass(slots=True)
class SignalChanged(Event):
    """A signal became known, missing or stale. `state` is `"fresh"`, `"stale"` or `"missing"`."""

    signal: str
    state: str


class Listener(Protocol):
    """Anything with `on(event)`. It is called synchronously and must not block; what it raises is reported once per
    listener and never breaks a call."""

    def on(self, event: Event) -> None: ...
