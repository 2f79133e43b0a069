"""What an error of the work says about the backend."""

from __future__ import annotations

import logging
from math import isfinite
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError, Rejected
from andante.values import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("andante")

OVERLOAD_STATUSES = frozenset({408, 429, 503, 504, 529})
"""HTTP statuses by which a backend says that it cannot: time-outs, too many requests, unavailable, overloaded."""


def classify(error: BaseException) -> tuple[Ending, float | None]:
    """The default `classify` of an admission: `(ending, retry_after)`.

    OVERLOADED: an HTTP status of `OVERLOAD_STATUSES` (found as `status_code`, `status`, or on `response`), a
    TimeoutError (asyncio's, a socket's, `DeadlineOverrun`), an SDK's time-out (told by its class's name), MemoryError,
    and a CUDA one (derived from it, or called OutOfMemoryError). `retry_after` is read from the error's attribute, or
    from the response's `retry-after` header where that is a number of seconds.
    IGNORED: everything else, above all cancellation and the caller's own mistakes.
    """
    if not isinstance(error, Exception) or isinstance(error, Rejected):
        return Ending.IGNORED, None
    response: Any = getattr(error, "response", None)
    for source in (error, response):
        for attribute in ("status_code", "status"):
            status = getattr(source, attribute, None)
            if isinstance(status, int) and not isinstance(status, bool):
                if status in OVERLOAD_STATUSES:
                    return Ending.OVERLOADED, _retry_after(error, response)
                return Ending.IGNORED, None
    if isinstance(error, (TimeoutError, MemoryError)) or type(error).__name__.endswith(
        ("TimeoutError", "TimeoutException", "OutOfMemoryError", "ReadTimeout", "ConnectTimeout")
    ):
        return Ending.OVERLOADED, _retry_after(error, response)
    return Ending.IGNORED, None


def _retry_after(error: BaseException, response: Any) -> float | None:
    value = getattr(error, "retry_after", None)
    if value is None:
        headers = getattr(response, "headers", None)
        get = getattr(headers, "get", None)
        value = get("retry-after") if callable(get) else None
    try:
        number = float(value) if isinstance(value, (int, float, str)) else -1.0
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


class Judge:
    """A user's `classify`. Where it fails, the verdict is IGNORED; that is reported once."""

    __slots__ = ("_broken", "_name", "classify")

    def __init__(self, classify: Callable[[BaseException], Ending | tuple[Ending, float | None]], name: str) -> None:
        self.classify = classify
        self._name = name
        self._broken = False

    def __call__(self, error: BaseException) -> tuple[Ending, float | None]:
        """What `error` says about the backend, and how long it asks to stay away."""
        try:
            verdict = self.classify(error)
            ending, retry_after = verdict if isinstance(verdict, tuple) else (verdict, None)
            if not isinstance(ending, Ending):
                raise ConfigurationError(
                    f"classify must return an Ending or (Ending, retry_after), not {verdict!r}", path="classify"
                )
        except Exception:
            if not self._broken:
                self._broken = True
                _log.exception("classify of admission %r failed; further failures are not reported", self._name)
            return Ending.IGNORED, None
        return ending, retry_after
