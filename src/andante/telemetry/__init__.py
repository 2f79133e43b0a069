"""Metrics and logs: listeners for an admission. Importing this loads neither prometheus_client nor structlog.

`PrometheusListener` needs `andante[prometheus]`, `StructlogListener` needs `andante[structlog]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andante.telemetry.prometheus import PrometheusListener
    from andante.telemetry.structlog import StructlogListener

__all__ = ["PrometheusListener", "StructlogListener"]


def __getattr__(name: str) -> Any:
    if name == "PrometheusListener":
        from andante.telemetry.prometheus import PrometheusListener

        return PrometheusListener
    if name == "StructlogListener":
        from andante.telemetry.structlog import StructlogListener

        return StructlogListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
