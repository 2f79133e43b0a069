"""Refusals in words: what was decided about a call, why, and when to try again."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from andante import errors
from andante.ticket import Ticket
from andante.values import Call, Counts, Decision, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from andante.controller import Controller
    from andante.lane import Lane

T = TypeVar("T", bound=Ticket)

CALM = 0.3  # headroom above which nobody need hold back


def refusal(
    kind: type[errors.Rejected], ticket: Ticket, gate: str | None, after: float | None, now: float
) -> errors.Rejected:
    """The error with which `ticket` is refused. `after`: seconds after which a new try may succeed, where known."""
    retry_after = after if after is not None and isfinite(after) and after >= 0 else None
    held = f", held by {gate}" if gate else ""
    again = f"; try again in {retry_after:.3g} s" if retry_after else ""
    decision = Decision(
        False, kind.reason, gate, inf if retry_after is None else retry_after, retry_after, ticket.lane.waiting
    )
    return kind(
        f"{ticket.service}: {_sentence(kind, ticket, now)}{held}{again}",
        gate=gate,
        service=ticket.service,
        retry_after=retry_after,
        decision=decision,
    )


def _sentence(kind: type[errors.Rejected], ticket: Ticket, now: float) -> str:
    waiting = ticket.lane.waiting
    if kind is errors.Closed:
        return "the admission is draining and takes no new calls"
    if kind is errors.DeadlineUnreachable and ticket.call.deadline <= now:
        return "its deadline has passed"
    if kind is errors.DeadlineUnreachable:
        return f"cannot start within the {max(0.0, ticket.latest - now):.3g} s it may wait ({waiting} waiting)"
    if kind is errors.DeadlineExpired:
        return f"waited {now - ticket.arrived:.3g} s in vain and is past its latest start"
    if kind is errors.LineFull:
        return f"the line is full ({waiting} of {ticket.lane.service.max_waiting:g} waiting)"
    if kind is errors.Shed:
        return f"sent away after {now - ticket.arrived:.3g} s to make room in the line"
    if kind is errors.WouldWait:
        return "would have to wait"
    if kind is errors.Nested:
        return "would have to wait for an admission that its own caller holds; waiting could last for ever"
    return kind.reason.replace("_", " ")


def explain(controller: Controller[T], call: Call, now: float) -> Decision:
    """What `offer` would decide about `call` now. Changes nothing.

    `start_in` is a forecast: 0 when it would start, the delay of the gates or the calls ahead over the class's drain
    rate where known, else inf.
    """
    ticket = controller.imagine(call, now)
    lane = ticket.lane
    ticket.key = lane.key(ticket)
    ahead = sum(1 for other in lane.tickets() if other.key <= ticket.key)
    behind_others = ahead > 0 or _door_is_shut_above(controller, lane, now)
    try:
        end, _, gate, _ = ticket.way.ends(ticket, now, now)
    except errors.Rejected as error:
        return Decision(False, error.reason, error.gate, inf, error.retry_after, ahead)
    delay = end - now
    if not behind_others and delay <= 0:
        return Decision(True, "admitted", None, 0.0, None, 0)
    rate = lane.drain.rate(now)
    queue = ahead / rate if rate else (inf if behind_others else 0.0)
    after = delay if 0 < delay < inf else None
    if lane.waiting >= lane.service.max_waiting and lane.victim(ticket) is ticket:
        return Decision(False, errors.LineFull.reason, gate, inf, after, ahead)
    latest = lane.latest_start(ticket, now)
    if now > latest or (now + delay > latest and delay < inf) or latest <= now:
        return Decision(False, errors.DeadlineUnreachable.reason, gate, inf, after, ahead)
    return Decision(False, "waiting", gate, max(delay, queue), after, ahead)


def _door_is_shut_above(controller: Controller[T], lane: Lane, now: float) -> bool:
    """Whether somebody waits whose turn comes before that of anybody in `lane`."""
    lanes = controller.plan.lanes
    if lane.service.deferrable and any(other.waiting for other in lanes if not other.service.deferrable):
        return True
    for above in lanes[: lane.rank]:
        head = above.head()
        if head is None or (above.service.deferrable and not lane.service.deferrable):
            continue
        if not head.way.ends(head, now, now)[3]:  # blocked by a gate of its own class it leaves the door open
            return True
    return False


def snapshot(controller: Controller[T], now: float, pressure: str) -> Snapshot:
    """The counts of all classes, and what every gate says."""
    plan = controller.plan
    classes = {lane.name: Counts.of(lane) for lane in (*plan.lanes, *plan.retired.values())}
    total = sum(classes.values(), Counts())
    gates: dict[str, Mapping[str, Any]] = {}
    for gate in plan.all_gates():
        name, twin = gate.name, 2
        while name in gates:
            name, twin = f"{gate.name}_{twin}", twin + 1
        gates[name] = gate.snapshot(now)
    return Snapshot(
        total.offered, total.started, total.refused, total.withdrawn, total.waiting,
        total.done, total.overloaded, total.ignored, total.inside,
        classes, gates, pressure,
    )  # fmt: skip


def pressure(controller: Controller[T], now: float, early_refusal_at: float) -> str:
    """The level of `Admission.pressure`. `early_refusal_at`: when a call was last refused early."""
    if now - early_refusal_at <= 1.0:
        return "saturated"
    if controller.waiting:
        return "strained"
    stated = (gate.snapshot(now).get("headroom") for gate in controller.plan.all_gates())
    headroom = min((share for share in stated if share is not None), default=1.0)
    return "calm" if headroom > CALM else "steady" if headroom > 0 else "strained"
