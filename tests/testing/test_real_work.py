"""Threads, sockets, processes and signals are real, and virtual time waits for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from andante.testing import DeadlockError, VirtualTimeLoop, run

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def real() -> Callable[[], float]:
    """Gives a function that tells how many real seconds the test has taken so far."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin


def now() -> float:
    return asyncio.get_running_loop().time()


# Threads. -------------------------------------------------------------------------------------------------------------


def test_time_waits_for_executor_jobs(real: Any) -> None:
    """`asyncio.to_thread` is waited for really, and no virtual time passes: a time-out around it is honest."""

    async def main() -> None:
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(lambda: time.sleep(0.1) or "done") == "done"
        assert now() == 0.0
        await asyncio.sleep(3600)
        assert now() == 3600.0

    run(main)
    assert 0.1 <= real() < 5


def test_time_waits_for_jobs_of_any_executor() -> None:
    """So is a job in an executor of one's own, and idle workers do not hold time afterwards."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            async with asyncio.timeout(60):
                assert await loop.run_in_executor(pool, lambda: time.sleep(0.05) or "done") == "done"
            begin = time.perf_counter()
            for _ in range(1000):
                await asyncio.sleep(1)
            assert time.perf_counter() - begin < 2  # a grace for the idle worker would take 20 s
        assert now() == 1000.0

    run(main)


def test_a_timer_that_is_really_due_does_not_wait_for_a_job(real: Any) -> None:
    """A job that outlasts a timer does not stop it: it fires after its own length of real waiting."""

    async def main() -> None:
        gate = threading.Event()
        job = asyncio.ensure_future(asyncio.to_thread(gate.wait, 30))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(job)
        assert now() == 0.1
        gate.set()
        assert await job is True

    run(main)
    assert 0.1 <= real() < 5


def test_a_thread_may_use_the_time_of_the_loop() -> None:
    """A job that itself waits for the loop's timers gets them: no deadlock between the two."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def job() -> str:
            return asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05, "slept"), loop).result(30)

        assert await asyncio.to_thread(job) == "slept"
        assert now() == 0.05

    run(main)


def test_an_abandoned_job_holds_nothing() -> None:
    """When nobody waits for a job any more, time goes on without it."""
    gate = threading.Event()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(gate.wait, 30), 0.05)
        begin = time.perf_counter()
        await asyncio.sleep(10)
        assert time.perf_counter() - begin < 5
        gate.set()

    run(main)


def test_the_end_of_a_run_waits_for_abandoned_jobs(real: Callable[[], float]) -> None:
    """At the end the executor is given its real time to finish: asyncio's own time-out for that does not jump."""
    given_up, ended = threading.Event(), threading.Event()

    def job() -> None:
        given_up.wait(30)
        time.sleep(0.2)
        ended.set()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(job), 0.01)
        given_up.set()

    run(main)  # a time-out would be a RuntimeWarning
    assert ended.is_set()
    assert real() >= 0.2


def test_anyio_worker_threads(real: Any) -> None:
    """anyio's worker threads hold time while they work, and not while they idle."""

    async def main() -> None:
        with anyio.fail_after(60):
            assert await anyio.to_thread.run_sync(lambda: time.sleep(0.1) or "done") == "done"
        assert now() == 0.0
        begin = time.perf_counter()
        for _ in range(1000):
            await anyio.sleep(1)
        assert time.perf_counter() - begin < 2

    run(main)
    assert real() >= 0.1


def test_a_stranger_may_wake_the_loop() -> None:
    """With no timer set, a thread of one's own is waited for: `call_soon_threadsafe` works as ever."""

    async def main() -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def stranger() -> None:
            time.sleep(0.05)
            loop.call_soon_threadsafe(event.set)

        thread = threading.Thread(target=stranger)
        thread.start()
        await event.wait()
        assert now() == 0.0
        thread.join()

    run(main)


def test_hold_keeps_time_for_work_the_loop_cannot_see() -> None:
    """Under `hold()` a time-out around a thread of one's own is honest too."""

    async def main() -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        assert isinstance(loop, VirtualTimeLoop)

        def stranger() -> None:
            time.sleep(0.2)  # well beyond the grace
            loop.call_soon_threadsafe(event.set)

        thread = threading.Thread(target=stranger)
        with loop.hold():
            thread.start()
            async with asyncio.timeout(60):
                await event.wait()
        assert now() == 0.0
        thread.join()
        await asyncio.sleep(3600)

    run(main)


def test_threads_older_than_the_loop_cost_nothing() -> None:
    """A watchdog that was there before the loop neither slows it down nor hides a deadlock."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, args=(60,), daemon=True)
    thread.start()

    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(1)
        await asyncio.Event().wait()

    begin = time.perf_counter()
    with pytest.raises(DeadlockError, match="1000 s"):
        run(main)
    assert time.perf_counter() - begin < 2
    stop.set()
    thread.join()


def test_a_loop_in_another_thread_waits_for_the_main_thread() -> None:
    """A loop that runs beside the main thread may be given work by it at any time, for `patience` seconds."""
    loop = VirtualTimeLoop(patience=30)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    time.sleep(0.05)  # it idles meanwhile
    assert asyncio.run_coroutine_threadsafe(asyncio.sleep(3600, "slept"), loop).result(30) == "slept"
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()
    assert loop.time() == 3600.0


def test_signals_arrive() -> None:
    """A signal handler of the loop runs, as on any loop."""
    signal = pytest.importorskip("signal")

    async def main() -> None:
        got = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        signal.raise_signal(signal.SIGUSR1)
        await got.wait()
        got.clear()
        signal.raise_signal(signal.SIGUSR1)
        for _ in range(100):  # a loop that is never idle hears of it too
            await asyncio.sleep(0)
        assert got.is_set()
        loop.remove_signal_handler(signal.SIGUSR1)

    run(main)


# Sockets. -------------------------------------------------------------------------------------------------------------


def test_sockets_are_real_and_time_does_not_starve_them() -> None:
    """A server and its clients talk over the loopback while virtual hours pass: no time-out cuts real bytes off."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(600)  # the server takes its virtual time
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def client(port: int, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(3):
            sent = f"hello {number} {turn} {'x' * 100_000}\n".encode()
            async with asyncio.timeout(601):
                writer.write(sent)
                assert await reader.readline() == sent.upper()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(client(port, number) for number in range(5)))
        assert now() == 1800.0
        server.close()
        await server.wait_closed()

    class Wide(VirtualTimeLoop):
        async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
            transport, protocol = await super().create_connection(*args, **kwargs)
            protocol._stream_reader._limit = 2**20
            return transport, protocol

    with asyncio.Runner(loop_factory=Wide) as runner:
        runner.run(main())


def test_grace_gives_another_thread_s_server_its_time() -> None:
    """A server outside the loop gets `grace` real seconds before a time-out may jump."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            time.sleep(0.1)
            connection.sendall(b"late\n")

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"?")
        async with asyncio.timeout(5):
            answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, grace=10)) as runner:
            assert runner.run(main()) == b"late\n"
    finally:
        thread.join()
        listener.close()


def test_subprocesses() -> None:
    """A process of its own is real too: with no timer set it is waited for."""

    async def main() -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import time; time.sleep(0.05); print('done')", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return output

    assert run(main).strip() == b"done"
