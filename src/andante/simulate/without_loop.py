"""A workload served by the engine model behind a bare controller: no event loop, no tasks."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from andante.errors import Rejected
from andante.simulate.engine import Engine, Step
from andante.simulate.job import JobState
from andante.simulate.record import GAP, Fate, Progress, Record, counted, patience_of
from andante.ticket import State, Ticket
from andante.values import Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.controller import Controller
    from andante.simulate.profiles import EngineProfile
    from andante.simulate.workload import Request


def replay_controller(
    requests: Sequence[Request],
    profile: EngineProfile,
    controller: Controller[Ticket],
    *,
    progress: Progress | None = None,
) -> list[Record]:
    """`replay` through a bare `Controller`: the same decisions at the same times.

    Args:
        requests: ascending in time.
        profile: the engine.
        controller: gates and classes; it must know the service class of every request.
        progress: told how far it is.
    """
    return _WithoutLoop(requests, Engine(profile), controller, progress).run()


class _WithoutLoop:
    """What can happen next: a step ends, a client leaves, the controller is due, a request arrives, a step begins."""

    def __init__(
        self, requests: Sequence[Request], engine: Engine, controller: Controller[Ticket], progress: Progress | None
    ) -> None:
        self._engine = engine
        self._controller = controller
        self._records = [Record(request) for request in requests]
        self._tickets: dict[Ticket, Record] = {}  # those not over yet
        self._by_record: dict[Record, Ticket] = {}
        self._leaving: list[tuple[float, int, Record]] = []
        self._serial = count()
        self._over = counted(len(requests), progress)
        self._step: Step | None = None
        self._begins = inf

    def run(self) -> list[Record]:
        arriving = iter(self._records)
        record = next(arriving, None)
        now = 0.0
        while True:
            ends = self._step.at if self._step is not None else inf
            leaves = self._leaving[0][0] if self._leaving else inf
            look = max(now, self._controller.next_look(now))
            arrives = record.request.at if record is not None else inf
            now = min(ends, leaves, look, arrives, self._begins)
            if now == inf:
                return self._records
            if now == ends:
                self._end(now)
            elif now == leaves:
                self._leave(heappop(self._leaving)[2], now)
            elif now == look:
                self._look(now)
            elif now == arrives:
                assert record is not None
                self._arrive(record, now)
                record = next(arriving, None)
            else:
                self._begins = inf
                self._step = None if self._engine.idle else self._engine.step(now)

    def _arrive(self, record: Record, now: float) -> None:
        ticket = self._controller.offer(record.request.call(), now)
        self._tickets[ticket] = record
        self._by_record[record] = ticket
        if ticket.state is State.ADMITTED:
            self._start(record, now)
        elif ticket.state is State.REFUSED:
            self._refuse(ticket, now)
        leaves = min(patience_of(record.request))
        if leaves < inf and record.over is None:
            heappush(self._leaving, (leaves, next(self._serial), record))

    def _start(self, record: Record, now: float) -> None:
        self._engine.submit(record.started(now))
        if self._step is None and self._begins == inf:
            self._begins = now + GAP

    def _look(self, now: float) -> None:
        for ticket in self._controller.step(now):
            if ticket.state is State.ADMITTED:
                self._start(self._tickets[ticket], now)
            elif ticket.state is State.REFUSED:
                self._refuse(ticket, now)

    def _refuse(self, ticket: Ticket, now: float) -> None:
        error = ticket.error
        if not isinstance(error, Rejected):
            assert error is not None
            raise error
        self._is_over(self._tickets[ticket], Fate.REFUSED, now, error.reason)

    def _leave(self, record: Record, now: float) -> None:
        """The client's patience may have run out."""
        if record.over is not None:
            return
        leaves, without_first = patience_of(record.request)
        if now < leaves and record.first is not None and record.first <= now and without_first <= now:
            if leaves < inf:  # it has its first token; now it waits for the last
                heappush(self._leaving, (leaves, next(self._serial), record))
            return
        ticket = self._by_record[record]
        if ticket.state is State.WAITING:
            self._controller.withdraw(ticket, now)
        else:
            assert record.job is not None
            self._engine.cancel(record.job)
            self._controller.leave(ticket, Outcome(Ending.IGNORED), now)
        self._is_over(record, Fate.LEFT, now)
        self._look(now)

    def _end(self, now: float) -> None:
        step, self._step = self._step, None
        assert step is not None
        self._begins = now + GAP
        controller, by_record = self._controller, self._by_record
        for job in step.tokens:
            if job.state is not JobState.CANCELLED and job.tag.over is None:
                controller.progress(by_record[job.tag], 1, now)
        for job in step.finished:
            if job.tag.over is None:
                controller.leave(by_record[job.tag], Outcome(Ending.DONE), now)
                self._is_over(job.tag, Fate.DONE, now)
        self._look(now)

    def _is_over(self, record: Record, fate: Fate, now: float, reason: str | None = None) -> None:
        del self._tickets[self._by_record.pop(record)]
        record.ended(fate, now, reason)
        self._over()
