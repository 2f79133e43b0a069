"""What a gateway hears imperfectly: tokens in chunks, news late, prompts counted wrong or already cached."""

from __future__ import annotations

import random
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import exp, inf, log
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from andante.simulate.gateways import Gateway
    from andante.simulate.workload import Request
    from andante.ticket import Ticket
    from andante.values import Call, Outcome


class Chunks:
    """The gateway hears of tokens in chunks of `tokens`: the first one at once, as vLLM's `stream_interval` sends them,
    and what is left with the end.

    Args:
        gateway: who hears.
        tokens: of a chunk, at least 1.
        counted: True: a chunk of k is told as k items; False: as one, as to a client that counts events. Only the usage
            at the end then says how many tokens there were.
    """

    def __init__(self, gateway: Gateway, tokens: int, *, counted: bool = True) -> None:
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise ConfigurationError(f"tokens must be a whole number above 0, not {tokens!r}", path="tokens")
        self.gateway = gateway
        self._tokens = tokens
        self._counted = counted
        self._held: dict[Ticket, float] = {}  # tokens not told yet, of those that have begun

    def offer(self, call: Call, now: float) -> Ticket:
        return self.gateway.offer(call, now)

    def withdraw(self, ticket: Ticket, now: float) -> None:
        self.gateway.withdraw(ticket, now)

    def progress(self, ticket: Ticket, items: float, now: float) -> None:
        held = self._held.get(ticket)
        if held is None:
            self._held[ticket] = 0.0
            self._tell(ticket, items, now)
        elif held + items >= self._tokens:
            self._held[ticket] = 0.0
            self._tell(ticket, held + items, now)
        else:
            self._held[ticket] = held + items

    def leave(self, ticket: Ticket, outcome: Outcome, now: float) -> None:
        held = self._held.pop(ticket, 0.0)
        if held:
            self._tell(ticket, held, now)
        self.gateway.leave(ticket, outcome, now)

    def step(self, now: float) -> list[Ticket]:
        return self.gateway.step(now)

    def next_look(self, now: float) -> float:
        return self.gateway.next_look(now)

    def _tell(self, ticket: Ticket, items: float, now: float) -> None:
        self.gateway.progress(ticket, items if self._counted else 1, now)


class Late:
    """The gateway hears of tokens and ends up to `seconds` late, evenly distributed; of one call always in order.

    Args:
        gateway: who hears.
        seconds: the largest delay (default 0.05).
        seed: of the delays.
    """

    def __init__(self, gateway: Gateway, seconds: float = 0.05, *, seed: int = 0) -> None:
        if not is_number(seconds) or not 0 < seconds < inf:
            raise ConfigurationError(f"seconds must be a finite number above 0, not {seconds!r}", path="seconds")
        self.gateway = gateway
        self._seconds = seconds
        self._draw = random.Random(seed)
        self._latest: dict[Ticket, float] = {}  # when the last news of a call will have come
        self._news: list[tuple[float, int, Callable[[float], None]]] = []
        self._serial = count()

    def offer(self, call: Call, now: float) -> Ticket:
        self._deliver(now)
        return self.gateway.offer(call, now)

    def withdraw(self, ticket: Ticket, now: float) -> None:
        self._deliver(now)
        self.gateway.withdraw(ticket, now)

    def progress(self, ticket: Ticket, items: float, now: float) -> None:
        self._send(ticket, now, lambda at: self.gateway.progress(ticket, items, at))

    def leave(self, ticket: Ticket, outcome: Outcome, now: float) -> None:
        self._send(ticket, now, lambda at: self.gateway.leave(ticket, outcome, at))
        del self._latest[ticket]

    def step(self, now: float) -> list[Ticket]:
        self._deliver(now)
        return self.gateway.step(now)

    def next_look(self, now: float) -> float:
        return min(self.gateway.next_look(now), self._news[0][0] if self._news else inf)

    def _send(self, ticket: Ticket, now: float, told: Callable[[float], None]) -> None:
        at = max(now + self._draw.random() * self._seconds, self._latest.get(ticket, 0.0))
        self._latest[ticket] = at
        heappush(self._news, (at, next(self._serial), told))

    def _deliver(self, now: float) -> None:
        while self._news and self._news[0][0] <= now:
            at, _, told = heappop(self._news)
            told(at)


def misjudged(requests: Sequence[Request], factor: float = 2.0, *, seed: int = 0) -> list[Request]:
    """Gateways are told prompts that are wrong by up to `factor` either way (log-uniformly distributed)."""
    if not is_number(factor) or not 1 <= factor < inf:
        raise ConfigurationError(f"factor must be a finite number, 1 or more, not {factor!r}", path="factor")
    draw, span = random.Random(seed), log(factor)
    return [
        replace(request, told=max(1, round(request.prompt_tokens * exp(draw.uniform(-span, span)))))
        for request in requests
    ]


def prefix_cached(requests: Sequence[Request], low: float = 0.3, high: float = 0.6, *, seed: int = 0) -> list[Request]:
    """The engine has a share of each prompt in its prefix cache, evenly distributed from `low` to `high`; gateways are
    still told the whole prompt."""
    if not is_number(low) or not is_number(high) or not 0 <= low <= high <= 1:
        raise ConfigurationError(
            f"low and high must be shares, 0 <= low <= high <= 1, not {low!r}, {high!r}", path="low"
        )
    draw = random.Random(seed)
    return [
        replace(request, cached=min(int(request.prompt_tokens * draw.uniform(low, high)), request.prompt_tokens - 1))
        for request in requests
    ]
