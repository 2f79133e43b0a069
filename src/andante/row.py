"""Waiting tickets in the order of one of their attributes, made for values that mostly ascend. Pure."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from andante.ticket import State, Ticket

if TYPE_CHECKING:
    from collections.abc import Iterable

_WAITING = State.WAITING
_LOOSE = 32
_serial = attrgetter("serial")


class Row:
    """Tickets by the value of one attribute, which stands still while they are in here; of equals, who was added first.

    Who comes in order is appended, O(1), and costs nothing but a place in a list: the garbage collector has no object
    more to look at. Only who comes out of order goes to a heap. Tickets leave by ceasing to wait: they are passed over
    when their turn comes, and swept out by `sweep`.

    Attributes:
        kept: how many are kept, those included that wait no more and have not been passed over.
    """

    __slots__ = ("_at", "_front", "_heap", "_tickets", "_top", "_value", "kept")

    def __init__(self, attribute: str) -> None:
        self.kept = 0
        self._value: Any = attrgetter(attribute)
        self._tickets: list[Any] = []  # ascending from `_at` on; None before it
        self._at = 0
        self._heap: list[tuple[float, int, Ticket]] = []
        self._top = -inf  # no value in here is larger
        self._front: Any = None  # the first, if it still waits

    def add(self, value: float, ticket: Ticket) -> bool:
        """`ticket` has that value. True if that is at least as large as all the others."""
        self.kept += 1
        if value >= self._top:
            self._top = value
            self._tickets.append(ticket)
            return True
        heappush(self._heap, (value, ticket.serial, ticket))
        if self._front is not None and value < self._value(self._front):
            self._front = ticket
        return False

    def first(self) -> Any:
        """The waiting ticket with the smallest value; None if none waits."""
        front = self._front
        if front is not None and front.state is _WAITING:
            return front
        tickets, at = self._tickets, self._at
        before, end = at, len(tickets)
        while at < end and tickets[at].state is not _WAITING:
            tickets[at] = None
            at += 1
        self.kept -= at - before
        if at == end or 2 * at > end + _LOOSE:
            del tickets[:at]
            at = 0
        self._at = at
        front = self._front = self._first_of_both() if self._heap or not tickets else tickets[at]
        return front

    def _first_of_both(self) -> Ticket | None:
        tickets, heap = self._tickets, self._heap
        while heap and heap[0][2].state is not _WAITING:
            heappop(heap)
            self.kept -= 1
        front: Ticket | None = tickets[self._at] if tickets else None
        if not heap:
            if front is None:
                self._top = -inf
            return front
        # Of equal values the one in the list came first: only what is at least as large as all others is appended.
        return heap[0][2] if front is None or heap[0][0] < self._value(front) else front

    def pop(self) -> None:
        """Take out the first, which waits."""
        first, self._front = self.first(), None
        self.kept -= 1
        if self._heap and self._heap[0][2] is first:
            heappop(self._heap)
        else:
            self._tickets[self._at] = None
            self._at += 1

    def last(self) -> Ticket:
        """The waiting ticket with the largest value, of equals the last. O(n)."""
        self.sweep()
        last: Ticket = self._tickets[-1]
        return last

    def none_above(self, value: float) -> bool:
        """Whether no ticket in here has a larger value."""
        return value >= self._top

    def waiting(self) -> list[Ticket]:
        """All who wait, in no order."""
        tickets = [ticket for ticket in self._tickets[self._at :] if ticket.state is _WAITING]
        tickets += [entry[2] for entry in self._heap if entry[2].state is _WAITING]
        return tickets

    def fill(self, tickets: Iterable[Ticket]) -> None:
        """Hold these from now on; of equals, who joined the line first stands first."""
        self._tickets = sorted(tickets, key=_serial)
        self._tickets.sort(key=self._value)
        self.kept = len(self._tickets)
        self._at = 0
        self._front = None
        self._heap.clear()
        self._top = self._value(self._tickets[-1]) if self._tickets else -inf

    def clear(self) -> None:
        """Hold nobody, and let go of everybody at once."""
        if self.kept or self._tickets:
            self._tickets.clear()
            self._heap.clear()
        self.kept = self._at = 0
        self._top = -inf
        self._front = None

    def sweep(self) -> None:
        """Keep only those who wait."""
        self.fill(self.waiting())
