"""A listener that remembers, tells the story, and checks that it is complete."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from andante.events import Admitted, Event, First, Left, LimitChanged, Refused, SignalChanged, Waiting, Withdrawn
from andante.testing.conservation import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

E = TypeVar("E", bound=Event)


class Recorder:
    """A listener that keeps every event: `Admission(..., listeners=[recorder])`.

    Args:
        events: what to begin with.

    Attributes:
        events: all events so far, in order.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = list(events)

    def on(self, event: Event) -> None:
        """Keep `event`."""
        self.events.append(event)

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    def of(self, kind: type[E]) -> list[E]:
        """The events of this type, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def names(self) -> list[str]:
        """The names of the events' types, in order: `["Offered", "Admitted", "Left"]`."""
        return [type(event).__name__ for event in self.events]

    def counts(self) -> Counter[str]:
        """How many events of each type came, by name."""
        return Counter(self.names())

    def for_service(self, service: str) -> Recorder:
        """A recorder of what happened so far in one service class."""
        return Recorder(event for event in self.events if event.service == service)

    def for_admission(self, name: str) -> Recorder:
        """A recorder of what happened so far at one admission, where several have this listener."""
        return Recorder(event for event in self.events if event.admission == name)

    def story(self) -> str:
        """What happened, a line for each event: time in seconds, admission, service class, event, details."""
        admission = max((len(event.admission) for event in self.events), default=0)
        service = max((len(event.service) for event in self.events), default=0)
        lines = []
        for event in self.events:
            who = f"{event.admission:{admission}}  {event.service:{service}}"
            lines.append(f"{event.at:12.6f}  {who}  {type(event).__name__:13}  {_details(event)}".rstrip())
        return "\n".join(lines)

    def conserved(self) -> bool:
        """True, if the events keep law 1 for every class of every admission; else AssertionError, with the story.

        After every single event: nothing was admitted, refused or withdrawn that was not offered, nothing left that
        was not admitted, and the calls still undecided are those that were said to be waiting. Recorded from the first
        event on; an admission whose event loop ended under its calls tells nobody of them.
        """
        tallies: dict[tuple[str, str], Tally] = {}
        for event in self.events:
            tally = tallies.setdefault((event.admission, event.service), Tally())
            tally.count(event)
            self._complain(tally.fault(settled=False), event.admission, event.service, f" at {event!r}")
        for (admission, service), tally in tallies.items():
            self._complain(tally.fault(settled=True), admission, service, " at the end")
        return True

    def _complain(self, fault: str | None, admission: str, service: str, when: str) -> None:
        if fault is not None:
            raise AssertionError(f"admission {admission!r}, class {service!r}{when}: {fault}\n{self.story()}")

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return f"<{type(self).__name__} {kinds or 'empty'}>"


def _details(event: Event) -> str:
    if isinstance(event, Waiting):
        return f"held by {event.gate}" if event.gate else "others are in front"
    if isinstance(event, Admitted):
        return f"after {event.waited:g} s" if event.queued else "at once"
    if isinstance(event, First):
        return f"{event.ttft:g} s after its start"
    if isinstance(event, Left):
        spent = "" if event.outcome.seconds is None else f" after {event.outcome.seconds:g} s"
        return f"{event.outcome.ending.value}{spent}{_cause(event.outcome.error)}"
    if isinstance(event, Refused):
        return f"{event.error.reason} after {event.waited:g} s: {event.error}"
    if isinstance(event, Withdrawn):
        return f"after {event.waited:g} s"
    if isinstance(event, LimitChanged):
        return f"{event.gate}: {event.limit:g}"
    if isinstance(event, SignalChanged):
        return f"{event.signal}: {event.state}"
    return ""


def _cause(error: BaseException | None) -> str:
    if error is None:
        return ""
    return f": {error!r}" if isinstance(error, Exception) else f": {type(error).__name__}"  # a cancellation's is long
