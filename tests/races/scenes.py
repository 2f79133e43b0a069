"""Small scenes with several callers, any of whom may be struck down at any step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import sniffio

from andante import (
    Admission,
    Call,
    Concurrency,
    Cooldown,
    Cost,
    Ending,
    Rejected,
    ServiceClass,
    TokenBucket,
    guard,
)
from andante.testing import Recorder, ScriptedBackend, Stream, balanced, check_conservation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

LONG = 10_000.0  # virtual seconds: whoever is not done by then was forgotten


class Scene:
    """Callers around some admissions. `cast` fills it; `run` plays it and checks that everything is given back."""

    limits: tuple[int, ...] = ()  # of each admission: how many places must be free in the end

    def __init__(self) -> None:
        self.admissions: list[Admission] = []
        self.recorder = Recorder()
        self.bodies: dict[str, Callable[[], Awaitable[None]]] = {}
        self.ended: dict[str, str] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.bare: set[str] = set()  # who was struck by Task.cancel
        self.cast()

    # What a scene says. ---------------------------------------------------------------------------------------------

    def cast(self) -> None:
        """Make the admissions and the callers."""
        raise NotImplementedError

    def fair(self, name: str, ending: str) -> bool:
        """Whether a caller who was not struck may end like this."""
        return ending == "done"

    # How it is played. ----------------------------------------------------------------------------------------------

    def admission(self, *gates: Any, **kwargs: Any) -> Admission:
        name = f"a{len(self.admissions)}"
        self.admissions.append(Admission(*gates, name=name, listeners=[self.recorder], **kwargs))
        return self.admissions[-1]

    def caller(self, name: str, body: Callable[[], Awaitable[None]], *, after: float = 0.0) -> None:
        async def late() -> None:
            await anyio.sleep(after)
            await body()

        self.bodies[name] = late if after else body

    def cancel(self, victim: str, *, bare: bool) -> None:
        """Strike `victim`: by its cancel scope, or, `bare`, by `Task.cancel`."""
        if victim in self.ended:
            return
        if bare:
            if victim in self.tasks:
                self.bare.add(victim)
                self.tasks[victim].cancel()
        elif victim in self.scopes:
            self.scopes[victim].cancel()

    async def _act(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        if sniffio.current_async_library() == "asyncio":
            task = asyncio.current_task()
            assert task is not None
            self.tasks[name] = task
        with anyio.CancelScope() as scope:
            self.scopes[name] = scope
            try:
                await body()
            except Rejected as error:
                self.ended[name] = error.reason
            except BaseException:
                self.ended[name] = "cancelled"
                if name not in self.bare:
                    raise  # a task group would take a bare cancel for one of the whole group
            else:
                self.ended[name] = "done"

    async def run(self, victim: str | None = None) -> None:
        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                for name, body in self.bodies.items():
                    group.start_soon(self._act, name, body)
        await self.check(victim)

    async def check(self, victim: str | None) -> None:
        unfair = {n: e for n, e in self.ended.items() if n != victim and not self.fair(n, e)}
        assert not unfair, f"callers who were not struck: {unfair}"
        if victim is not None:
            ending = self.ended.get(victim, "cancelled")
            assert ending == "cancelled" or self.fair(victim, ending), ending
        assert len(self.ended) >= len(self.bodies) - 1
        for admission in self.admissions:
            balanced(admission)
        self.recorder.conserved()
        self.no_timers()
        await anyio.sleep(1_000)  # rates fill up again
        for admission, limit in zip(self.admissions, self.limits, strict=False):
            for state in admission.snapshot().gates.values():
                probing = state.get("state") == "probing"  # a cooldown after which nobody came
                assert probing or state.get("headroom", 1.0) == 1.0, state
                assert state.get("debt", 0.0) == 0.0, state
            if not admission._closed:
                permits = [admission.try_enter() for _ in range(limit)]
                for permit in permits:
                    permit.close()
            check_conservation(admission.snapshot())

    def no_timers(self) -> None:
        if sniffio.current_async_library() == "asyncio":
            loop: Any = asyncio.get_running_loop()
            mine = [timer for timer in loop.live_timers() if "andante" in repr(timer)]
            assert not mine, mine


# The scenes. ----------------------------------------------------------------------------------------------------------


class Places(Scene):
    """One place, five callers: two in the same instant, the others while it is held; one gives up by itself."""

    limits = (1,)

    def cast(self) -> None:
        admission = self.admission(Concurrency(1))

        async def call() -> None:
            async with admission.admit():
                await anyio.sleep(1)

        async def impatient() -> None:
            with anyio.move_on_after(2):  # exactly when the place is given to it
                permit = await admission.enter()
                permit.close()

        for name in "ab":
            self.caller(name, call)
        self.caller("impatient", impatient)
        for name in "cd":
            self.caller(name, call, after=0.5)


class Rate(Scene):
    """Timers: a rate and two places, so that a waiter is held now by one, now by the other."""

    limits = (1,)

    def cast(self) -> None:
        admission = self.admission(TokenBucket(2, burst=1), Concurrency(2))

        async def call() -> None:
            async with admission.admit():
                await anyio.sleep(0.9)

        for name in "abcdef":
            self.caller(name, call)


class Shared(Scene):
    """Two admissions around one place."""

    limits = (1, 1)

    def cast(self) -> None:
        gate = Concurrency(1)
        one, two = self.admission(gate), self.admission(gate, TokenBucket(3, burst=1))

        def call(admission: Admission) -> Callable[[], Awaitable[None]]:
            async def body() -> None:
                async with admission.admit():
                    await anyio.sleep(0.3)

            return body

        for name in "abc":
            self.caller(name, call(one))
            self.caller(name.upper(), call(two))


class Streams(Scene):
    """Guarded generators, and a guarded call that returns a stream object, on one place."""

    limits = (1,)

    def cast(self) -> None:
        admission = self.admission(Concurrency(1))
        backend = ScriptedBackend(default=Stream("xyz", first=0.2, gap=0.1))
        generate = guard(admission, deadline=50)(backend.generate)
        create = guard(admission, cost=Cost(input_tokens=2, output_tokens=9))(backend.call)

        async def read() -> None:
            stream: AsyncIterator[str] = generate()
            try:
                assert [item async for item in stream] == ["x", "y", "z"]
            finally:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()  # type: ignore[attr-defined]

        async def leave_early() -> None:
            async with await create() as stream:
                async for _ in stream:
                    break

        self.caller("a", read)
        self.caller("b", leave_early)
        self.caller("c", read)
        self.caller("d", leave_early)


class Changes(Scene):
    """Classes, limits and bounds that change while callers wait."""

    limits = (3,)

    def cast(self) -> None:
        gate = Concurrency(1)
        urgent, bulk = ServiceClass("chat", max_wait=2.5), ServiceClass("bulk", floor=0.2)
        admission = self.admission(gate, classes=[urgent, bulk])

        def call(service: str) -> Callable[[], Awaitable[None]]:
            async def body() -> None:
                async with admission.admit(Call(service=service)):
                    await anyio.sleep(1)

            return body

        async def change() -> None:
            gate.limit = 3
            await anyio.sleep(0.5)
            admission.reconfigure(classes=[bulk, urgent], size_bias=0)
            gate.limit = 1
            await anyio.sleep(1)
            admission.reconfigure(gates=[gate, TokenBucket(5, burst=3)])
            gate.limit = 3

        for name in "abc":
            self.caller(name, call("bulk"))
            self.caller(name.upper(), call("chat"))
        self.caller("change", change, after=0.5)

    def fair(self, name: str, ending: str) -> bool:
        return ending == "done" or (name.isupper() and ending in {"deadline_expired", "deadline_unreachable"})


class Drain(Scene):
    """A drain with callers inside and waiting, and one who comes too late."""

    limits = (0,)

    def cast(self) -> None:
        admission = self.admission(Concurrency(2), Cooldown(initial=0.5))

        async def call() -> None:
            async with admission.admit():
                await anyio.sleep(1)

        async def fail() -> None:
            async with admission.admit() as permit:
                permit.failure = (Ending.OVERLOADED, 0.25, None)

        async def drain() -> None:
            assert await admission.drain(30) == 0

        self.caller("a", call)
        self.caller("fail", fail)
        for name in "bc":
            self.caller(name, call)
        self.caller("drain", drain, after=0.5)
        self.caller("late", call, after=0.6)

    def fair(self, name: str, ending: str) -> bool:
        if name == "late" and self.admissions[0]._closed:
            return ending == "closed"
        return ending == "done"


SCENES = (Places, Rate, Shared, Streams, Changes, Drain)
