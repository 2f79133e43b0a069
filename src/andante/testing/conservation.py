"""Law 1 of an admission: every call that was offered is somewhere, and in the end everything is given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from andante.events import Admitted, Event, Left, Offered, Refused, Waiting, Withdrawn
from andante.values import COUNTED, Counts

if TYPE_CHECKING:
    from andante.values import Snapshot


class Accountable(Protocol):
    """What can be asked for a `Snapshot`: an admission."""

    def snapshot(self) -> Snapshot:
        """Counts, classes and gates at this moment."""


def check_conservation(snapshot: Snapshot) -> None:
    """Law 1, for the whole and for every class; and the classes add up to the whole.

    offered = started + refused + withdrawn + waiting, and started = done + overloaded + ignored + inside.

    Raises:
        AssertionError: a count is negative or an equation does not hold; it says which, with the numbers.
    """
    faults = _faults("all classes together", snapshot)
    for name, counts in snapshot.classes.items():
        faults += _faults(f"class {name!r}", counts)
    whole, total = Counts.of(snapshot), sum(map(Counts.of, snapshot.classes.values()), Counts())
    if whole != total:
        faults.append(f"the classes add up to {total}, not to {whole}")
    if faults:
        raise AssertionError("\n  ".join(("calls are not conserved:", *faults)))


def balanced(admission: Accountable) -> None:
    """Everything has ended and is given back: call it at the end of a test, inside the event loop or after it.

    Law 1 holds, no call is inside, none waits, and no gate that counts what is `inside` it counts anything; a gate
    that is shared with an admission still at work does.

    Raises:
        AssertionError: something is left; it says what.
    """
    snapshot = admission.snapshot()
    check_conservation(snapshot)
    left = []
    for name, counts in snapshot.classes.items():
        if counts.inside or counts.waiting:
            left.append(f"class {name!r}: {counts.inside} inside, {counts.waiting} waiting")
    for name, state in snapshot.gates.items():
        if state.get("inside"):
            left.append(f"gate {name!r}: {state['inside']} inside")
    if left:
        raise AssertionError("\n  ".join((f"{admission!r} is not balanced:", *left)))


def _faults(where: str, counts: Counts) -> list[str]:
    c = counts
    faults = [f"{where}: {name} is {getattr(c, name)!r}" for name in COUNTED if not getattr(c, name) >= 0]
    if c.offered != c.started + c.refused + c.withdrawn + c.waiting:
        faults.append(
            f"{where}: {c.offered} offered, but {c.started} started + {c.refused} refused + {c.withdrawn} withdrawn"
            f" + {c.waiting} waiting = {c.started + c.refused + c.withdrawn + c.waiting}"
        )
    if c.started != c.done + c.overloaded + c.ignored + c.inside:
        faults.append(
            f"{where}: {c.started} started, but {c.done} done + {c.overloaded} overloaded + {c.ignored} ignored"
            f" + {c.inside} inside = {c.done + c.overloaded + c.ignored + c.inside}"
        )
    return faults


@dataclass(slots=True)
class Tally:
    """The calls of one class, counted from its events.

    Attributes:
        undecided: offered, and neither admitted, refused nor withdrawn.
        waiting: of these, said to be waiting.
        inside: admitted, and not left.
    """

    undecided: int = 0
    waiting: int = 0
    inside: int = 0

    def count(self, event: Event) -> None:
        """`event` has come."""
        if isinstance(event, Offered):
            self.undecided += 1
        elif isinstance(event, Waiting):
            self.waiting += 1
        elif isinstance(event, (Admitted, Refused, Withdrawn)):
            self.undecided -= 1
            if isinstance(event, Withdrawn) or event.queued:  # only who waits can withdraw
                self.waiting -= 1
            self.inside += isinstance(event, Admitted)
        elif isinstance(event, Left):
            self.inside -= 1

    def fault(self, *, settled: bool) -> str | None:
        """What is wrong, if anything. Unless `settled`, one call may be between being offered and being told of."""
        if self.undecided < 0:
            return "more calls were admitted, refused or withdrawn than offered"
        if self.inside < 0:
            return "more calls left than were admitted"
        if self.waiting < 0:
            return "more calls ended their waiting than began it"
        if not self.waiting <= self.undecided <= self.waiting + (not settled):
            return f"{self.undecided} calls are offered and undecided, but {self.waiting} are said to be waiting"
        return None
