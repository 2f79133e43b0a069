"""What must hold when everybody is gone: the books balance, the gates are as new, the event loop is empty."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante import Admission, Counts, Gate


def assert_books_balance(counts: Counts) -> None:
    """Law 1, at any moment."""
    assert counts.offered == counts.started + counts.refused + counts.withdrawn + counts.waiting, counts
    assert counts.started == counts.done + counts.overloaded + counts.ignored + counts.inside, counts


def assert_as_new(admission: Admission, fresh: Sequence[Gate]) -> None:
    """Nobody is inside or waiting, and every gate says what a `fresh` one of its kind says."""
    snapshot = admission.snapshot()
    for counts in (snapshot, *snapshot.classes.values()):
        assert_books_balance(counts)
        assert counts.inside == counts.waiting == 0, snapshot
    now = admission.now()
    assert dict(snapshot.gates) == {gate.name: gate.snapshot(now) for gate in fresh}
    controller = admission.controller
    assert not controller.inside
    assert controller.next_look(now) > now + 3600, "an alarm is set, but nobody waits"


async def assert_loop_is_empty(*, within: float = 2.0) -> None:
    """asyncio: no task but this one, and no timer of andante's. Tasks in which Python closes forgotten generators may
    take until `within` seconds to end."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        assert loop.time() < until, f"tasks left: {others}"
        await asyncio.sleep(0.01)
    timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert not [handle for handle in timers if "andante" in repr(handle)], timers
