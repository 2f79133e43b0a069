"""Admissions are tried on both event loops, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from andante.testing import virtual_backend


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)
