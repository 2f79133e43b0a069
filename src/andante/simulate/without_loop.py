"""A workload served by the engine model behind a bare controller: no event loop, no tasks."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from andante.errors import Rejected
from andante.simulate.engine import Engine, EngineModel, Step
from andante.simulate.profiles import EngineProfile
from andante.simulate.record import GAP, Fate, Progress, Record, Tells, counted, offered, patience_of
from andante.ticket import State, Ticket
from andante.values import Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.simulate.gateways import Gateway
    from andante.simulate.job import Job
    from andante.simulate.workload import Request, Retry


def replay_controller(
    requests: Sequence[Request],
    engine: EngineProfile | EngineModel,
    controller: Gateway,
    *,
    tells: Tells = "streams",
    until: float | None = None,
    retry: Retry | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """`replay` through a bare `Controller`: the same decisions at the same times.

    Args:
        requests: ascending in time.
        engine: a profile, served by a new `Engine`, or any engine model, which serves one replay.
        controller: gates and classes; it must know the service class of every request. Or any `Gateway`: several
            controllers, or one that hears of the engine imperfectly.
        tells: "streams": it hears of every token; "ends": of the end alone, with the usage that a backend reports
            there (`Outcome.cost`), as of a call that is not streamed. Of streams it hears the usage too.
        until: seconds; the replay ends there. Who is still there leaves (`Fate.LEFT`); later requests are not offered
            and have no record. None: until all are over.
        retry: how clients come again after a refusal; None: they do not. Such a request still has one record, and its
            objectives count from its first arrival.
        progress: told how far it is.

    Raises ConfigurationError for a request that does not fit into the engine's KV cache, and for arguments that make no
    sense.
    """
    records, end = offered(requests, until, tells)
    model = Engine(engine) if isinstance(engine, EngineProfile) else engine
    return _WithoutLoop(records, model, controller, tells == "streams", end, retry, progress).run()


class _WithoutLoop:
    """What can happen next: a step ends, a client leaves, the controller is due, a request arrives or comes again, a
    step begins."""

    def __init__(
        self,
        records: list[Record],
        engine: EngineModel,
        gateway: Gateway,
        streams: bool,
        until: float,
        retry: Retry | None,
        progress: Progress | None,
    ) -> None:
        self._engine = engine
        self._gateway = gateway
        self._records = records
        self._streams = streams
        self._until = until
        self._retry = retry
        self._tickets: dict[Ticket, Record] = {}  # those not over yet
        self._by_record: dict[Record, Ticket] = {}
        self._inside: dict[Job, Ticket] = {}
        self._heard: dict[Job, Ticket] = {}  # those of whose every token some gate wants to hear
        self._leaving: list[tuple[float, int, Record]] = []
        self._returning: list[tuple[float, int, Record]] = []
        self._refusals: dict[Record, int] = {}
        self._serial = count()
        self._over = counted(len(records), progress)
        self._step: Step | None = None
        self._stepped = 0.0  # when the last step ended
        self._begins = inf

    def run(self) -> list[Record]:
        arriving = iter(self._records)
        record = next(arriving, None)
        now = 0.0
        while True:
            ends = self._step.at if self._step is not None else inf
            leaves = self._leaving[0][0] if self._leaving else inf
            look = max(now, self._gateway.next_look(now))
            arrives = record.request.at if record is not None else inf
            returns = self._returning[0][0] if self._returning else inf
            now = min(ends, leaves, look, arrives, returns, self._begins)
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
                self._offer(record, now)
                leaves = min(patience_of(record.request, self._until))
                if leaves < inf and record.over is None:
                    heappush(self._leaving, (leaves, next(self._serial), record))
                record = next(arriving, None)
            elif now == returns:
                record_again = heappop(self._returning)[2]
                if record_again.over is None:
                    self._offer(record_again, now)
            else:
                self._begins = inf
                self._step = None if self._engine.idle else self._engine.step(now)

    def _offer(self, record: Record, now: float) -> None:
        ticket = self._gateway.offer(record.request.call(), now)
        self._tickets[ticket] = record
        self._by_record[record] = ticket
        if ticket.state is State.ADMITTED:
            self._start(ticket, now)
        elif ticket.state is State.REFUSED:
            self._refuse(ticket, now)

    def _start(self, ticket: Ticket, now: float) -> None:
        job = self._tickets[ticket].started(now)
        self._engine.submit(job)
        self._inside[job] = ticket
        if self._streams and ticket.way.progresses:
            self._heard[job] = ticket
        if self._step is None and self._begins == inf:
            self._begins = now + GAP

    def _look(self, now: float) -> None:
        for ticket in self._gateway.step(now):
            if ticket.state is State.ADMITTED:
                self._start(ticket, now)
            elif ticket.state is State.REFUSED:
                self._refuse(ticket, now)

    def _refuse(self, ticket: Ticket, now: float) -> None:
        error = ticket.error
        if not isinstance(error, Rejected):
            assert error is not None
            raise error
        record = self._tickets.pop(ticket)
        del self._by_record[record]
        retry = self._retry
        if retry is not None:
            refusals = self._refusals[record] = self._refusals.get(record, 0) + 1
            again = now + retry.wait(error.retry_after)
            if refusals <= retry.times and again < min(patience_of(record.request, self._until)):
                heappush(self._returning, (again, next(self._serial), record))
                return
        self._is_over(record, Fate.REFUSED, now, error.reason)

    def _leave(self, record: Record, now: float) -> None:
        """The client's patience may have run out."""
        if record.over is not None:
            return
        leaves, without_first = patience_of(record.request, self._until)
        if now < leaves and record.first is not None and record.first <= now and without_first <= now:
            if leaves < inf:  # it has its first token; now it waits for the last
                heappush(self._leaving, (leaves, next(self._serial), record))
            return
        ticket = self._by_record.pop(record, None)
        if ticket is not None:  # else it is between two attempts
            del self._tickets[ticket]
            if ticket.state is State.WAITING:
                self._gateway.withdraw(ticket, now)
            else:
                self._cancel(record, ticket, now)
        self._is_over(record, Fate.LEFT, now)
        self._look(now)

    def _cancel(self, record: Record, ticket: Ticket, now: float) -> None:
        job, step = record.job, self._step
        assert job is not None
        self._engine.cancel(job)
        del self._inside[job]
        if self._heard.pop(job, None) is None and job.first is not None and job.first <= self._stepped:
            on_its_way = step is not None and job in step.tokens
            self._catch_up(ticket, job.generated - on_its_way, self._stepped)
        self._gateway.leave(ticket, Outcome(Ending.IGNORED), now)

    def _end(self, now: float) -> None:
        step, self._step = self._step, None
        assert step is not None
        self._begins = now + GAP
        self._stepped = now
        gateway, inside, heard = self._gateway, self._inside, self._heard
        progress = gateway.progress
        if heard:
            for job in step.tokens:
                ticket = heard.get(job)
                if ticket is not None:
                    progress(ticket, 1, now)
        if self._streams:
            # Where no gate listens, only the first token can change a decision. The others are told together at the
            # end, and every outcome is the same.
            for job in step.first:
                if job in inside and job not in heard:
                    progress(inside[job], 1, now)
        for job in step.finished:
            ticket = inside.pop(job, None)
            if ticket is None:
                continue
            if heard.pop(job, None) is None and job.first != now:
                self._catch_up(ticket, job.generated, now)
            record = self._tickets.pop(ticket)
            del self._by_record[record]
            gateway.leave(ticket, Outcome(Ending.DONE, cost=record.usage), now)
            self._is_over(record, Fate.DONE, now)
        self._look(now)

    def _catch_up(self, ticket: Ticket, generated: int, now: float) -> None:
        """Tells of the tokens after the first of a call of which no gate listened to each."""
        if self._streams and generated > 1:
            self._gateway.progress(ticket, generated - 1, now)

    def _is_over(self, record: Record, fate: Fate, now: float, reason: str | None = None) -> None:
        record.ended(fate, now, reason)
        self._over()
