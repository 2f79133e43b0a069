"""The structlog listener: what it says, to whom, and what it leaves alone."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from math import inf, nan
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger, LogCapture, capture_logs

from andante.errors import ConfigurationError, LineFull
from andante.events import (
    Admitted,
    First,
    Left,
    LimitChanged,
    Offered,
    Refused,
    SignalChanged,
    Waiting,
    Withdrawn,
)
from andante.telemetry import StructlogListener
from andante.telemetry.structlog import BY_DEFAULT, FIELDS, LEVELS, VERBOSE
from andante.values import Call, Cost, Ending, Outcome

pytestmark = pytest.mark.usefixtures("clean_structlog")

CALL = Call(cost=Cost(1, 700), service="asked-for", tenant="customer-7", key="secret-key")
SLOW = Outcome(Ending.OVERLOADED, 5.0, 1.0, 5.0, Cost(), 30.0, TimeoutError("secret prompt"))

ONE_OF_EACH = [
    Offered("llm", "chat", 0.0, CALL),
    Waiting("llm", "chat", 0.0, CALL, "pace"),
    Admitted("llm", "chat", 2.0, CALL, 2.0, True),
    First("llm", "chat", 3.0, CALL, 1.0),
    Left("llm", "chat", 7.0, CALL, Outcome(Ending.DONE, 5.0, 1.0, 5.0, Cost(1, 700, 5)), 2.0),
    Left("llm", "chat", 7.0, CALL, SLOW, 2.0),
    Refused("llm", "chat", 8.0, CALL, LineFull("secret", gate="pace", retry_after=0.5), 0.0, False),
    Withdrawn("llm", "chat", 9.0, CALL, 1.0),
    LimitChanged("llm", "", 9.0, "places", 8.0),
    SignalChanged("llm", "", 9.0, "gpu", "stale"),
]


def lines(listener: StructlogListener, events: list[Any] = ONE_OF_EACH) -> list[dict[str, Any]]:
    with capture_logs() as logs:
        for event in events:
            listener.on(event)
    return [dict(line) for line in logs]


CLASS = {"admission": "llm", "service": "chat"}


def test_verbose() -> None:
    """All event names, all fields, all levels, exactly as documented; no key, prompt, tenant or message of an error."""
    assert lines(StructlogListener(verbose=True)) == [
        {"event": "andante.offered", "log_level": "debug", **CLASS},
        {"event": "andante.waiting", "log_level": "debug", **CLASS, "gate": "pace"},
        {"event": "andante.admitted", "log_level": "debug", **CLASS, "waited": 2.0},
        {"event": "andante.first", "log_level": "debug", **CLASS, "ttft": 1.0},
        {
            "event": "andante.left",
            "log_level": "info",
            **CLASS,
            "ending": "done",
            "waited": 2.0,
            "seconds": 5.0,
            "ttft": 1.0,
            "items": 5.0,
        },
        {
            "event": "andante.left",
            "log_level": "warning",
            **CLASS,
            "ending": "overloaded",
            "waited": 2.0,
            "seconds": 5.0,
            "ttft": 1.0,
            "items": 5.0,
            "retry_after": 30.0,
            "error": "TimeoutError",
        },
        {
            "event": "andante.refused",
            "log_level": "warning",
            **CLASS,
            "reason": "line_full",
            "gate": "pace",
            "waited": 0.0,
            "retry_after": 0.5,
            "error": "LineFull",
        },
        {"event": "andante.withdrawn", "log_level": "info", **CLASS, "waited": 1.0},
        {"event": "andante.limit_changed", "log_level": "info", "admission": "llm", "gate": "places", "limit": 8.0},
        {"event": "andante.signal_changed", "log_level": "info", "admission": "llm", "signal": "gpu", "state": "stale"},
    ]


def test_default() -> None:
    """By default only what somebody should look at is logged."""
    said = [(line["event"], line.get("ending")) for line in lines(StructlogListener())]
    assert said == [
        ("andante.left", "overloaded"),
        ("andante.refused", None),
        ("andante.limit_changed", None),
        ("andante.signal_changed", None),
    ]


def test_levels() -> None:
    """Each event can be given another level, be left out, or be added."""
    quiet = StructlogListener(levels={"refused": "error", "limit_changed": None, "admitted": "info"})
    said = [(line["event"], line["log_level"]) for line in lines(quiet)]
    assert said == [
        ("andante.admitted", "info"),
        ("andante.left", "warning"),
        ("andante.refused", "error"),
        ("andante.signal_changed", "info"),
    ]
    silent = StructlogListener(levels=dict.fromkeys(VERBOSE))
    assert lines(silent) == []
    assert repr(silent) == "<StructlogListener silent>"
    assert "refused error" in repr(quiet)


def test_only_overloads_or_only_the_rest() -> None:
    """`overloaded` and `left` are chosen apart."""
    assert [line["ending"] for line in lines(StructlogListener(levels={"left": "debug", "overloaded": None}))[:1]] == [
        "done"
    ]
    assert set(VERBOSE) == set(BY_DEFAULT) == {name for name, _ in FIELDS.values()} | {"overloaded"}
    assert {*VERBOSE.values()} <= set(LEVELS)


def test_tenants_only_if_asked_for() -> None:
    """Tenants may be people, so they are logged on request only."""
    said = lines(StructlogListener(verbose=True, tenants=True))
    assert [line.get("tenant") for line in said] == ["customer-7"] * 8 + [None] * 2
    assert all("tenant" not in line for line in lines(StructlogListener(verbose=True)))
    assert all(
        "tenant" not in line
        for line in lines(StructlogListener(tenants=True), [Refused("a", "s", 0, Call(), LineFull(), 0, False)])
    )


@pytest.mark.parametrize(
    "levels", [{"refused": "loud"}, {"refused": 30}, {"rejected": "info"}, {None: "info"}, ["refused"], "info"]
)
def test_bad_levels(levels: Any) -> None:
    with pytest.raises(ConfigurationError, match="levels"):
        StructlogListener(levels=levels)


@pytest.mark.parametrize("logger", ["andante", logging.getLogger("andante"), 7])
def test_bad_logger(logger: object) -> None:
    with pytest.raises(ConfigurationError, match=r"wrap_logger"):
        StructlogListener(logger)


def test_odd_events() -> None:
    """No event raises, however odd; a field that is no name and no finite number is left out."""
    odd = [
        Admitted("llm", "chat", 0, CALL, nan, False),
        Admitted("llm", "chat", 0, None, None, False),  # type: ignore[arg-type]
        Left("llm", "chat", 0, CALL, None, inf),  # type: ignore[arg-type]
        Left("llm", "chat", 0, CALL, Outcome(None, "1", nan, object(), None, inf), 0),  # type: ignore[arg-type]
        Refused("llm", "chat", 0, CALL, None, -1.0, False),  # type: ignore[arg-type]
        Refused("llm", "chat", 0, CALL, ValueError("secret"), 10**400, False),  # type: ignore[arg-type]
        LimitChanged("llm", "", 0, "g", inf),
        LimitChanged(b"llm", None, 0, ["g"], {}),  # type: ignore[arg-type]
        None,
        7,
        "Refused",
        Offered,
    ]
    said = lines(StructlogListener(verbose=True, tenants=True), odd)
    assert [line["event"] for line in said] == [
        *["andante.admitted"] * 2,
        *["andante.left"] * 2,
        *["andante.refused"] * 2,
        *["andante.limit_changed"] * 2,
    ]
    assert said[0] == {"event": "andante.admitted", "log_level": "debug", **CLASS, "tenant": "customer-7"}
    assert said[6] == {"event": "andante.limit_changed", "log_level": "info", "admission": "llm", "gate": "g"}
    assert said[7] == {"event": "andante.limit_changed", "log_level": "info"}
    assert "secret" not in str(said)


# The application's logging is the application's. --------------------------------------------------------------------


def test_nothing_is_configured() -> None:
    """FC-63: importing, creating and logging leave structlog unconfigured, and the standard library's logging alone."""
    code = """
import logging, structlog
root = logging.getLogger()
def state(): return structlog.is_configured(), root.handlers[:], root.level, sorted(logging.root.manager.loggerDict)
before = state()
import andante.telemetry
from andante.telemetry import StructlogListener
listener = StructlogListener(verbose=True)
from andante.events import LimitChanged
listener.on(LimitChanged("llm", "", 0.0, "places", 8.0))
after = state()
assert before[:3] == after[:3] == (False, [], logging.WARNING), (before, after)
assert set(after[3]) - set(before[3]) <= {"andante", "asyncio", "concurrent", "concurrent.futures"}, after[3]
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "andante.limit_changed" in done.stdout


@pytest.mark.parametrize("cached", [False, True])
def test_configured_afterwards(capsys: pytest.CaptureFixture[str], cached: bool) -> None:
    """FC-63: events follow the application's configuration, even if it comes after the first event, and comes again."""
    listener = StructlogListener()
    refused = Refused("llm", "chat", 0.0, CALL, LineFull(gate="pace"), 0.0, False)
    listener.on(refused)
    assert "andante.refused" in capsys.readouterr().out
    for name in "first", "second":
        out = io.StringIO()
        structlog.configure(
            processors=[structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(out),
            cache_logger_on_first_use=cached,
        )
        for _ in range(2):
            listener.on(refused)
        assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["andante.refused"] * 2, name
    assert capsys.readouterr().out == ""


def test_times_are_readable() -> None:
    """A time says microseconds, not the last bits of a float."""
    (said,) = lines(StructlogListener(verbose=True), [Admitted("a", "s", 0.3, CALL, 0.1 + 0.2, True)])
    assert said["waited"] == 0.3


def test_filtering_by_level() -> None:
    """The application's threshold holds."""
    capture = LogCapture()
    structlog.configure(processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for event in ONE_OF_EACH:
        StructlogListener(verbose=True).on(event)
    assert {entry["log_level"] for entry in capture.entries} == {"warning"}


@pytest.mark.parametrize("final", ["json", "kwargs"])
def test_through_the_standard_library(caplog: pytest.LogCaptureFixture, final: str) -> None:
    """FC-63: an application that sends structlog into the standard library's logging gets the events there.

    The field names may become attributes of a log record; none is taken.
    """
    renderer = structlog.processors.JSONRenderer() if final == "json" else structlog.stdlib.render_to_log_kwargs
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.add_logger_name, renderer],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    listener = StructlogListener(verbose=True, tenants=True)
    with caplog.at_level(logging.INFO):
        for event in ONE_OF_EACH:
            listener.on(event)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "WARNING", "INFO", "INFO", "INFO"]
    assert {record.name for record in caplog.records} == {"andante.telemetry.structlog"}
    refused = caplog.records[2]
    fields = json.loads(refused.message) if final == "json" else vars(refused)
    assert fields["reason"] == "line_full"
    assert fields["admission"] == "llm"


