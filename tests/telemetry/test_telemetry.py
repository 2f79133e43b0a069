"""The front room: lazy, and clear about what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import andante.telemetry


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_neither() -> None:
    """`import andante.telemetry` loads no optional package; a listener loads its own alone."""
    code = """
import sys, andante.telemetry as t
def loaded(): return sorted({"prometheus_client", "structlog"} & set(sys.modules))
print(loaded())
t.PrometheusListener; print(loaded())
t.StructlogListener; print(loaded())
"""
    assert python(code).splitlines() == ["[]", "['prometheus_client']", "['prometheus_client', 'structlog']"]


def test_metrics_and_logs_are_optional() -> None:
    """FC-59, FC-63: without the packages andante works, and asking for a listener says what to install."""
    code = """
import sys
sys.modules["prometheus_client"] = sys.modules["structlog"] = None
import andante, andante.telemetry as t
assert andante.Admission().try_enter().account.waited == 0
for name in t.__all__:
    try: getattr(t, name)
    except ModuleNotFoundError as error: print(error)
"""
    first, second = python(code).splitlines()
    assert "pip install 'andante[prometheus]'" in first
    assert "pip install 'andante[structlog]'" in second


def test_names() -> None:
    """All that is promised is there, and nothing else."""
    assert dir(andante.telemetry) == sorted(andante.telemetry.__all__)
    for name in andante.telemetry.__all__:
        assert getattr(andante.telemetry, name).__name__ == name
    with pytest.raises(AttributeError, match="Statsd"):
        andante.telemetry.StatsdListener  # type: ignore[attr-defined]
