"""Permits that went into stream objects, which their owners may forget: ended at their deadlines."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from andante.errors import DeadlineOverrun
from andante.ticket import State

if TYPE_CHECKING:
    from andante.permit import Permit


class Lent:
    """Permits by deadline, in `heap`. One without a deadline is not kept: only its stream's finalizer
    covers it."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Permit]] = []
        self._serial = count()
        self._busy = False

    @property
    def next(self) -> float:
        """The earliest deadline; inf without one."""
        return self.heap[0][0] if self.heap else inf

    def add(self, permit: Permit) -> None:
        """`permit` is out of our hands."""
        if permit.deadline < inf:
            heappush(self.heap, (permit.deadline, next(self._serial), permit))

    def take_back(self, now: float) -> None:
        """End those whose deadline has come."""
        if self._busy:
            return  # ending one makes the admission look again, which leads here
        self._busy = True
        try:
            self._end_overdue(now)
        finally:
            self._busy = False

    def _end_overdue(self, now: float) -> None:
        while self.heap and (self.heap[0][0] <= now or self.heap[0][2].state is not State.ADMITTED):
            permit = heappop(self.heap)[2]
            if permit.state is State.ADMITTED:
                permit.fail(DeadlineOverrun(f"{permit.service}: the stream was still open at its deadline"))
                permit.close()
