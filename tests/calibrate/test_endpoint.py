"""A small OpenAI-compatible server on loopback: its knee is found, and all that it may do wrong is told."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httpx")  # the extra `calibrate`

from andante.calibrate import Bounds, Calibration, Effect, calibrate, first_call
from andante.calibrate.endpoint import EndpointTarget
from andante.errors import ConfigurationError
from andante.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from andante.calibrate import Sample
    from tests.calibrate.conftest import Serve, Server


async def one(url: str, *, timeout: float = 5.0, **options: Any) -> Sample:
    """What a first call to `url` gives."""
    target = EndpointTarget(url, **options)
    try:
        return await first_call(target, Calibration(target.name, Bounds(timeout=timeout)))
    finally:
        await target.close()


def test_the_knee_of_a_server(server: Serve) -> None:
    """Four streams are served together, further ones wait for a place: the pace is four, the curve is flat beyond,
    first results grow there and gaps do not. Real sockets; the time between what goes over them is virtual."""

    async def climb() -> tuple[Server, Calibration]:
        async with server(4) as served:
            served.first, served.gap, served.tokens = 0.2, 0.1, 5
            target = EndpointTarget(served.url, words=10, max_tokens=8)
            done = Calibration(target.name, Bounds(seconds=30.0, at_most=12, rounds=2))
            await first_call(target, done)
            await calibrate(target, done)
            await target.close()
            await asyncio.sleep(0.5)
            assert served.inside == 0, "all calls are ended"
            return served, done

    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(grace=0.002)) as runner:
        served, done = runner.run(climb())
    assert done.pace is not None
    assert done.pace.n == 4
    assert done.pace.rate.median == pytest.approx(4 * 5 / 0.6, rel=0.1)
    assert served.most <= 8
    levels = {level.n: level for level in done.levels}
    assert levels[8].rate.median == pytest.approx(levels[4].rate.median, rel=0.1)
    assert levels[4].share(levels[4].ttft, 0.5) == pytest.approx(0.2, rel=0.1)
    assert (levels[8].share(levels[8].ttft, 0.5) or 0.0) > 0.5
    assert levels[8].share(levels[8].itl, 0.5) == pytest.approx(0.1, rel=0.1)
    assert done.prompt == 20
    asked = served.asked[0]
    assert (asked["model"], asked["max_tokens"], asked["stream"]) == ("one", 8, True)
    contents = [each["messages"][0]["content"] for each in served.asked]
    assert len(set(contents)) == len(contents), "no prompt twice"
    assert {len(content.split()) for content in contents} == {10}


@pytest.mark.asyncio
async def test_whole_answers_key_headers_and_fields(server: Serve) -> None:
    """`stream=False` asks for whole answers; key, headers and further fields are sent; None removes a field."""
    async with server() as served:
        sample = await one(
            served.url + "/chat/completions",
            stream=False,
            model="m",
            key="secret",
            headers={"X-Team": "a"},
            body={"max_tokens": None, "max_completion_tokens": 9},
        )
        assert sample.trouble is None
        assert (sample.first, sample.output, sample.prompt) == (None, 8.0, 20.0)
        (asked,) = served.asked
        assert (asked["model"], asked["max_completion_tokens"]) == ("m", 9)
        assert not {"max_tokens", "stream"} & set(asked)
        assert served.headers[0]["authorization"] == "Bearer secret"
        assert served.headers[0]["x-team"] == "a"


def error(message: str) -> str:
    return f'{{"error": {{"message": "{message}"}}}}'


@pytest.mark.parametrize(
    ("reply", "effect", "said"),
    [
        ((401, error("bad key")), Effect.FATAL, "HTTP 401: bad key; .*--api-key-env"),
        ((403, "no"), Effect.FATAL, "HTTP 403: no"),
        ((404, '{"detail": "Not Found"}'), Effect.FATAL, "HTTP 404: Not Found; .*/v1"),
        ((400, error("stream_options is unknown")), Effect.FATAL, "stream_options is unknown"),
        ((307, "", "location: http://elsewhere/\r\n"), Effect.FATAL, "HTTP 307: it redirects to http://elsewhere/"),
        ((429, error("slow"), "retry-after: 7\r\n"), Effect.PUSHBACK, r"HTTP 429: slow \(retry after 7 s\)"),
        ((503, ""), Effect.PUSHBACK, "HTTP 503"),
        ((500, "<html>oops</html>"), Effect.FAULT, "HTTP 500: <html>oops"),
        ((200, "hello"), Effect.FAULT, "empty stream"),
        ((200, '{"choices": []}'), Effect.FAULT, "empty answer"),
        ((200, '{"error": {"code": "rate_limit_exceeded", "message": "x"}}'), Effect.PUSHBACK, "error in the stream"),
    ],
)
@pytest.mark.asyncio
async def test_errors_are_told(server: Serve, reply: Any, effect: Effect, said: str) -> None:
    """Each error with what the server said, what to do about it, and what it does to the climb; nobody is asked again,
    and no redirect is followed."""
    async with server(reply=lambda number, asked: reply) as served:
        sample = await one(served.url)
        assert sample.trouble is not None
        assert sample.trouble.effect is effect
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(str(sample.trouble))
        assert len(served.asked) == 1


@pytest.mark.parametrize(
    ("mode", "effect", "said"),
    [
        ("silent", Effect.PUSHBACK, "no output for 0.2 s"),
        ("empty", Effect.FAULT, "empty stream: it ended without text"),
        ("broken", Effect.FAULT, "empty stream: it broke off before any text"),
        ("error", Effect.PUSHBACK, "error in the stream (503): out of slots"),
    ],
)
@pytest.mark.asyncio
async def test_streams_that_go_wrong(server: Serve, mode: str, effect: Effect, said: str) -> None:
    """A stream that never starts, that is empty, that breaks off, that brings an error after its 200."""
    async with server(mode=mode) as served:
        sample = await one(served.url, timeout=0.2)
        assert sample.trouble is not None
        assert (sample.trouble.effect, str(sample.trouble)) == (effect, said)


@pytest.mark.asyncio
async def test_pushback_of_a_server_ends_the_climb(server: Serve) -> None:
    """The fortieth call gets a 429: few that were under way come after it, and the report has it."""
    async with server(16, reply=lambda number, asked: (429, error("slow")) if number >= 40 else None) as served:
        target = EndpointTarget(served.url, words=5)
        done = Calibration(target.name, Bounds(seconds=3, at_most=16))
        await first_call(target, done)
        await calibrate(target, done)
        await target.close()
        assert done.stop is not None
        assert done.stop.reason == "pushback"
        assert 40 <= len(served.asked) <= 40 + 16


@pytest.mark.asyncio
async def test_nobody_listens() -> None:
    """A refused connection is fatal, and said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sample = await one(f"http://127.0.0.1:{port}/v1")
    assert sample.trouble is not None
    assert (sample.trouble.kind, sample.trouble.effect) == ("no connection", Effect.FATAL)


