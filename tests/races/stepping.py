"""Run a scenario and strike at one exact step of the scheduler, on either event loop, in virtual time."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from andante.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NEVER = -1


class Strike:
    """Something to do before a certain step: on asyncio before a callback, on trio before a task goes on."""

    def __init__(self, at: int = NEVER) -> None:
        self.at = at
        self.steps = 0
        self.blow: Callable[[], None] | None = None

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at and self.blow is not None:
            self.blow()


class SteppedLoop(VirtualTimeLoop):
    """Counts every callback that runs."""

    def __init__(self, strike: Strike) -> None:
        super().__init__()
        self.strike = strike

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return super().call_soon(self._stepped, callback, args, context=context)

    def _stepped(self, callback: Any, args: tuple[Any, ...]) -> None:
        self.strike.step()
        callback(*args)

    def live_timers(self) -> list[asyncio.TimerHandle]:
        """Timers that are set and not cancelled."""
        return [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]


class SteppedTrio(trio.abc.Instrument):
    """Counts every step of every task."""

    def __init__(self, strike: Strike) -> None:
        self.strike = strike

    def before_task_step(self, task: Any) -> None:
        self.strike.step()


def play(backend: str, main: Callable[[], Awaitable[None]], strike: Strike) -> None:
    """Run `main` to its end, with `strike` watching."""

    async def whole() -> None:
        await main()

    if backend == "asyncio":
        with asyncio.Runner(loop_factory=lambda: SteppedLoop(strike)) as runner:
            runner.run(whole())
    else:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio_run: Any = sys.modules["trio._core._run"]
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # for what hypothesis, too, needs it: a failure comes again
        trio_run._r.seed(strike.at)
        trio.run(whole, clock=clock, instruments=[SteppedTrio(strike)])
