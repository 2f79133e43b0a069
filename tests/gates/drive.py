"""Calls through a real `Controller`, in time that a heap of events makes: no event loop, no clock."""

from __future__ import annotations

from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from andante.controller import Controller
from andante.ticket import State, Ticket
from andante.values import Call, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from andante.gate import Gate
    from andante.service import ServiceClass

PLAIN = Call()

Ends = tuple[float, Outcome]
"""How long a call lasts once it has started, and how it ends."""


class Drive:
    """Send calls with `call` (or anything with `at`), then `run`. `started` holds (time, ticket) in order."""

    def __init__(self, *gates: Gate, classes: Sequence[ServiceClass] | None = None) -> None:
        self.controller = Controller(*gates) if classes is None else Controller(*gates, classes=classes)
        self.now = 0.0
        self.started: list[tuple[float, Ticket]] = []
        self.refused: list[tuple[float, Ticket]] = []
        self.tickets: list[Ticket] = []
        self._ends: dict[Ticket, Callable[[Ticket], Ends]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        heappush(self._events, (time, next(self._serial), action))

    def call(self, time: float, call: Call = PLAIN, ends: Callable[[Ticket], Ends] | None = None) -> None:
        """`call` arrives at `time`; `ends(ticket)`, asked at its start, says how it ends. Default: DONE at once."""
        self.at(time, lambda: self._arrive(call, ends or (lambda _: (0.0, Outcome()))))

    def run(self, until: float) -> Drive:
        while True:
            look = self.controller.next_look(self.now)
            event = self._events[0][0] if self._events else until + 1
            if min(look, event) > until:
                self.now = until
                return self
            if event <= look:
                self.now, _, action = heappop(self._events)
                action()
            else:
                self.now = max(self.now, look)
            self._changed(self.controller.step(self.now))

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.started]

    def _arrive(self, call: Call, ends: Callable[[Ticket], Ends]) -> None:
        ticket = self.controller.offer(call, self.now)
        self.tickets.append(ticket)
        self._ends[ticket] = ends
        if ticket.state is not State.WAITING:
            self._changed([ticket])

    def _changed(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            if ticket.state is State.ADMITTED:
                self.started.append((self.now, ticket))
                seconds, outcome = self._ends.pop(ticket)(ticket)
                self.at(self.now + seconds, lambda t=ticket, o=outcome: self.controller.leave(t, o, self.now))
            elif ticket.state is State.REFUSED:
                self.refused.append((self.now, ticket))


def fullest_window(entries: Iterable[tuple[float, float]], period: float) -> Fraction:
    """The most that entered in any half-open window [t, t + period), of (time, amount); exact."""
    points = sorted((Fraction(time), Fraction(amount)) for time, amount in entries)
    most, held, first = Fraction(0), Fraction(0), 0
    for time, amount in points:
        held += amount
        while time - points[first][0] >= period:
            held -= points[first][1]
            first += 1
        most = max(most, held)
    return most
