"""Logs by structlog. The only file that imports structlog, and it configures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from math import isfinite
from typing import Any

try:
    import structlog
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "StructlogListener needs structlog: pip install 'andante[structlog]'", name=error.name
    ) from error

from andante.errors import ConfigurationError
from andante.events import (
    Admitted,
    Event,
    First,
    Left,
    LimitChanged,
    Offered,
    Refused,
    SignalChanged,
    Waiting,
    Withdrawn,
)
from andante.values import Ending

LEVELS = ("debug", "info", "warning", "error", "critical")

_OUTCOME = {name: ("outcome", name) for name in ("seconds", "ttft", "items", "retry_after")}

FIELDS: Mapping[type[Event], tuple[str, Mapping[str, tuple[str, ...]]]] = {
    Offered: ("offered", {}),
    Waiting: ("waiting", {"gate": ("gate",)}),
    Admitted: ("admitted", {"waited": ("waited",)}),
    First: ("first", {"ttft": ("ttft",)}),
    Left: (
        "left",
        {
            "ending": ("outcome", "ending", "value"),
            "waited": ("waited",),
            **_OUTCOME,
            "error": ("outcome", "error", "__class__", "__name__"),
        },
    ),
    Refused: (
        "refused",
        {
            "reason": ("error", "reason"),
            "gate": ("error", "gate"),
            "waited": ("waited",),
            "retry_after": ("error", "retry_after"),
            "error": ("error", "__class__", "__name__"),
        },
    ),
    Withdrawn: ("withdrawn", {"waited": ("waited",)}),
    LimitChanged: ("limit_changed", {"gate": ("gate",), "limit": ("limit",)}),
    SignalChanged: ("signal_changed", {"signal": ("signal",), "state": ("state",)}),
}
"""By type of event: its name, and where in it each field is found. Besides, all have `admission`, most `service`."""

BY_DEFAULT: Mapping[str, str | None] = {
    "offered": None,
    "waiting": None,
    "admitted": None,
    "first": None,
    "left": None,
    "overloaded": "warning",
    "refused": "warning",
    "withdrawn": None,
    "limit_changed": "info",
    "signal_changed": "info",
}
"""The level of each event; None: not logged. `overloaded` is a `left` with that ending."""

VERBOSE: Mapping[str, str] = {
    "offered": "debug",
    "waiting": "debug",
    "admitted": "debug",
    "first": "debug",
    "left": "info",
    "overloaded": "warning",
    "refused": "warning",
    "withdrawn": "info",
    "limit_changed": "info",
    "signal_changed": "info",
}
"""The same with `verbose=True`."""


class StructlogListener:
    """Logs what an admission tells it: `Admission(..., listeners=[StructlogListener()])`.

    Event names are `andante.refused`, `andante.left` and so on; they and the fields are stable. Configuration is the
    application's: it is looked up at every event, so it may come after this listener, and may change. Context
    variables that the caller has bound (`structlog.contextvars`) appear where the application merges them; a changed
    limit or signal is no caller's, and carries none. Times are in seconds, to the microsecond.

    Prompts, keys, arguments and the messages of errors are never logged; of an error, the name of its type is.

    Args:
        logger: a structlog logger, with whatever is bound to it; None: `structlog.get_logger()`, anew at every event.
        verbose: log every event, not only refusals, overloads and changes of limits and signals.
        levels: levels by event that differ from the default, such as `{"admitted": "info", "limit_changed": None}`;
            None leaves an event out. The names are those of `BY_DEFAULT`.
        tenants: add the field `tenant` (default: no, since it may name a person).

    Raises ConfigurationError for a level or an event that does not exist, or when `logger` is not structlog's.
    """

    def __init__(
        self,
        logger: Any = None,
        *,
        verbose: bool = False,
        levels: Mapping[str, str | None] | None = None,
        tenants: bool = False,
    ) -> None:
        if levels is not None and not isinstance(levels, Mapping):
            raise ConfigurationError(f"levels must map events to levels, not {levels!r}", path="levels")
        chosen: dict[str, str | None] = {**(VERBOSE if verbose else BY_DEFAULT), **(levels or {})}
        for name, level in chosen.items():
            if name not in VERBOSE:
                raise ConfigurationError(f"levels: no event {name!r}; there are {', '.join(VERBOSE)}", path="levels")
            if level is not None and level not in LEVELS:
                raise ConfigurationError(
                    f"levels[{name!r}] must be {', '.join(LEVELS)} or None, not {level!r}", path=f"levels[{name!r}]"
                )
        if logger is not None and not callable(getattr(logger, "bind", None)):
            raise ConfigurationError(
                f"logger must be a structlog logger, not {logger!r}; structlog.wrap_logger() makes one of others",
                path="logger",
            )
        self._logger = logger
        self._levels = {name: level for name, level in chosen.items() if level is not None}
        self._tenants = tenants

    def on(self, event: Event) -> None:
        """Log `event`, if its kind is chosen. Raises only what the application's own logging raises."""
        name, paths = FIELDS.get(type(event), ("", {}))
        overloaded = name == "left" and _found(event, "outcome", "ending") is Ending.OVERLOADED
        level = self._levels.get("overloaded" if overloaded else name)
        if level is None:
            return
        fields = {"admission": _found(event, "admission"), "service": _found(event, "service") or None}
        for field, path in paths.items():
            fields[field] = _found(event, *path)
        fields = {field: _plain(value) for field, value in fields.items() if _can_be_said(value)}
        if self._tenants and (tenant := _found(event, "call", "tenant")) is not None:
            fields["tenant"] = tenant
        if isinstance(event, (LimitChanged, SignalChanged)):
            # It concerns a gate or a signal: the caller that happened to be there is no part of it.
            Context().run(self._say, level, f"andante.{name}", fields)
        else:
            self._say(level, f"andante.{name}", fields)

    def _say(self, level: str, name: str, fields: dict[str, Any]) -> None:
        # Asked for anew each time: a logger that is kept may have been assembled before the application configured it.
        logger = structlog.get_logger() if self._logger is None else self._logger
        getattr(logger, level)(name, **fields)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name} {level}" for name, level in self._levels.items())
        return f"<{type(self).__name__} {chosen or 'silent'}>"


def _found(value: Any, *path: str) -> Any:
    """What stands at `path`, None if nothing does."""
    for name in path:
        if value is None:
            return None
        value = getattr(value, name, None)
    return value


def _can_be_said(value: object) -> bool:
    """Names and finite numbers; infinity and NaN are no JSON, and whatever else there is might hold a secret."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and isfinite(value))


def _plain(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
