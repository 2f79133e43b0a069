"""Where the calls of one class wait: tenants by least attained cost, a virtual deadline inside. Pure."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from andante.drain import DrainRate
from andante.errors import Rejected
from andante.row import Row
from andante.ticket import State, Ticket, Way

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from andante.gate import Gate
    from andante.service import ServiceClass

_REFUSED = State.REFUSED

_arrival = count()
_COMPACT_AT = 32

MARGIN = 1.1  # on forecasts


class _Tenant:
    """The waiting calls of one tenant, and the cost it has attained while it waited."""

    __slots__ = ("attained", "name", "place", "row", "waiting")

    def __init__(self, name: Hashable, attained: float) -> None:
        self.name = name
        self.attained = attained
        self.waiting = 0
        self.place = 0  # the serial of its entry in the order of tenants; older entries are void
        self.row = Row("key")


class Lane:
    """The part of the line in which the calls of one service class wait, and what is counted about them.

    Pushing, taking and removing cost O(log n); removed calls are swept out when they are more than half of a heap.
    """

    def __init__(self, service: ServiceClass, rank: int, shared: Iterable[Gate], size_bias: float) -> None:
        self.waiting = 0
        self.offered = self.started = self.refused = self.withdrawn = 0
        self.done = self.overloaded = self.ignored = 0
        self.credit = 0.0
        self.drain = DrainRate()
        self.watched = Row("latest")
        self._tenants: dict[Hashable, _Tenant] = {}
        self._order: list[tuple[float, int, _Tenant]] = []
        self._mean = 0.0
        self.plan(service, rank, shared, size_bias)

    def plan(self, service: ServiceClass, rank: int, shared: Iterable[Gate], size_bias: float) -> None:
        """Take these settings from now on."""
        self.service = service
        self.name = service.name
        self.rank = rank
        self.way = Way(shared, service.gates)
        self.horizon = service.horizon
        self.ttft, self.e2e, self.max_wait = (
            inf if value is None else float(value)  # type: ignore[arg-type]  # __post_init__ made it float
            for value in (service.ttft, service.e2e, service.max_wait)
        )
        self.patience = min(self.ttft, self.e2e, self.max_wait)  # latest start - arrival where no gate forecasts
        self.size_bias = size_bias
        longest = min(self.horizon, self.max_wait)
        self.drain.remember(max(2.0, longest) if longest < inf else 60.0)

    @property
    def inside(self) -> int:
        """Calls of this class that have started and not ended."""
        return self.started - self.done - self.overloaded - self.ignored

    def key(self, ticket: Ticket) -> float:
        """The virtual deadline: arrival + D * (1 + size_bias * min(4, size / mean size)), at most the call's own.

        The mean size is a moving average (0.02) over the calls that waited, which starts at the first of them.
        """
        if self.horizon == inf:
            return ticket.arrived
        size = ticket.cost.input_tokens or ticket.cost.requests
        mean = self._mean or size
        relative = size / mean if mean else 0.0
        if relative > 4.0:
            relative = 4.0
        key, deadline = ticket.arrived + self.horizon * (1 + self.size_bias * relative), ticket.call.deadline
        return key if key < deadline else deadline

    def latest_start(self, ticket: Ticket, now: float) -> float:
        """min(arrival + ttft - 1.1 first, arrival + e2e - 1.1 end, deadline - 1.1 end, arrival + max_wait).

        `first` and `end` are what the gates expect of this call. Past that moment it is refused, never started.
        """
        if not self.way.forecasts:
            latest, deadline = ticket.arrived + self.patience, ticket.call.deadline
            return latest if latest < deadline else deadline
        first = end = 0.0
        for expected in self.way.forecasts:
            soon, late = expected(ticket, now)
            first, end = max(first, soon), max(end, late)
        arrived = ticket.arrived
        return min(
            arrived + self.ttft - MARGIN * first,
            arrived + self.e2e - MARGIN * end,
            ticket.deadline - MARGIN * end,
            arrived + self.max_wait,
        )

    def push(self, ticket: Ticket, now: float) -> bool:
        """`ticket` waits. True if it stands at the head of its tenant."""
        if self.waiting == 0:
            self.credit = 0.0
            self.drain.begin(now)
        name = ticket.call.tenant
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(name, self._least())
            self._line_up(tenant)
        ticket.serial = next(_arrival)
        size = ticket.cost.input_tokens or ticket.cost.requests
        self._mean = self._mean + 0.02 * (size - self._mean) if self._mean else size
        in_order = tenant.row.add(ticket.key, ticket)
        tenant.waiting += 1
        self.waiting += 1
        return tenant.waiting == 1 or (not in_order and tenant.row.first() is ticket)

    def head(self) -> Ticket | None:
        """The call whose turn it is."""
        order = self._order
        while order:
            attained, place, tenant = order[0]
            if place != tenant.place:
                heappop(order)
                continue
            head: Ticket | None = tenant.row.first()
            if head is None:
                heappop(order)
            elif attained != tenant.attained and len(self._tenants) > 1:
                heappop(order)
                self._line_up(tenant)
            else:
                return head
        return None

    def take(self, ticket: Ticket, weight: float, now: float) -> None:
        """`ticket`, which waited and has that weight, starts."""
        self.started += 1
        tenant = self._tenants[ticket.call.tenant]
        tenant.attained += weight
        if ticket.arrived < now:  # who never waited says nothing about how fast those who wait move up
            self.drain.count(now)
        self._gone(tenant, now)

    def remove(self, ticket: Ticket, now: float) -> None:
        """`ticket`, whose state is no longer WAITING, does not wait any more."""
        self._gone(self._tenants[ticket.call.tenant], now)

    def refuse(self, ticket: Ticket, error: Exception) -> None:
        """`ticket` of this class is refused."""
        ticket.state = _REFUSED
        ticket.error = error
        self.refused += 1
        if isinstance(error, Rejected) and error.service is None:
            error.service = self.name

    def floor_covers_head(self) -> bool:
        """Whether the class has earned the start of the call whose turn it is here."""
        head = self.head()
        return head is not None and self.credit >= head.cost.weight

    def earn(self, weight: float) -> None:
        """Something of that cost has started elsewhere: the floor's share of it is credited while calls wait here."""
        if self.waiting:
            self.credit += self.service.floor * weight

    def spend(self, weight: float) -> None:
        """Something of that cost has started here."""
        self.credit = max(0.0, self.credit - weight * (1 - self.service.floor))

    def refund(self, ticket: Ticket) -> None:
        """`ticket` was taken but never ran: its tenant, if it still waits here, gets back what it was charged."""
        tenant = self._tenants.get(ticket.call.tenant)
        if tenant is not None and hasattr(ticket, "key"):  # else it started without the line, and was charged nothing
            tenant.attained = max(0.0, tenant.attained - ticket.cost.weight)
            self._line_up(tenant)

    def victim(self, ticket: Ticket) -> Ticket:
        """Whom to send away so that `ticket` may wait: the largest key of the tenant with the most calls waiting.

        `ticket` itself, not yet pushed, is counted among them. O(1) where it has its tenant's largest key, as newcomers
        mostly have; else O(n) in that tenant's calls.
        """
        longest, most = self._tenants.get(ticket.call.tenant), 1
        if longest is not None:
            most = longest.waiting + 1
        for tenant in self._tenants.values():
            if tenant.waiting > most:
                longest, most = tenant, tenant.waiting
        if longest is None:
            return ticket
        mine = longest.name == ticket.call.tenant
        if mine and longest.row.none_above(ticket.key):
            return ticket
        last = longest.row.last()
        return ticket if mine and ticket.key >= last.key else last

    def tickets(self) -> list[Ticket]:
        """All that wait here, in order of their keys."""
        tickets = [ticket for tenant in self._tenants.values() for ticket in tenant.row.waiting()]
        return sorted(tickets, key=lambda ticket: (ticket.key, ticket.serial))

    def rekey(self) -> None:
        """The settings have changed: those who wait take their new places."""
        for tenant in self._tenants.values():
            tickets = tenant.row.waiting()
            for ticket in tickets:
                ticket.way, ticket.key = self.way, self.key(ticket)
            tenant.row.fill(tickets)

    def _line_up(self, tenant: _Tenant) -> None:
        tenant.place = next(_arrival)
        heappush(self._order, (tenant.attained, tenant.place, tenant))

    def _least(self) -> float:
        """The smallest attained cost among the tenants that wait: where a new or idle one enters."""
        self.head()  # brings the true minimum to the top
        if not self._order:
            return 0.0
        attained, _, tenant = self._order[0]
        if attained != tenant.attained:  # while it was alone, its place in the order did not matter
            heappop(self._order)
            self._line_up(tenant)
        return tenant.attained

    def _gone(self, tenant: _Tenant, now: float) -> None:
        self.waiting -= 1
        tenant.waiting -= 1
        if tenant.waiting:
            if tenant.row.kept > 2 * tenant.waiting + _COMPACT_AT:
                tenant.row.sweep()
        else:
            del self._tenants[tenant.name]  # a tenant that waits for nothing is forgotten
            tenant.place = -1
            tenant.row.clear()  # the tenant may stand in the order of tenants for a while yet
            if len(self._order) > 2 * len(self._tenants) + _COMPACT_AT:
                self._order = [entry for entry in self._order if entry[1] == entry[2].place]
                heapify(self._order)
        if self.waiting:
            if self.watched.kept > 2 * self.waiting + _COMPACT_AT:
                self.watched.sweep()
        else:
            self.watched.clear()
            self.drain.pause(now)
