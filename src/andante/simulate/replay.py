"""A workload served by the engine model behind a policy, on an event loop in virtual time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from andante.errors import Rejected
from andante.simulate.engine import Engine, EngineModel, Step
from andante.simulate.profiles import EngineProfile
from andante.simulate.record import GAP, Fate, Progress, Record, Tells, counted, offered, patience_of
from andante.testing.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from andante.simulate.job import Job
    from andante.simulate.policies import Policy, Slot, Way
    from andante.simulate.workload import Request

TICK = 1e-9
"""Seconds: the resolution of the clock here, as of a real one."""


def replay(
    requests: Sequence[Request],
    engine: EngineProfile | EngineModel,
    policy: Policy,
    *,
    tells: Tells = "streams",
    until: float | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """Serves `requests`, ascending in time, and returns a record of each, in their order, once all are over.

    Every client is a task on asyncio's event loop in virtual time, so whatever the policy awaits runs as it is. The
    engine tells a `Slot` of every token, but wakes its client only at the end; there the client settles the usage with
    a slot that has a `settle`.

    Args:
        requests: ascending in time.
        engine: a profile, served by a new `Engine`, or any engine model, which serves one replay.
        policy: makes the way in.
        tells: "streams": a slot hears of every token; "ends": it hears of none, as of a call that is not streamed.
        until: seconds; the replay ends there. Who is still there leaves (`Fate.LEFT`); later requests are not offered
            and have no record. None: until all are over.
        progress: told how far it is.

    Raises ConfigurationError for a request that does not fit into the engine's KV cache, and for arguments that make no
    sense.
    """
    records, end = offered(requests, until, tells)
    model = Engine(engine) if isinstance(engine, EngineProfile) else engine
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_replay(records, _Replay(model, tells == "streams", end), policy, progress))


async def _replay(records: list[Record], run: _Replay, policy: Policy, progress: Progress | None) -> list[Record]:
    loop = asyncio.get_running_loop()
    backend = _Backend(run.engine)
    way = policy()
    over = counted(len(records), progress)
    try:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(backend.watch())
            async with asyncio.TaskGroup() as clients:
                for record in records:
                    await _until(loop, record.request.at)
                    clients.create_task(_client(record, way, backend, run, over))
            watching.cancel()
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    return records


class _Replay(NamedTuple):
    """What holds for the whole of one replay."""

    engine: EngineModel
    streams: bool
    until: float


class _Backend:
    """The engine on an event loop: steps while it has work, by two timers a step and no task of its own."""

    def __init__(self, engine: EngineModel) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._stepping = False
        self._inside: dict[Job, tuple[asyncio.Future[None], Slot | None, Callable[[], None]]] = {}
        self._failed: asyncio.Future[None] = self._loop.create_future()

    async def generate(self, job: Job, slot: Slot | None, on_first: Callable[[], None]) -> None:
        """Serves `job`; cancelling this is the client that leaves."""
        self.engine.submit(job)
        done: asyncio.Future[None] = self._loop.create_future()
        self._inside[job] = (done, slot, on_first)
        if not self._stepping:
            self._stepping = True
            self._loop.call_later(GAP, self._guarded, self._begin)
        try:
            await done
        finally:
            del self._inside[job]
            self.engine.cancel(job)

    async def watch(self) -> None:
        """Waits until cancelled; raises what a step, or a slot that was told of a token, has raised."""
        await self._failed

    def _begin(self) -> None:
        if self.engine.idle:
            self._stepping = False
            return
        step = self.engine.step(self._loop.time())
        self._loop.call_at(step.at, self._guarded, self._end, step)

    def _end(self, step: Step) -> None:
        inside = self._inside
        for job in step.first:
            if job in inside:
                inside[job][2]()
        for job in step.tokens:
            client = inside.get(job)
            if client is not None and client[1] is not None:
                client[1].progress(1)
        for job in step.finished:
            client = inside.get(job)
            if client is not None and not client[0].done():
                client[0].set_result(None)
        self._loop.call_at(step.at + GAP, self._guarded, self._begin)

    def _guarded(self, function: Callable[..., None], *args: Step) -> None:
        """What a timer raises would only be logged."""
        try:
            function(*args)
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)


async def _client(record: Record, way: Way, backend: _Backend, run: _Replay, over: Callable[[], None]) -> None:
    """One client: through the policy to the engine, until it is served, refused, or has waited long enough."""
    loop = asyncio.get_running_loop()
    request = record.request
    leaves, leaves_without_first = patience_of(request, run.until)
    patience = asyncio.timeout_at(_finite(min(leaves, leaves_without_first)))

    def got_first() -> None:
        if leaves_without_first < leaves and not patience.expired():
            patience.reschedule(_finite(leaves))

    try:
        async with patience, way(request) as slot:
            await backend.generate(record.started(loop.time()), slot if run.streams else None, got_first)
            settle = getattr(slot, "settle", None)
            if settle is not None:
                settle(record.usage)
    except TimeoutError:
        record.ended(Fate.LEFT, loop.time())
    except Rejected as refusal:
        record.ended(Fate.REFUSED, loop.time(), refusal.reason)
    else:
        record.ended(Fate.DONE, loop.time())
    over()


async def _until(loop: asyncio.AbstractEventLoop, when: float) -> None:
    """Sleeps to exactly `when`; a sleep by seconds would miss it by a rounding error."""
    if when > loop.time():
        woken = loop.create_future()
        loop.call_at(when, woken.set_result, None)
        await woken


def _finite(when: float) -> float | None:
    return when if when < inf else None
