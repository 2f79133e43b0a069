"""The real engine as the tests see it: a child process on a free loopback port, its slots, its orderly end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

HERE = Path(__file__).parent
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy


class Model:
    """A made model: the GGUF file, and the words that are one token each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "model.gguf"
        self.words = (folder / "words.txt").read_text(encoding="ascii").split()

    def prompt(self, draw: random.Random, tokens: int) -> str:
        """A prompt of `tokens` tokens, drawn anew so that nothing can be reused from an earlier one."""
        return "".join(" " + draw.choice(self.words) for _ in range(tokens))


def made(preset: str, folder: Path) -> Model:
    """The model `preset` in `folder`, made now (seconds) if it is not there."""
    if not (folder / "model.gguf").exists():
        command = [sys.executable, str(HERE / "make_model.py"), "--preset", preset, "--out", str(folder)]
        subprocess.run(command, check=True, timeout=120)
    return Model(folder)


class Engine:
    """A running server: where it is, and what it says of itself."""

    def __init__(self, port: int, model: Model, process: subprocess.Popen[bytes]) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.model = model
        self.process = process

    def ask(self, path: str) -> Any:
        with _DIRECT.open(self.root + path, timeout=10) as answer:
            return json.loads(answer.read())

    def metric(self, name: str) -> float:
        """One value of `/metrics`, such as `requests_deferred`."""
        with _DIRECT.open(self.root + "/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"llamacpp:{name} "):
                    return float(line.split()[1])
        raise LookupError(f"the engine has no metric {name!r}")

    def busy(self) -> int:
        """How many slots work on something now, and how many requests wait for one."""
        working = sum(1 for slot in self.ask("/slots") if slot["is_processing"])
        return working + int(self.metric("requests_deferred"))

    async def becomes(self, busy: int, *, within: float) -> float:
        """Wait until exactly `busy` requests are in the engine; returns the seconds that took, fails after `within`."""
        began = time.monotonic()
        while True:
            seen = await anyio.to_thread.run_sync(self.busy)
            took = time.monotonic() - began
            if seen == busy:
                return took
            assert took < within, f"{seen} requests in the engine after {took:.1f} s, expected {busy}"
            await anyio.sleep(0.02)

    async def idle(self, *, within: float = 2.0) -> float:
        """Wait until every slot is free and nothing is deferred; returns the seconds that took."""
        return await self.becomes(0, within=within)


@contextmanager
def serving(model: Model, log: Path, *, slots: int = 4) -> Iterator[Engine]:
    """Start a server for `model`, and end it by its process id. What it prints goes to the file `log`."""
    port = free_port()
    command = [sys.executable, str(HERE / "llama_server.py"), "--model", str(model.file), "--with-parent"]
    command += ["--port", str(port), "--slots", str(slots)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    try:
        engine = Engine(port, model, process)
        wait_until_healthy(engine, log, within=60.0)
        yield engine
    finally:
        process.terminate()
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def wait_until_healthy(engine: Engine, log: Path, *, within: float) -> None:
    until = time.monotonic() + within
    while True:
        try:
            if engine.ask("/health")["status"] == "ok":
                return
        except (urllib.error.URLError, OSError):
            pass  # not listening yet, or still loading
        if engine.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the engine did not come up; it printed:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
