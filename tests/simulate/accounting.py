"""What must hold after every replay, whatever was imperfect in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from andante.simulate.record import Fate, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.controller import Controller
    from andante.ticket import Ticket


def accounted(records: Sequence[Record], *controllers: Controller[Ticket]) -> Counter[Fate]:
    """Every record is over, once; the controllers count the same; nothing is inside, nothing waits."""
    assert all(record.over is not None and record.over >= record.request.at for record in records)
    fates = Counter(record.fate for record in records)
    lanes = [lane for controller in controllers for lane in controller.plan.lanes]
    assert sum(lane.offered for lane in lanes) >= len(records)
    assert sum(lane.done for lane in lanes) == fates[Fate.DONE]
    assert sum(lane.withdrawn + lane.ignored for lane in lanes) <= fates[Fate.LEFT]
    assert sum(lane.started for lane in lanes) == sum(lane.done + lane.ignored for lane in lanes)
    assert sum(lane.offered for lane in lanes) == sum(lane.started + lane.refused + lane.withdrawn for lane in lanes)
    assert not any(controller.inside or controller.waiting for controller in controllers)
    for record in records:
        if record.fate is Fate.DONE:
            assert record.job is not None
            assert record.job.generated == record.request.output_tokens
    return fates
