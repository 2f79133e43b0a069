"""What a controller works by: its gates and the lanes of its classes. Checked when made, changeable in use."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import TYPE_CHECKING, TypeVar

from andante.errors import ConfigurationError
from andante.gate import Gate
from andante.lane import Lane
from andante.service import ServiceClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.ticket import Ticket

V = TypeVar("V")

DEFAULT = "default"


class Plan:
    """Gates, lanes in rank order, and what is derived from them."""

    def __init__(
        self,
        gates: tuple[Gate, ...],
        classes: Iterable[ServiceClass],
        size_bias: float,
        look_again: Callable[[], None],
    ) -> None:
        self._look_again = look_again
        self._held: tuple[Gate, ...] = ()
        self.gates: tuple[Gate, ...] = ()
        self.size_bias = 0.0
        self.lanes: tuple[Lane, ...] = ()
        self.retired: dict[str, Lane] = {}
        self.by_name: dict[str, Lane] = {}  # the same dict for ever; also knows what "default" means here
        self.sharing = False  # whether another controller holds one of the gates
        self.change(gates, _listed(classes, "classes") or (ServiceClass(DEFAULT),), size_bias)

    @property
    def classes(self) -> tuple[ServiceClass, ...]:
        """The service classes in rank order."""
        return tuple(lane.service for lane in self.lanes)

    def resolve(self, name: str) -> Lane:
        """The lane of the class `name`; "default" is the last class where none has that name."""
        lane = self.by_name.get(name)
        if lane is None:
            known = ", ".join(lane.name for lane in self.lanes)
            raise ConfigurationError(
                f"no service class is named {name!r}; this admission knows: {known}", path="service"
            )
        return lane

    def change(self, gates: Iterable[Gate], classes: Iterable[ServiceClass], size_bias: float) -> list[Lane]:
        """Work by these from now on. Nothing changes if they make no sense (ConfigurationError).

        Lanes keep their counts, by name. Returns those whose class is gone; who waits there has to be sent away.
        """
        gates, classes = _listed(gates, "gates"), _listed(classes, "classes")
        _check(gates, classes, size_bias)
        self.gates, self.size_bias = gates, float(size_bias)
        before = {lane.name: lane for lane in self.lanes} | self.retired
        lanes = []
        for rank, service in enumerate(classes):
            lane = before.pop(service.name, None)
            if lane is None:
                lane = Lane(service, rank, gates, size_bias)
            else:
                lane.plan(service, rank, gates, size_bias)
                lane.rekey()
            lanes.append(lane)
        self.lanes, self.retired = tuple(lanes), before
        self.by_name.clear()
        self.by_name.update((lane.name, lane) for lane in lanes)
        self.by_name.setdefault(DEFAULT, lanes[-1])
        self.turns = tuple((lane, False) for lane in lanes)
        self.floors = tuple(lane for lane in lanes if lane.service.floor)
        self.deferrable = tuple(lane for lane in lanes if lane.service.deferrable)
        self.looks = tuple({look.__self__: look for lane in lanes for look in lane.way.looks}.values())  # type: ignore[attr-defined]
        return list(before.values())

    def take_inside(self, ticket: Ticket, now: float) -> None:
        """The plan has changed while `ticket` was inside: gates that are new on its way are told of it.

        Gates that are gone from the plan still hear when it leaves.
        """
        lane = ticket.lane
        gates = self.gates if self.retired.get(lane.name) is lane else lane.way.gates
        new = [gate for gate in gates if gate not in ticket.way.gates]
        if new:
            ticket.way = ticket.way.joined(new)
            for gate in new:
                gate.enter(ticket, now)

    def count_sharers(self) -> None:
        """Find out again whether any gate is held by others too."""
        self.sharing = any(len(gate.holders()) > 1 for gate in self._held)

    def tell_sharers(self, ticket: Ticket) -> None:
        """`ticket` gave something back: whoever else holds one of its gates looks again."""
        for gate in ticket.way.gates:
            if len(gate.holders()) > 1:
                gate.changed()

    def all_gates(self) -> tuple[Gate, ...]:
        """Every gate of the admission and of its classes, once."""
        return self._held

    def hold(self) -> None:
        """Take the gates of the lanes and let go of others; to be called after a change, by a controller in order."""
        gates = tuple(dict.fromkeys(gate for lane in self.lanes for gate in lane.way.gates))
        for gate in self._held:
            if gate not in gates:
                gate.detach(self._look_again)
        before, self._held = self._held, gates
        for gate in gates:
            gate.bind(self.classes)
            if gate not in before:
                gate.attach(self._look_again)
        self.count_sharers()


def _listed(values: Iterable[V], name: str) -> tuple[V, ...]:
    if not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} must be a list or tuple, not {values!r}", path=name)
    return tuple(values)


def _check(gates: tuple[Gate, ...], classes: tuple[ServiceClass, ...], size_bias: float) -> None:
    for gate in gates:
        if not isinstance(gate, Gate):
            raise ConfigurationError(f"an admission is made of gates, not of {gate!r}", path="gates")
    if not classes:
        raise ConfigurationError("an admission needs at least one service class", path="classes")
    seen: set[str] = set()
    for service in classes:
        if not isinstance(service, ServiceClass):
            raise ConfigurationError(f"classes must hold ServiceClass objects, not {service!r}", path="classes")
        if service.name in seen:
            raise ConfigurationError(f"two service classes are named {service.name!r}", path="classes")
        seen.add(service.name)
        way = gates + service.gates
        for gate in way:
            if sum(gate is other for other in way) > 1:
                raise ConfigurationError(f"{gate!r} stands twice on the way of class {service.name!r}", path="gates")
    if sum(service.floor for service in classes) > 1 + 1e-9:
        raise ConfigurationError("the floors of all classes together must not exceed 1", path="floor")
    if (
        isinstance(size_bias, bool)
        or not isinstance(size_bias, (int, float))
        or isnan(size_bias)
        or not 0 <= size_bias < 1e9
    ):
        raise ConfigurationError(f"size_bias must be a number >= 0, not {size_bias!r}", path="size_bias")
