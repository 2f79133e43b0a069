"""Every wrinkle can be run, and none of them serves more than everything."""

from __future__ import annotations

import pytest

from benchmarks.pace_grid import Cell
from benchmarks.pace_wrinkles import WRINKLES, reached


@pytest.mark.parametrize("wrinkle", WRINKLES)
def test_it_runs(wrinkle: str) -> None:
    """Ten seconds of each. A prefix cache may serve more than the bound, which does not know of it."""
    assert 0 < reached(wrinkle, Cell("a100-8b", "chat", "poisson", 1.25, 1, 10.0)) < 1.5
