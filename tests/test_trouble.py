"""What an error says about the backend: in trouble, or a caller's mistake."""

from __future__ import annotations

import socket
import ssl
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from andante.trouble import broken, status_of


class Answered(Exception):
    def __init__(self, **attributes: Any) -> None:
        super().__init__("answered")
        for name, value in attributes.items():
            setattr(self, name, value)


class APIConnectionError(Exception):
    """Called as the SDKs' are."""


class APITimeoutError(APIConnectionError):
    """As theirs is: a connection error by descent."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("nobody listens"),
        ConnectionResetError(),
        BrokenPipeError(),
        socket.gaierror(-2, "unknown name"),
        ssl.SSLError("bad certificate"),
        OSError(101, "no route"),
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.WriteError("reset"),
        httpx.RemoteProtocolError("closed in the middle of the headers"),
        httpx.ProxyError("no way"),
        APIConnectionError(),
        APITimeoutError(),
        Answered(status_code=500),
        Answered(status=502),
        Answered(response=SimpleNamespace(status_code=503)),
    ],
    ids=repr,
)
def test_the_backend_or_the_way_to_it(error: Exception) -> None:
    """FC-34: connections refused, reset, not found, without TLS, by httpx, an SDK or plain Python; and 5xx."""
    assert broken(error)


@pytest.mark.parametrize(
    "error",
    [
        TypeError("no such argument"),
        KeyError("model"),
        ValueError(),
        FileNotFoundError("prompt.txt"),
        PermissionError("key.pem"),
        httpx.UnsupportedProtocol("htp://"),
        httpx.LocalProtocolError("bad header"),
        Answered(status_code=400),
        Answered(status_code=404),
        Answered(status_code=429),
        Answered(status_code=501),
        Answered(status_code=True),
        Answered(status_code="503"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_somebody_else_s(error: BaseException) -> None:
    """FC-33: the caller's own mistakes, this machine's files, what was never implemented, and pushback."""
    assert not broken(error)


def test_status_of() -> None:
    """Its own status counts before its response's; what is no int is none."""
    assert status_of(Answered(status_code=418, response=SimpleNamespace(status_code=500))) == 418
    assert status_of(Answered(status="400", response=SimpleNamespace(status=502))) == 502
    assert status_of(Answered()) is None
