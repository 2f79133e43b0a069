"""The tables of the pages are what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from andante.telemetry.families import DEFAULT_BUCKETS, FAMILIES, MAX_NAMES, MAX_SERIES
from andante.telemetry.structlog import BY_DEFAULT, FIELDS, VERBOSE

PAGES = Path(__file__).parents[2] / "docs" / "components"


def rows(page: str) -> list[list[str]]:
    """The cells of every row of every table."""
    lines = (PAGES / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_metrics() -> None:
    """The page lists exactly the families that there are, with type and labels, and the buckets."""
    table = {row[0].strip("`"): row for row in rows("prometheus.md")}
    names = {f"andante_{f.name}{'_total' if f.kind == 'counter' else ''}": f for f in FAMILIES}
    assert {name for name in table if name.startswith("andante_")} == set(names)
    for name, family in names.items():
        assert table[name][1:3] == [family.kind, ", ".join(family.labels)]
    for name, bounds in DEFAULT_BUCKETS.items():
        assert [float(bound) for bound in table[name][1].split(",")] == list(bounds)
    assert table["max_names"][1] == str(MAX_NAMES)
    assert f"first {MAX_SERIES:,} combinations" in (PAGES / "prometheus.md").read_text(encoding="utf-8")


def test_events() -> None:
    """The page lists exactly the events that there are, with their fields and levels."""
    table = {row[0]: row[1:] for row in rows("structlog.md") if row[0].startswith("`andante.")}
    kinds = {f"`andante.{name}`": name for name, _ in FIELDS.values()} | {"`andante.left`, overloaded": "overloaded"}
    assert set(table) == set(kinds)
    for row, name in kinds.items():
        assert table[row][1:] == [BY_DEFAULT[name] or "-", VERBOSE[name]]
    fields = {name: list(paths) for name, paths in FIELDS.values()}
    for row, name in kinds.items():
        if name != "overloaded":
            shown = [field for field in table[row][0].split(", ") if field not in ("admission", "service")]
            assert shown == fields[name]


@pytest.mark.parametrize("page", ["prometheus.md", "structlog.md"])
def test_headings(page: str) -> None:
    """Every component page has the same headings."""
    text = (PAGES / page).read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "What it is",
        "Use",
        "Defaults",
        "Events and metrics",
        "Diagram",
        "Patterns",
        "Anti-patterns",
    ]
