"""Names, buckets and the bound on labels."""

from __future__ import annotations

import re
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.errors import ConfigurationError
from andante.telemetry.families import (
    DEFAULT_BUCKETS,
    FAMILIES,
    FAMILY,
    MAX_LENGTH,
    MAX_SERIES,
    OTHER,
    Labels,
    check_buckets,
)


def test_names() -> None:
    """Every family has a name of its own, a sentence of help, and labels from bounded sets only."""
    assert len(FAMILY) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", family.name)
        assert family.help.endswith(".")
        assert set(family.labels) <= {"admission", "service", "gate", "signal", "reason", "ending", "result", "kind"}
        assert (family.kind == "histogram") == (family.name in DEFAULT_BUCKETS) == family.name.endswith("_seconds")


def test_default_buckets() -> None:
    """The defaults are what they must be themselves, and reach from milliseconds to minutes."""
    assert check_buckets(None) == DEFAULT_BUCKETS
    assert check_buckets(DEFAULT_BUCKETS) == DEFAULT_BUCKETS
    assert DEFAULT_BUCKETS["queue_wait_seconds"][0] <= 0.001
    assert DEFAULT_BUCKETS["service_seconds"][-1] >= 600


def test_given_buckets() -> None:
    """Buckets that are given take the place of one default and leave the others."""
    buckets = check_buckets({"service_seconds": [1, 2.5]})
    assert buckets == {**DEFAULT_BUCKETS, "service_seconds": (1.0, 2.5)}


@pytest.mark.parametrize(
    "bounds", [[], "123", 1.0, None, [0], [-1], [nan], [inf], [True], ["1"], [1, 1], [2, 1], {1, 2}]
)
def test_bad_buckets(bounds: object) -> None:
    """Buckets that make no sense are refused, with the name of the histogram."""
    with pytest.raises(ConfigurationError, match="service_seconds") as caught:
        check_buckets({"service_seconds": bounds})  # type: ignore[dict-item]
    assert caught.value.path == "buckets['service_seconds']"


def test_buckets_of_no_histogram() -> None:
    """A name that no histogram has is refused, with those that there are."""
    with pytest.raises(ConfigurationError, match="queue_wait_seconds"):
        check_buckets({"latency": [1.0]})
    with pytest.raises(ConfigurationError, match="must map"):
        check_buckets([1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, -1, 1.5, nan, True, "100", None])
def test_bad_max_names(number: object) -> None:
    with pytest.raises(ConfigurationError, match="max_names"):
        Labels(number)  # type: ignore[arg-type]


@given(names=st.lists(st.text(max_size=3), max_size=60), most=st.integers(1, 10))
def test_labels_are_bounded(names: list[str], most: int) -> None:
    """The first names are kept for good; what comes later is "other", every time it comes (FC-60)."""
    labels = Labels(most)
    seen = [labels.bounded(FAMILY["gate_limit"], "a", name)[1] for name in names]
    again = [labels.bounded(FAMILY["gate_limit"], "a", name)[1] for name in names]
    assert seen == again
    kept = list(dict.fromkeys(names))[:most]
    assert seen == [name if name in kept else OTHER for name in names]


def test_combinations_are_bounded() -> None:
    """Many admissions with many classes each cannot multiply without end (FC-60)."""
    labels = Labels(100)
    sets = {labels.bounded(FAMILY["offered"], f"a{i}", f"s{j}") for i in range(100) for j in range(100)}
    assert len(sets) == MAX_SERIES + 1
    assert (OTHER, OTHER) in sets
    assert labels.bounded(FAMILY["offered"], "a0", "s0") == ("a0", "s0")


@pytest.mark.parametrize("name", [7, 1.5, object(), b"bytes", ("a",), "x" * (MAX_LENGTH + 1), "half \ud800"])
def test_odd_names(name: object) -> None:
    """What is no reasonable name becomes "other"; half a surrogate pair would break the scrape."""
    labels = Labels()
    assert labels.bounded(FAMILY["gate_limit"], "a", name) == ("a", OTHER)
    assert labels.bounded(FAMILY["gate_limit"], "a", None) == ("a", "")
    assert "1 admission" in repr(labels)
