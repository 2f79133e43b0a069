"""What a caller holds while its work lasts."""

from __future__ import annotations

from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING

from andante import errors
from andante.ticket import State, Ticket
from andante.values import Account, Cost, Ending

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from andante.admission import Admission
    from andante.values import Call

HELD: ContextVar[Permit | None] = ContextVar("andante.held", default=None)
"""The innermost permit that this context holds; `permit.outer` leads to those around it."""

_ADMITTED = State.ADMITTED


class Permit(Ticket):
    """The right to be inside, held for as long as the work lasts. Every method is synchronous; closing twice is fine.

    Attributes (besides those of an entry):
        admission: who gave it.
    """

    __slots__ = ("admission", "outer")

    admission: Admission
    outer: Permit | None

    def progress(self, items: float = 1.0) -> None:
        """`items` more results (output tokens) have come. The first of them is the time to first token."""
        admission = self.admission
        if self.first is None or self.way.progresses or self.state is not _ADMITTED:
            admission._progress(self, items)
        elif 0 < items < inf:
            self.items += items
            self.last = admission.now()
        elif items != 0:
            admission._progress(self, items)  # which says what is wrong with it

    def settle(self, cost: Cost) -> None:
        """Say what the call really cost. Absolute; the last one counts. After `close` it raises AndanteError."""
        if not isinstance(cost, Cost):
            raise errors.ConfigurationError(f"settle() takes a Cost, not {cost!r}", path="cost")
        if self.state is not _ADMITTED:
            raise errors.AndanteError(f"settle() came after the permit was closed ({self!r}); settle first, then close")
        self.settled = cost

    def fail(self, error: BaseException) -> None:
        """The work raised `error`. What that says about the backend is decided by the admission's `classify`."""
        if self.state is not _ADMITTED:
            return
        self.failure = (*self.admission.judge(error), error)

    def abandon(self) -> None:
        """The work was given up by its caller: whatever it measured says nothing about the backend."""
        if self.state is _ADMITTED and self.failure is None:
            self.failure = (Ending.IGNORED, None, None)

    def close(self) -> None:
        """Give it back. Whoever waits next is let in at once; called in another thread, as soon as the loop can."""
        if self.state is _ADMITTED:
            admission = self.admission
            home = admission.home
            if not home.elsewhere() or not home.hand_over(self.close):
                admission.leave(self)

    @property
    def account(self) -> Account:
        """What happened to this call so far."""
        now = self.admission.now()
        waited = self.waited(now)
        started, first = self.started, self.first
        spent = None
        if started is not None and self.ended is not None:
            spent = max(0.0, self.ended - started - self.idle)
        return Account(
            service=self.service,
            waited=waited,
            by_gate={self.gate or "line": waited} if self.queued else {},
            first=None if first is None or started is None else first - started,
            seconds=spent,
        )


class Admitting:
    """What `Admission.admit` returns: an async context manager that may be entered once."""

    __slots__ = ("_admission", "_call", "_permit", "_token")

    def __init__(self, admission: Admission, call: Call) -> None:
        self._admission = admission
        self._call = call
        self._permit: Permit | None = None
        self._token: Token[Permit | None] | None = None

    async def __aenter__(self) -> Permit:
        if self._permit is not None:
            raise RuntimeError("this admit() was used already; call admission.admit(...) again")
        self._permit = permit = self._admission.begin(self._call)
        if permit.state is not _ADMITTED:
            await self._admission.wait(permit)
        permit.outer = HELD.get()
        self._token = HELD.set(permit)
        return permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permit, token = self._permit, self._token
        if permit is None or token is None:
            return
        try:
            if error is not None:
                permit.fail(error)
        finally:
            permit.close()
            try:
                HELD.reset(token)
            except ValueError:
                pass  # closed in another context, as generators may be
