"""One request's context: its class, its tenant and its deadline, inherited by every guarded call inside."""

from __future__ import annotations

from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Self

from andante.clock import current_clock
from andante.errors import ConfigurationError
from andante.values import Account, Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Hashable
    from contextvars import Token
    from types import TracebackType

REQUEST: ContextVar[request | None] = ContextVar("andante.request", default=None)
"""The innermost request of this context."""


class request:  # noqa: N801  # reads as a verb: `with request(within=2.0):`
    """`with request(service="chat", tenant="acme", within=2.0) as r:` every guarded call inside inherits these.

    Requests nest: what an inner one leaves out it takes from the outer, and a deadline only ever shrinks. Works in
    `async with` code as well, in tasks started inside, and does no I/O.

    Args:
        service: name of the service class; ignored by admissions that do not know it.
        tenant: whom the request is for.
        within: seconds (or timedelta) from now in which everything inside must have ended.

    Attributes:
        accounts: one `Account` for each guarded call that has ended, in the order of their ends.
        deadline: absolute time; inf if there is none.

    Raises ConfigurationError when `within` is negative, NaN or no duration.
    """

    __slots__ = ("_token", "_used", "_within", "accounts", "deadline", "service", "tenant")

    def __init__(self, *, service: str | None = None, tenant: Hashable = None, within: Seconds | None = None) -> None:
        if service is not None and not isinstance(service, str):
            raise ConfigurationError(f"request(service=...) must be a class name, not {service!r}", path="service")
        self._within = seconds(within, "within")
        self._token: Token[request | None] | None = None
        self._used = False
        self.service = service
        self.tenant = tenant
        self.deadline = inf
        self.accounts: list[Account] = []

    def __enter__(self) -> Self:
        if self._used:
            raise RuntimeError("this request() was entered already; make a new one")
        self._used = True
        if self._within < inf:
            self.deadline = current_clock()() + self._within
        outer = REQUEST.get()
        if outer is not None:
            self.service = self.service if self.service is not None else outer.service
            self.tenant = self.tenant if self.tenant is not None else outer.tenant
            self.deadline = min(self.deadline, outer.deadline)
        self._token = REQUEST.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            try:
                REQUEST.reset(token)
            except ValueError:
                pass  # left in another context, as generators may be

    def left(self) -> float:
        """Seconds until the deadline (never negative; inf without one)."""
        return inf if self.deadline == inf else max(0.0, self.deadline - current_clock()())

    def __repr__(self) -> str:
        parts = [f"service={self.service!r}"] if self.service else []
        parts += [f"tenant={self.tenant!r}"] if self.tenant is not None else []
        parts += [f"left={self.left():.3g}"] if self.deadline < inf else []
        return f"<request {' '.join(parts)}>"
