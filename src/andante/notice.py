"""Telling listeners what happened. What a listener raises is reported once and never breaks a call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from andante import errors
from andante.events import Admitted, Event, First, Left, LimitChanged, Listener, Offered, Refused, Waiting, Withdrawn

if TYPE_CHECKING:
    from andante.admission import Admission
    from andante.gate import Gate
    from andante.permit import Permit
    from andante.values import Outcome

_log = logging.getLogger("andante")


class Notices:
    """The events of one admission. Nothing here is called unless somebody is `listening`."""

    def __init__(self, admission: Admission, listeners: tuple[Listener, ...]) -> None:
        for listener in listeners:
            if not callable(getattr(listener, "on", None)):
                raise errors.ConfigurationError(f"a listener needs a method on(event): {listener!r}", path="listeners")
        self._admission = admission
        self._name = admission.name
        self._listeners = listeners
        self.listening = bool(listeners)
        self._broken: set[int] = set()
        self._limits: dict[Gate, float] = {}
        self._began = False

    def tell(self, event: Event) -> None:
        """Hand `event` to every listener."""
        for listener in self._listeners:
            try:
                listener.on(event)
            except Exception:
                what = type(event).__name__
                self._report(
                    listener, "listener %r failed on %s; further failures of it are not reported", listener, what
                )

    def offered(self, permit: Permit, now: float) -> None:
        if not self._began:
            self.gates_changed()
        name, service, call, started = self._name, permit.lane.name, permit.call, permit.started
        self.tell(Offered(name, service, now, call))
        if started is not None:
            self.tell(Admitted(name, service, now, call, started - permit.arrived, permit.queued))

    def waiting(self, permit: Permit, now: float) -> None:
        self.tell(Waiting(self._admission.name, permit.service, now, permit.call, permit.gate))

    def admitted(self, permit: Permit, now: float) -> None:
        self.tell(Admitted(self._admission.name, permit.service, now, permit.call, permit.waited(now), permit.queued))

    def first(self, permit: Permit, now: float) -> None:
        ttft = cast("float", permit.first) - cast("float", permit.started)
        self.tell(First(self._admission.name, permit.service, now, permit.call, ttft))

    def left(self, permit: Permit, outcome: Outcome, now: float) -> None:
        waited = (now if permit.started is None else permit.started) - permit.arrived
        self.tell(Left(self._name, permit.lane.name, now, permit.call, outcome, waited))

    def refused(self, permit: Permit, now: float) -> None:
        error = permit.error
        if not isinstance(error, errors.Rejected):
            error = errors.Rejected(f"a gate failed: {error!r}", service=permit.service)
        self.tell(
            Refused(self._admission.name, permit.service, now, permit.call, error, permit.waited(now), permit.queued)
        )

    def withdrawn(self, permit: Permit, now: float) -> None:
        self.tell(Withdrawn(self._admission.name, permit.service, now, permit.call, permit.waited(now)))

    def gates_changed(self) -> None:
        """Tell of every limit that is not what it was."""
        self._began = True
        now = self._admission.now()
        for gate in self._admission.controller.plan.all_gates():
            try:
                limit = gate.snapshot(now).get("limit")
            except Exception:
                self._report(gate, "%r failed to give a snapshot; further failures of it are not reported", gate)
                continue
            if isinstance(limit, (int, float)) and self._limits.get(gate) != limit:
                self._limits[gate] = limit
                self.tell(LimitChanged(self._admission.name, "", now, gate.name, float(limit)))

    def _report(self, culprit: object, message: str, *args: object) -> None:
        """Log the exception being handled, once for each culprit."""
        if id(culprit) not in self._broken:
            self._broken.add(id(culprit))
            _log.exception(message, *args)
