"""An entry for tests of gates, where no controller is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andante.values import Call


class Visitor:
    """An `Entry` for tests of gates: one attempt of `call`, which arrives at `now`."""

    def __init__(self, call: Call, now: float) -> None:
        self.call = call
        self.cost = call.cost
        self.service = call.service
        self.rank = 0
        self.deadline = call.deadline
        self.arrived = now
        self.started: float | None = None
        self.first: float | None = None
        self.last: float | None = None
        self.items = 0.0

    def __repr__(self) -> str:
        return f"<Visitor {self.cost!r}>"
