"""Where nothing can happen any more, the virtual-time loop says so instead of hanging."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from andante.errors import AndanteError
from andante.testing import DeadlockError, VirtualTimeLoop, run

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def real() -> Callable[[], float]:
    """Gives a function that tells how many real seconds the test has taken so far."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin


def test_a_deadlock_is_named(real: Any) -> None:
    """Where nothing can happen any more, the error names every waiting task and where it waits, at once."""

    async def take(event: asyncio.Event) -> None:
        await event.wait()

    async def main() -> None:
        event = asyncio.Event()
        waiter = asyncio.create_task(take(event), name="the waiter")
        await asyncio.sleep(3)
        await waiter

    with pytest.raises(DeadlockError, match=r"virtual time stands at 3 s .* no timer is set") as caught:
        run(main)
    text = str(caught.value)
    assert "the waiter: " in text
    assert "take > Event.wait (locks.py:" in text
    assert isinstance(caught.value, AndanteError)
    assert isinstance(caught.value, RuntimeError)
    assert real() < 5


def test_a_sleep_for_ever_is_a_deadlock() -> None:
    """A timer at infinity is no timer."""
    with pytest.raises(DeadlockError, match="main_sleeper"):

        async def main_sleeper() -> None:
            await asyncio.sleep(inf)

        run(main_sleeper)


def test_a_deadlock_lets_tasks_clean_up() -> None:
    """After the error the tasks are cancelled as at any end of a run, and their finally blocks run."""
    story: list[str] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(2)
            story.append("cleaned up")

    with pytest.raises(DeadlockError):
        run(main)
    assert story == ["cleaned up"]


def test_many_waiting_tasks_are_counted() -> None:
    """The message stays readable with hundreds of tasks."""

    async def main() -> None:
        event = asyncio.Event()
        await asyncio.gather(*(event.wait() for _ in range(300)))

    with pytest.raises(DeadlockError, match="and 281 more"):
        run(main)


def test_a_deadlock_without_tasks() -> None:
    """A loop that runs a bare future, or for ever, has nothing to name."""
    loop = VirtualTimeLoop()
    with pytest.raises(DeadlockError, match="No task is left"):
        loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()  # it is as good as before
    loop.close()


def test_silent_sockets_end_in_a_deadlock_after_patience(real: Any) -> None:
    """With an open socket something might still come: the deadlock is told after `patience` real seconds."""

    async def main() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        async with server:
            await asyncio.Event().wait()

    with (
        pytest.raises(DeadlockError, match=r"said nothing for 0\.2 real seconds"),
        asyncio.Runner(loop_factory=partial(VirtualTimeLoop, patience=0.2)) as runner,
    ):
        runner.run(main())
    assert 0.15 < real() < 5