def test_context_variables() -> None:
    """FC-62: what the caller has bound appears in its events; the event's own fields win.

    A limit or a signal that changed is nobody's: the fields of the caller that happened to be there are left out.
    """
    capture = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    with structlog.contextvars.bound_contextvars(request_id="r-1", service="shop"):
        for event in ONE_OF_EACH[6:]:
            StructlogListener(verbose=True).on(event)
    StructlogListener().on(ONE_OF_EACH[6])
    assert [entry.get("request_id") for entry in capture.entries] == ["r-1", "r-1", None, None, None]
    assert [entry.get("service") for entry in capture.entries] == ["chat", "chat", None, None, "chat"]


def test_logger_of_ones_own() -> None:
    """A given logger is used as it is, with what is bound to it."""
    target = CapturingLogger()
    logger = structlog.wrap_logger(target, processors=[structlog.processors.KeyValueRenderer()]).bind(team="search")
    StructlogListener(logger).on(ONE_OF_EACH[8])
    (call,) = target.calls
    assert call.method_name == "info"
    assert "team='search'" in call.args[0]
    assert "event='andante.limit_changed'" in call.args[0]


def test_what_the_applications_logging_raises() -> None:
    """A broken processor is the application's own: it is not hidden, and the admission reports it once."""

    def broken(*args: Any) -> Any:
        raise KeyError("mine")

    structlog.configure(processors=[broken])
    with pytest.raises(KeyError, match="mine"):
        StructlogListener().on(ONE_OF_EACH[6])
