"""What stands before an engine: one controller, or several that each see only their own calls."""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Protocol

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.service import ServiceClass
from andante.ticket import State, Ticket
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from andante.simulate.workload import ClientClass
    from andante.values import Call, Outcome


class Gateway(Protocol):
    """What a replay asks of whoever decides: a `Controller` is one. Its methods are those of `Controller`."""

    def offer(self, call: Call, now: float) -> Ticket: ...
    def withdraw(self, ticket: Ticket, now: float) -> None: ...
    def progress(self, ticket: Ticket, items: float, now: float) -> None: ...
    def leave(self, ticket: Ticket, outcome: Outcome, now: float) -> None: ...
    def step(self, now: float) -> list[Ticket]: ...
    def next_look(self, now: float) -> float: ...


class Gateways:
    """Several gateways before one engine. Each hears of its own calls only; a client comes to one of them.

    Args:
        gateways: at least one. Give each gates of its own.
        shares: of the clients, one for each gateway, taken relative to their sum; clients then choose at random. None:
            they go round in turn.
        seed: of the choice at random.

    Raises ConfigurationError for no gateways, and for shares that are not one number >= 0 each, not all 0.
    """

    def __init__(self, *gateways: Gateway, shares: Sequence[float] | None = None, seed: int = 0) -> None:
        if not gateways:
            raise ConfigurationError("Gateways() needs at least one gateway", path="gateways")
        if shares is not None and (
            len(shares) != len(gateways)
            or not all(is_number(share) and isfinite(share) and share >= 0 for share in shares)
            or sum(shares) <= 0
        ):
            raise ConfigurationError(
                f"shares must be {len(gateways)} finite numbers >= 0, not all 0, not {shares!r}", path="shares"
            )
        self.gateways = gateways
        self._bounds = list(accumulate(shares)) if shares is not None else None
        self._draw = random.Random(seed)
        self._turn = -1
        self._of: dict[Ticket, Gateway] = {}  # whose a ticket is that is not over

    def offer(self, call: Call, now: float) -> Ticket:
        gateway = self.gateways[self._choose()]
        ticket = gateway.offer(call, now)
        if ticket.state is not State.REFUSED:
            self._of[ticket] = gateway
        return ticket

    def withdraw(self, ticket: Ticket, now: float) -> None:
        self._of.pop(ticket).withdraw(ticket, now)

    def progress(self, ticket: Ticket, items: float, now: float) -> None:
        self._of[ticket].progress(ticket, items, now)

    def leave(self, ticket: Ticket, outcome: Outcome, now: float) -> None:
        self._of.pop(ticket).leave(ticket, outcome, now)

    def step(self, now: float) -> list[Ticket]:
        changed = [ticket for gateway in self.gateways for ticket in gateway.step(now)]
        for ticket in changed:
            if ticket.state is State.REFUSED:
                self._of.pop(ticket, None)
        return changed

    def next_look(self, now: float) -> float:
        return min(gateway.next_look(now) for gateway in self.gateways)

    def _choose(self) -> int:
        if self._bounds is not None:
            return bisect(self._bounds, self._draw.random() * self._bounds[-1])
        self._turn = (self._turn + 1) % len(self.gateways)
        return self._turn

    def __repr__(self) -> str:
        return f"<Gateways: {len(self.gateways)}, {len(self._of)} calls inside or waiting>"


def uncontrolled(clients: Iterable[ClientClass]) -> Controller[Ticket]:
    """A gateway that lets everybody of these classes in at once: for clients who go to the engine past all control."""
    return Controller(classes=[ServiceClass(client.name) for client in clients])
