"""The one file that waits: a controller, a clock and an event loop."""

from __future__ import annotations

import logging
from asyncio import _get_running_loop
from math import inf
from typing import TYPE_CHECKING

import anyio

from andante import errors
from andante.controller import Controller
from andante.ending import Judge
from andante.ending import classify as default_classify
from andante.home import Home
from andante.lent import Lent
from andante.notice import Notices
from andante.permit import HELD, Admitting, Permit
from andante.ticket import State
from andante.values import Call, Decision, Ending, Outcome, Seconds, Snapshot, is_number, seconds
from andante.verdict import explain, pressure, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from andante.clock import Clock
    from andante.events import Listener
    from andante.gate import Gate
    from andante.service import ServiceClass

_log = logging.getLogger("andante")
_WAITING, _ADMITTED, _REFUSED = State.WAITING, State.ADMITTED, State.REFUSED
_DONE = Ending.DONE


class Admission:
    """Some gates and one line; the only thing that waits.

    It needs no start and no background task, and may be made before any event loop runs. It belongs to one thread and
    one running event loop at a time; event loops that follow each other are fine.

    Args:
        gates: what every call must pass. Their order does not matter.
        classes: service classes from the most urgent to the least; none: one class named "default".
        name: what metrics and errors call it.
        listeners: objects with `on(event)`.
        clock: seconds, never going back. None: `time.monotonic`, or the virtual clock of a test.
        size_bias: how much later a larger call stands than a smaller one of its class (default 0.5; 0: plain EDF).
        classify: what an error of the work says about the backend: `f(error) -> Ending` or `(Ending, retry_after)`.

    Raises ConfigurationError for anything that makes no sense, such as the same gate twice on one way in.
    """

    def __init__(
        self,
        *gates: Gate,
        classes: Iterable[ServiceClass] = (),
        name: str = "default",
        listeners: Iterable[Listener] = (),
        clock: Clock | None = None,
        size_bias: float = 0.5,
        classify: Callable[[BaseException], Ending | tuple[Ending, float | None]] = default_classify,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise errors.ConfigurationError(f"Admission name must be a non-empty string, not {name!r}", path="name")
        if not callable(classify):
            raise errors.ConfigurationError(
                f"classify must be a function of the error, not {classify!r}", path="classify"
            )
        self.name = name
        self.judge = Judge(classify, name)
        self.controller: Controller[Permit] = Controller(*gates, classes=classes, size_bias=size_bias, entry=Permit)
        self.controller.waker = self._poke
        self._line = self.controller.line
        self.home = Home(clock)
        self._closed = False
        self._idle: anyio.Event | None = None
        self._early_refusal_at = -inf
        self._lent = Lent()
        self._notices = Notices(self, tuple(listeners))
        self._listening = self._notices.listening
        self.now: Clock = clock or self._first_now

    # Ways in. -------------------------------------------------------------------------------------------------------

    async def enter(self, call: Call = Call()) -> Permit:  # noqa: B008  # a Call is immutable
        """Wait for the gates and the line. Pair it with `permit.close()`; `admit` does both.

        Raises a `Rejected` when the call cannot or should not wait (its work was then not started), WrongThread, or
        ConfigurationError for an unknown service class. Does not checkpoint when it need not wait.
        """
        permit = self.begin(call)
        if permit.state is not _ADMITTED:
            await self.wait(permit)
        return permit

    def try_enter(self, call: Call = Call()) -> Permit:  # noqa: B008  # a Call is immutable
        """Enter without waiting, never past those who wait. Raises `WouldWait`, or whatever else refuses the call."""
        permit = self.begin(call, errors.WouldWait)
        if permit.state is not _ADMITTED:
            raise _taken(permit)
        return permit

    def admit(self, call: Call = Call()) -> Admitting:  # noqa: B008  # a Call is immutable
        """`async with admission.admit(call) as permit:` the permit is closed, and errors noted, at the end."""
        return Admitting(self, call)

    def begin(self, call: Call, instead: type[errors.Rejected] | None = None) -> Permit:
        """The synchronous half of `enter`: a permit that is ADMITTED, or that `wait` must be awaited for."""
        here = _get_running_loop()
        if here is None or here is not self.home.here:
            self._settle_in()
        now = self.now()
        try:
            permit = None if self._closed else self.controller.at_once(call, now)
        except AttributeError:
            if isinstance(call, Call):
                raise
            raise errors.ConfigurationError(f"an admission takes a Call, not {call!r}", path="call") from None
        if permit is None:
            if self._lent.heap:
                self._lent.take_back(now)
            permit = self._consider(call, now, instead)
        permit.admission = self
        if self._listening:
            self._tell_or_give_back(permit, self._notices.offered, now)
        if permit.state is not _ADMITTED:
            self._not_at_once(permit, now)
        return permit

    async def wait(self, permit: Permit) -> None:
        """The other half: until `permit`, which is not ADMITTED yet, is. Raises its refusal."""
        parked = permit.state is _WAITING
        if parked:
            try:
                await self.home.host.park(permit)
            except BaseException:
                self._withdraw(permit)
                raise
            finally:
                permit.waiter = None
        if permit.state is _REFUSED:
            if parked and self._listening:
                self._notices.refused(permit, self.now())  # here, in its caller's context
            raise _taken(permit)
        if self._listening:
            self._tell_or_give_back(permit, self._notices.admitted, self.now())

    # What people see and change. ------------------------------------------------------------------------------------

    def explain(self, call: Call = Call()) -> Decision:  # noqa: B008  # a Call is immutable
        """What would be decided about `call` now. Changes nothing."""
        if self._closed:
            return Decision(False, errors.Closed.reason, start_in=inf)
        return explain(self.controller, call, self.now())

    def snapshot(self) -> Snapshot:
        """Counts, classes, gates and pressure at this moment."""
        return snapshot(self.controller, self.now(), self.pressure)

    @property
    def pressure(self) -> str:
        """Calm (headroom over 30 %), steady (over 0), strained (something waits), or saturated (calls were refused
        early in the last second). Headroom is the least that any gate states."""
        return pressure(self.controller, self.now(), self._early_refusal_at)

    def reconfigure(
        self,
        *,
        classes: Iterable[ServiceClass] | None = None,
        gates: Iterable[Gate] | None = None,
        size_bias: float | None = None,
    ) -> None:
        """Work by these from now on (None keeps what is). Who waits is planned anew at once; nobody inside is sent
        away. Waiting calls of a class that is gone are refused (`Shed`). On ConfigurationError nothing has changed."""
        self._settle_in()
        self.controller.reconfigure(self.now(), classes=classes, gates=gates, size_bias=size_bias)
        if self._listening:
            self._notices.gates_changed()
        self._look()

    async def drain(self, timeout: Seconds | None = None) -> int:
        """Take no new calls (`Closed`), let those who wait or are inside finish, and return how many are still inside.

        After `timeout` seconds, who still waits is refused; nothing inside is cancelled. None waits for ever.
        """
        limit = seconds(timeout, "timeout")
        self._settle_in()
        self._closed = True
        if self.controller.waiting or self.controller.inside:
            self._idle = self._idle or anyio.Event()
            with anyio.move_on_after(limit):
                await self._idle.wait()
            self.controller.clear_line(self.now(), errors.Closed)
            self._look()
        return len(self.controller.inside)

    def __repr__(self) -> str:
        lanes = " ".join(f"{lane.name} {lane.waiting}" for lane in self.controller.plan.lanes)
        gates = " · ".join(repr(gate) for gate in self.controller.plan.all_gates())
        inside, waiting = len(self.controller.inside), self.controller.waiting
        closed = " closed" if self._closed else ""
        return (
            f"<Admission {self.name!r}{closed} [{inside} inside, {waiting} waiting: {lanes} | {gates or 'no gates'}]>"
        )

    # Inside. --------------------------------------------------------------------------------------------------------

    def _progress(self, permit: Permit, items: float) -> None:
        if not is_number(items) or not 0 <= items < inf:
            raise errors.ConfigurationError(
                f"progress(items) must be a finite number >= 0, not {items!r}", path="items"
            )
        before, now = permit.first, self.now()
        self.controller.progress(permit, items, now)
        if before is None and permit.first is not None:
            if self._listening:
                self._notices.first(permit, now)
            if self._line.waiting:
                self._look()

    def leave(self, permit: Permit) -> None:
        """`permit`, which is ADMITTED, ends: what `Permit.close` does."""
        now = self.now()
        failure = permit.failure
        if failure is None:
            outcome = Outcome(_DONE)
        else:
            outcome = Outcome(failure[0], retry_after=failure[1], error=failure[2])
            permit.failure = None  # else error, traceback and permit form a cycle
        try:
            self.controller.leave(permit, outcome, now)
        finally:
            if self._line.waiting:
                self._look(now)
            if self._listening:
                self._notices.left(permit, outcome, now)
            if self._idle is not None:
                self._check_idle()

    def _withdraw(self, permit: Permit) -> None:
        """The caller of a waiting (or granted but not resumed) permit has left."""
        now, refused = self.now(), permit.state is _REFUSED
        if permit.state is State.ENDED or (refused and permit.error is None):
            return  # its event loop died, and all was told then; this is the garbage collector
        if not refused:
            self.controller.withdraw(permit, now)
        if self._listening:
            (self._notices.refused if refused else self._notices.withdrawn)(permit, now)
        self._look()

    def _tell_or_give_back(self, permit: Permit, tell: Callable[[Permit, float], None], now: float) -> None:
        """Tell listeners; what they raise is caught, but for the end of the program: then nothing may stay taken."""
        try:
            tell(permit, now)
        except BaseException:
            self.controller.withdraw(permit, now)
            self._look()
            raise

    def _look(self, now: float | None = None) -> None:
        """Step, wake whom it concerns, and set the alarm."""
        controller, host = self.controller, self.home.host
        if now is None:
            now = self.now()
        if self._lent.heap:
            self._lent.take_back(now)
        for permit in controller.step(now):
            if permit.state is _REFUSED:
                self._note_early(permit, now)
            host.wake(permit)
        at = controller.next_look(now)
        if self._lent.heap and self._line.waiting:
            at = min(at, self._lent.next)
        if at < host.at or (at == inf and host.at < inf):
            host.alarm(at, now)
        if self._idle is not None:
            self._check_idle()

    def _consider(self, call: Call, now: float, instead: type[errors.Rejected] | None) -> Permit:
        if self._closed:
            return self.controller.turn_away(call, now, errors.Closed)
        held = HELD.get()
        if held is not None and instead is None and self._holds(held):
            instead = errors.Nested
        return self.controller.consider(call, now, instead)

    def _not_at_once(self, permit: Permit, now: float) -> None:
        """`offer` has not admitted `permit`."""
        refused = permit.state is _REFUSED
        if refused:
            self._note_early(permit, now)
            if self._listening:
                self._notices.refused(permit, now)
        elif self._listening:
            self._tell_or_give_back(permit, self._notices.waiting, now)
        look = self.controller.next_look(now)
        if look <= now or self._lent.heap:
            self._look()
            if self._listening and permit.state is _ADMITTED:
                self._tell_or_give_back(permit, self._notices.admitted, now)
            elif self._listening and permit.state is _REFUSED and not refused:
                self._notices.refused(permit, now)
        elif look < self.home.host.at:
            self.home.host.alarm(look, now)

    def _note_early(self, permit: Permit, now: float) -> None:
        if isinstance(permit.error, (errors.DeadlineUnreachable, errors.LineFull, errors.Shed)):
            self._early_refusal_at = now

    def _check_idle(self) -> None:
        if self._idle is not None and not self.controller.inside and not self.controller.waiting:
            self._idle.set()
            self._idle = None

    def _poke(self) -> None:
        """A gate has changed, perhaps in another thread."""
        if not self._listening and not self.controller.waiting:
            return
        if self.home.elsewhere() and self.home.hand_over(self._poke):
            return
        if self._listening:
            self._notices.gates_changed()
        if self.controller.waiting:
            self._look()

    def _holds(self, held: Permit | None) -> bool:
        while held is not None:
            if held.admission is self and held.state is _ADMITTED:
                return True
            held = held.outer
        return False

    def lend(self, permit: Permit) -> None:
        """`permit` goes into a stream object that its owner may forget: its deadline covers it."""
        self._lent.add(permit)
        if self.controller.waiting:
            self._look()  # who waits already has to be woken at its deadline

    def found_lost(self, permit: Permit) -> None:
        """A stream object was collected unclosed: report it and end its permit, in the loop's thread."""
        _log.warning(
            "a stream guarded by %r was neither ended nor closed: use `async with`, or `await stream.aclose()`",
            self.name,
        )
        permit.abandon()
        self.home.hand_over(permit.close)  # where its loop has ended, the next one finds the place free

    # Event loops. ---------------------------------------------------------------------------------------------------

    def _first_now(self) -> float:
        self._settle_in()
        return self.now()

    def _settle_in(self) -> None:
        """Make sure that we live in the running event loop; move there if the one before has ended."""
        home, controller = self.home, self.controller
        if home.is_here():
            return
        if (controller.inside or controller.waiting) and not home.comes_along():
            if home.host.alive():
                raise errors.WrongThread(
                    f"admission {self.name!r} is in use by another thread or event loop "
                    f"({len(controller.inside)} inside, {controller.waiting} waiting); make one admission for each"
                )
            self._forget()
        home.move(self._look)
        self.now = home.host.clock
        self._idle = None
        self._early_refusal_at = -inf  # another clock may count from elsewhere

    def _forget(self) -> None:
        """The event loop of those inside or waiting has ended without them: their places are free again."""
        now = self.now()
        self.controller.clear_line(now, errors.Closed)
        for permit in self.controller.step(now):
            if self._listening:
                self._notices.refused(permit, now)
            permit.error = None
        for permit in list(self.controller.inside):
            permit.abandon()
            permit.close()


def _taken(permit: Permit) -> Exception:
    """The permit's error, no longer referred to by the permit: else error, traceback and permit form a cycle."""
    error, permit.error = permit.error, None
    assert error is not None
    return error