@pytest.mark.asyncio
async def test_which_model(server: Serve) -> None:
    """The one model that is listed is taken; of several one has to be named; a wrong address says so."""
    async with server(mode="two") as served:
        sample = await one(served.url)
        assert sample.trouble is not None
        assert "it lists one, two: name one (--model)" in str(sample.trouble)
        assert not served.asked
        assert (await one(served.url, model="two")).trouble is None
        wrong = await one(served.url.removesuffix("/v1"))
        assert wrong.trouble is not None
        assert "/v1" in str(wrong.trouble)
        assert wrong.trouble.effect is Effect.FATAL


@pytest.mark.parametrize("url", ["http://", "ftp://host/v1", "http://host:port/v1", "http://[::1/v1", "http:///v1"])
def test_bad_addresses(url: str) -> None:
    """Refused before anything is sent."""
    with pytest.raises(ConfigurationError, match="target"):
        EndpointTarget(url)


def test_no_password_in_an_address() -> None:
    """It would stand in reports."""
    with pytest.raises(ConfigurationError, match="--api-key-env") as caught:
        EndpointTarget("http://me:secret@host/v1")
    assert "secret" not in str(caught.value)


def test_queries_and_slashes() -> None:
    """A query stays where it is; a slash at the end does not matter."""
    assert EndpointTarget("http://host/v1/?api-version=1")._chat == "http://host/v1/chat/completions?api-version=1"
    assert EndpointTarget("http://host/v1/chat/completions").base == "http://host/v1"
    assert "host" in repr(EndpointTarget("http://host/v1"))
