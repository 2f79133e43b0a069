"""Who calls: classes of clients with objectives, values and patience, and which call of a trace is whose."""

from __future__ import annotations

import random
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.service import ServiceClass
from andante.values import Call, Cost, is_number

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from andante.simulate.traces import Trace


@dataclass(frozen=True, slots=True)
class ClientClass:
    """One kind of client: how many there are, what they need, what serving one is worth, when they leave.

    All times are seconds from the call's arrival; inf stands for no objective and endless patience.

    Attributes:
        name: also the name of its service class.
        share: of all calls, above 0; the shares of a workload are taken relative to their sum.
        value: what one call within its objectives is worth (default 1).
        ttft: objective for the first token.
        itl: objective for the mean gap between the call's tokens.
        e2e: objective for the last token.
        leaves_without_first: a client without its first token leaves then.
        leaves: a client without its last token leaves then.
    """

    name: str
    _: KW_ONLY
    share: float
    value: float = 1.0
    ttft: float = inf
    itl: float = inf
    e2e: float = inf
    leaves_without_first: float = inf
    leaves: float = inf

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"a class's name must be a non-empty string, not {self.name!r}", path="name")
        for field in ("share", "value"):
            number = getattr(self, field)
            if not is_number(number) or not isfinite(number) or number < 0 or (field == "share" and number == 0):
                bound = "above 0" if field == "share" else "0 or more"
                raise ConfigurationError(
                    f"class {self.name!r}: {field} must be a number {bound}, not {number!r}", path=field
                )
        for field in ("ttft", "itl", "e2e", "leaves_without_first", "leaves"):
            number = getattr(self, field)
            if not is_number(number) or isnan(number) or number <= 0:
                raise ConfigurationError(
                    f"class {self.name!r}: {field} must be a number of seconds above 0, not {number!r}", path=field
                )

    def service(self) -> ServiceClass:
        """The service class that asks an admission for these objectives."""
        goals = {field: value for field in ("ttft", "itl", "e2e") if (value := getattr(self, field)) < inf}
        return ServiceClass(self.name, **goals)

    def met(self, ttft: float, itl: float, e2e: float) -> bool:
        """Whether a complete answer with these times (seconds from arrival; itl the mean gap) is within objectives."""
        return ttft <= self.ttft and itl <= self.itl and e2e <= self.e2e


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a workload.

    Attributes:
        at: when it arrives, seconds.
        prompt_tokens, output_tokens: how long it is.
        client: whose it is.
        told: the prompt tokens that the gateway is told of beforehand; None: the true number.
        cached: prompt tokens that the engine has in its prefix cache, so that it does not compute them; fewer than
            `prompt_tokens`. The gateway learns of it at the end.
        tenant: for whom it is; None: all such calls are of one tenant.
    """

    at: float
    prompt_tokens: int
    output_tokens: int
    client: ClientClass
    told: int | None = None
    cached: int = 0
    tenant: Hashable = None

    def call(self) -> Call:
        """What a gateway knows of it: its class and its prompt. How long the answer gets, nobody knows before."""
        told = self.prompt_tokens if self.told is None else self.told
        return Call(Cost(input_tokens=told), service=self.client.name, tenant=self.tenant)


@dataclass(frozen=True, slots=True)
class Retry:
    """Clients that come again after a refusal.

    Attributes:
        times: how often at most (default 1).
        after: seconds until then at least; later where the refusal asks for it (default 1.0).
    """

    times: int = 1
    after: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 1:
            raise ConfigurationError(f"times must be a whole number above 0, not {self.times!r}", path="times")
        if not is_number(self.after) or not 0 < self.after < inf:
            raise ConfigurationError(
                f"after must be a finite number of seconds above 0, not {self.after!r}", path="after"
            )

    def wait(self, retry_after: float | None) -> float:
        """Seconds until the client comes again, told `retry_after` by the refusal."""
        return self.after if retry_after is None else max(self.after, retry_after)


def assign(trace: Trace, clients: Sequence[ClientClass], *, seed: int = 0) -> list[Request]:
    """Each call of `trace` is given to a class at random, by the shares. The same seed gives the same workload.

    Raises ConfigurationError for no classes, or two of the same name.
    """
    names = [client.name for client in clients]
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"a workload needs classes with different names, not {names}", path="clients")
    draw = random.Random(seed)
    bounds = list(accumulate(client.share for client in clients))
    chosen = (draw.choices(clients, cum_weights=bounds)[0] for _ in trace)
    return [
        Request(arrival.at, arrival.prompt_tokens, arrival.output_tokens, client)
        for arrival, client in zip(trace, chosen, strict=True)
    ]


def service_classes(clients: Iterable[ClientClass]) -> tuple[ServiceClass, ...]:
    """The service classes of `clients`, whose order is their rank: the first the most urgent."""
    return tuple(client.service() for client in clients)
