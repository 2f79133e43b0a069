"""An endpoint that speaks OpenAI's chat completions, over httpx: the one file that imports it."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from andante.calibrate.sample import CallFailed, Effect, Trouble
from andante.calibrate.target import new_seed, prompt
from andante.ending import OVERLOAD_STATUSES
from andante.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from andante.calibrate.sample import Report

_CONNECT = 10.0  # seconds to connect; how long an answer may take is the caller's business
_SAID = 300  # letters of an error that are repeated


class EndpointTarget:
    """Chat completions of an OpenAI-compatible server. It asks this address and no other: redirects are errors.

    Args:
        url: the base address (`http://host:8000/v1`), or the full one that ends in `/chat/completions`.
        model: which model; None: the one that the server lists, if it lists a single one.
        words: length of the prompts, in words; each call has another one.
        max_tokens: the longest answer, in tokens.
        key: sent as a bearer token.
        headers: further headers.
        body: further fields of the request; None removes one that is there.
        stream: False: ask for whole answers, of which only the end is seen.

    Raises:
        ConfigurationError: the address makes no sense, or has a password in it.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        words: int = 128,
        max_tokens: int = 64,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        stream: bool = True,
    ) -> None:
        parts = _checked(url)
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self.base = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self.name = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        self.model = model
        self._chat = urlunsplit((parts.scheme, parts.netloc, f"{path}/chat/completions", parts.query, ""))
        self._models = urlunsplit((parts.scheme, parts.netloc, f"{path}/models", parts.query, ""))
        self._words, self._max_tokens, self._stream = words, max_tokens, stream
        self._seed = new_seed()
        self._body = dict(body or {})
        self._headers = dict(headers or {})
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._proxies = not _loopback(parts.hostname or "")
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Which model, where nobody said it."""
        if self.model is not None or "model" in self._body:
            return
        try:
            response = await self._http().get(self._models)
        except httpx.HTTPError as error:
            raise CallFailed(_of_transport(error)) from error
        if response.status_code != 200:
            raise CallFailed(_of_status(response, response.text, "models"))
        try:
            names = [str(each["id"]) for each in response.json()["data"]]
        except (ValueError, KeyError, TypeError):
            names = []
        if len(names) != 1:
            listed = f"it lists {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else "it lists none"
            raise CallFailed(Trouble("which model?", f"{listed}: name one (--model)", Effect.FATAL))
        self.model = names[0]

    async def call(self, index: int, report: Report) -> None:
        try:
            async with self._http().stream("POST", self._chat, json=self._asked(index)) as response:
                if response.status_code != 200:
                    raise CallFailed(_of_status(response, (await response.aread()).decode(errors="replace"), "chat"))
                if self._stream and "json" not in response.headers.get("content-type", ""):
                    await _read_stream(response, report)
                else:
                    _take(_parsed((await response.aread()).decode(errors="replace")), report, whole=True)
        except httpx.HTTPError as error:
            raise CallFailed(_of_transport(error)) from error

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=_CONNECT),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                trust_env=self._proxies,
            )
        return self._client

    def _asked(self, index: int) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt(index, self._words, self._seed)}],
            "max_tokens": self._max_tokens,
        }
        if self._stream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        asked |= self._body
        return {name: value for name, value in asked.items() if value is not None}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.model or 'the one model'}>"


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"target is no URL: {url!r} ({error})", path="target") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ConfigurationError(f"target must be like http://host:8000/v1, not {url!r}", path="target")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("target holds a name or password; use --api-key-env or --header", path="target")
    return parts


def _loopback(host: str) -> bool:
    """A proxy for the world outside is not meant for this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


async def _read_stream(response: httpx.Response, report: Report) -> None:
    """Server-sent events: a JSON chunk each, then `[DONE]`."""
    closed = False
    async for line in response.aiter_lines():
        field, _, value = line.partition(":")
        value = value.strip()
        if field != "data" or not value:
            continue
        if value == "[DONE]":
            closed = True
            break
        _take(_parsed(value), report, whole=False)
    if report.sample.first is None:
        raise CallFailed(Trouble("empty stream", "it ended without text" if closed else "it broke off before any text"))


def _take(chunk: Any, report: Report, *, whole: bool) -> None:
    """What a chunk, or a whole answer, brings."""
    error = chunk.get("error")
    if error:
        raise CallFailed(_of_error(error))
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        if not whole and any(delta.get(name) for name in ("content", "reasoning_content", "reasoning", "tool_calls")):
            report.item()
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        report.usage(_count(usage.get("completion_tokens")), _count(usage.get("prompt_tokens")))
    if whole and not chunk.get("choices"):
        raise CallFailed(Trouble("empty answer", "it holds no choices"))


def _count(value: object) -> float | None:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CallFailed(Trouble("not an answer of chat completions", text[:_SAID]))
    return value


# What goes wrong. -----------------------------------------------------------------------------------------------------


def _of_status(response: httpx.Response, text: str, where: str) -> Trouble:
    status = response.status_code
    said = _message(text)
    kind = f"HTTP {status}"
    if status in OVERLOAD_STATUSES:
        wait = response.headers.get("retry-after")
        return Trouble(kind, f"{said} (retry after {wait} s)".strip() if wait else said, Effect.PUSHBACK)
    if status >= 500:
        return Trouble(kind, said)
    hints = {
        401: "the key is missing or wrong (--api-key-env names the variable that holds it)",
        403: "the key may not do this",
        404: "no such address or model; the URL usually ends in /v1"
        if where == "chat"
        else "it lists no models: name one (--model); the URL usually ends in /v1",
    }
    hint = f"it redirects to {response.headers.get('location')}" if 300 <= status < 400 else hints.get(status, "")
    return Trouble(kind, "; ".join(part for part in (said, hint) if part), Effect.FATAL)


def _of_error(error: Any) -> Trouble:
    """An error inside a stream that began with 200."""
    code = error.get("code") if isinstance(error, dict) else None
    said = error.get("message", "") if isinstance(error, dict) else str(error)
    overloaded = code in OVERLOAD_STATUSES or str(code) in {"429", "503", "529", "rate_limit_exceeded"}
    effect = Effect.PUSHBACK if overloaded else Effect.FAULT
    return Trouble(f"error in the stream{f' ({code})' if code else ''}", str(said)[:_SAID], effect)


def _of_transport(error: httpx.HTTPError) -> Trouble:
    if isinstance(error, httpx.ConnectTimeout):
        return Trouble("no connection", f"none within {_CONNECT:g} s", Effect.PUSHBACK)
    if isinstance(error, httpx.ConnectError):
        return Trouble("no connection", str(error), Effect.FATAL)
    return Trouble("connection lost", f"{type(error).__name__} {error}".strip())


def _message(text: str) -> str:
    """The message of an error's body: OpenAI's and its kin put it into `error.message`, others elsewhere."""
    try:
        body = json.loads(text)
    except ValueError:
        body = text
    if isinstance(body, dict):
        error = body.get("error", body.get("detail", body.get("message", text)))
        body = error.get("message", text) if isinstance(error, dict) else error
    return " ".join(str(body).split())[:_SAID]
