"""What can go wrong. One root; a `Rejected` promises that the work was not started."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from andante.values import Decision


class AndanteError(Exception):
    """The root of every error that andante raises itself. Errors of the guarded work pass through untouched."""


class Rejected(AndanteError):
    """The call was refused and *its work was not started*: it is safe to try it elsewhere or later.

    Attributes:
        reason: one word from a bounded set, fit for a metric label (`"line_full"`, `"deadline_expired"`, ...).
        gate: the name of the gate that held the call, or None.
        service: the name of the call's service class.
        retry_after: seconds after which a new try may succeed (a lower bound), or None where nobody knows.
        decision: the full `Decision`, or None.
    """

    reason: ClassVar[str] = "rejected"

    def __init__(
        self,
        message: str = "",
        *,
        gate: str | None = None,
        service: str | None = None,
        retry_after: float | None = None,
        decision: Decision | None = None,
    ) -> None:
        super().__init__(message or self.reason)
        self.gate = gate
        self.service = service
        self.retry_after = retry_after
        self.decision = decision

    def __reduce__(self) -> tuple[object, ...]:
        state = {key: value for key, value in self.__dict__.items() if not key.startswith("__")}
        return (type(self), self.args, state)


class CostTooLarge(Rejected):
    """The call asks for more than a gate can ever hold. Split it, or enlarge the gate's burst."""

    reason = "cost_too_large"


class LineFull(Rejected):
    """The waiting line of the call's class was full when it arrived."""

    reason = "line_full"


class DeadlineUnreachable(Rejected):
    """On arrival: the predicted wait is longer than the call may wait. Refused at once instead of late."""

    reason = "deadline_unreachable"


class DeadlineExpired(Rejected):
    """The call waited in vain until its latest start (its deadline, its class's objectives or `max_wait`)."""

    reason = "deadline_expired"


class UnderPressure(Rejected):
    """A pressure signal says no."""

    reason = "under_pressure"


class CoolingDown(Rejected):
    """The server asked every caller of this limit to stay away for a while."""

    reason = "cooling_down"


class Shed(Rejected):
    """A waiting call was sent away to make room for a more urgent one, or by a reconfiguration."""

    reason = "shed"


class WouldWait(Rejected):
    """`try_enter` found no room right now (or others waiting in front)."""

    reason = "would_wait"


class Nested(Rejected):
    """The call would have to wait for an admission that its own context already holds: waiting could deadlock."""

    reason = "nested"


class Closed(Rejected):
    """The admission is draining and takes no new calls."""

    reason = "closed"


class WrongThread(AndanteError, RuntimeError):
    """The admission is in use in another thread or by another running event loop. Use one admission per thread."""


class DeadlineOverrun(AndanteError, TimeoutError):
    """The guarded work itself ran past its deadline and was stopped."""


class ConfigurationError(AndanteError, ValueError):
    """A parameter makes no sense. `path` names the field, where there is one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path
