"""Which errors of the work tell of a backend in trouble, and which of a caller's mistake."""

from __future__ import annotations

from typing import Any

_OF_THIS_MACHINE = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)

# By name, since none of these packages need be installed: httpx's, the openai and anthropic SDKs', aiohttp's.
_CONNECTIONS = frozenset(
    {
        "NetworkError",
        "RemoteProtocolError",
        "ProxyError",
        "APIConnectionError",
        "ClientConnectionError",
        "ClientPayloadError",
    }
)

_NEVER_IMPLEMENTED = frozenset({501, 505})


def status_of(error: BaseException) -> int | None:
    """The HTTP status that `error` carries, as `status_code` or `status`, its own or on its `response`."""
    for source in (error, getattr(error, "response", None)):
        for attribute in ("status_code", "status"):
            status: Any = getattr(source, attribute, None)
            if isinstance(status, int) and not isinstance(status, bool):
                return status
    return None


def broken(error: BaseException) -> bool:
    """Whether `error` says that the backend, or the way to it, does not work.

    True: connections refused, reset or not found, TLS that fails, any other OSError that is not about this machine's
    files, the connection errors of the common clients (by their class's name), and HTTP statuses of 500 and above
    except those for what was never implemented (501, 505). False: everything else, above all time-outs and pushback,
    which `andante.ending.classify` calls OVERLOADED, and the caller's own mistakes.
    """
    status = status_of(error)
    if status is not None:
        return status >= 500 and status not in _NEVER_IMPLEMENTED
    if isinstance(error, OSError):
        return not isinstance(error, _OF_THIS_MACHINE)
    return any(kind.__name__ in _CONNECTIONS for kind in type(error).__mro__)
