"""A small OpenAI-compatible server with a knee that is known."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    Serve = Callable[..., AbstractAsyncContextManager["Server"]]


class Server:
    """Chat completions over server-sent events on loopback: `slots` streams together, further ones wait.

    An answer is `tokens` tokens, the first after `first` seconds, then one every `gap` seconds. `reply(number, asked)`
    may answer something else: `(status, headers, body)`, or None for the usual. `mode`: "chat", or what it does wrong.
    """

    def __init__(self, slots: int, mode: str, reply: Callable[[int, Any], Any] | None) -> None:
        self.places = asyncio.Semaphore(slots)
        self.mode, self.reply = mode, reply
        self.first, self.gap, self.tokens = 0.010, 0.003, 8
        self.inside = self.most = 0
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.headers.append(headers)
                await self.answer(writer, method, path, json.loads(body) if body else None)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the caller has left
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter, method: str, path: str, asked: Any) -> None:
        if method == "GET":
            models = {"object": "list", "data": [{"id": name} for name in ("one", "two")[: 1 + (self.mode == "two")]]}
            return await plain(writer, 200 if path == "/v1/models" else 404, json.dumps(models))
        self.asked.append(asked)
        other = None if self.reply is None else self.reply(len(self.asked), asked)
        if other is not None:
            return await plain(writer, *other)
        if path != "/v1/chat/completions":
            return await plain(writer, 404, '{"error": {"message": "no such page"}}')
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            async with self.places:
                await self.serve(writer, asked)
        finally:
            self.inside -= 1
        return None

    async def serve(self, writer: asyncio.StreamWriter, asked: Any) -> None:
        usage = {"prompt_tokens": 20, "completion_tokens": self.tokens}
        if not asked.get("stream"):
            await asyncio.sleep(self.first + self.gap * (self.tokens - 1))
            answer = {"choices": [{"message": {"content": "a"}}], "usage": usage}
            return await plain(writer, 200, json.dumps(answer))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: a comment\n\n")
        await writer.drain()
        if self.mode == "silent":
            await asyncio.sleep(60)
        event(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        await asyncio.sleep(self.first)
        if self.mode == "error":
            event(writer, {"error": {"code": 503, "message": "out of slots"}})
        elif self.mode not in {"empty", "broken"}:
            for k in range(self.tokens):
                await asyncio.sleep(self.gap if k else 0)
                event(writer, {"choices": [{"delta": {"content": "word "}}]})
                await writer.drain()
            event(writer, {"choices": [], "usage": usage})
        if self.mode != "broken":
            writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()
        return None


def event(writer: asyncio.StreamWriter, chunk: Any) -> None:
    writer.write(f"data: {json.dumps(chunk)}\n\n".encode())


async def plain(writer: asyncio.StreamWriter, status: int, body: str, headers: str = "") -> None:
    kind = "application/json" if body.startswith("{") else "text/plain"
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body.encode())}\r\n{headers}\r\n"
    writer.write(head.encode() + body.encode())
    await writer.drain()


@asynccontextmanager
async def serve(
    slots: int = 4, *, mode: str = "chat", reply: Callable[[int, Any], Any] | None = None
) -> AsyncIterator[Server]:
    server = Server(slots, mode, reply)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # connections that nobody uses any more
        await asyncio.sleep(0.01)


@pytest.fixture
def server() -> Serve:
    """`async with server(slots=4) as served:`"""
    return serve
