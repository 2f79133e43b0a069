"""What is measured: the metric families, their labels and buckets, and a bound on the names that become labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Literal

from andante.errors import ConfigurationError
from andante.values import is_number

OTHER = "other"
"""The label value of every name that is one too many."""

MAX_NAMES = 100
"""Distinct values of one label, unless a listener says otherwise."""

MAX_SERIES = 1_000
"""Distinct combinations of labels in one family."""

MAX_LENGTH = 200
"""Characters of a label value."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. Its full name is `<namespace>_<name>`, a counter's `<namespace>_<name>_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


_CLASS = ("admission", "service")

FAMILIES = (
    Family("offered", "counter", _CLASS, "Calls that arrived: started, refused, withdrawn or still waiting."),
    Family("started", "counter", _CLASS, "Calls that started: done, overloaded, ignored or still inside."),
    Family("withdrawn", "counter", _CLASS, "Calls whose caller left before they ran."),
    Family("refused", "counter", (*_CLASS, "reason", "gate"), "Calls refused, by reason and the gate that held them."),
    Family("calls", "counter", (*_CLASS, "ending"), "Calls that ended, as done, overloaded or ignored."),
    Family(
        "tokens",
        "counter",
        (*_CLASS, "kind"),
        "Tokens of calls that ended: as settled, else as reserved. cached is a part of input.",
    ),
    Family("inside_calls", "gauge", _CLASS, "Calls that have started and not ended."),
    Family("waiting_calls", "gauge", _CLASS, "Calls that wait in the line."),
    Family("gate_limit", "gauge", ("admission", "gate"), "The limit of a gate, in the gate's own unit."),
    Family("signal_fresh", "gauge", ("admission", "signal"), "1 while a signal is fresh, else (stale or missing) 0."),
    Family(
        "queue_wait_seconds",
        "histogram",
        (*_CLASS, "result"),
        "Seconds from arrival until the call was admitted, refused or withdrawn; 0 if at once.",
    ),
    Family("time_to_first_item_seconds", "histogram", _CLASS, "Seconds from the start of a call to its first result."),
    Family(
        "inter_token_seconds",
        "histogram",
        _CLASS,
        "Seconds between output tokens, as the mean over one call: (service time - time to first item) / (items - 1), "
        "observed once when a call of more than one item ends, unless it was ignored.",
    ),
    Family(
        "service_seconds",
        "histogram",
        (*_CLASS, "ending"),
        "Seconds from start to end, less the time in which a stream's consumer had not asked for the next item.",
    ),
)

FAMILY = {family.name: family for family in FAMILIES}
"""Each family by its name."""

DEFAULT_BUCKETS: Mapping[str, tuple[float, ...]] = {
    "queue_wait_seconds": (
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    ),
    "time_to_first_item_seconds": (
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 60.0, 120.0,
    ),
    "inter_token_seconds": (
        0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5,
    ),
    "service_seconds": (
        0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    ),
}  # fmt: skip
"""Upper bounds in seconds, by family. From a few milliseconds to the minutes that long answers take."""


def check_buckets(given: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, ...]]:
    """The default buckets with those that are given in their place.

    Raises ConfigurationError for a family that has none, and unless bounds are finite, above 0 and ascending.
    """
    buckets = dict(DEFAULT_BUCKETS)
    if given is None:
        return buckets
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"buckets must map histograms to bounds, such as {{'service_seconds': [0.1, 1, 10]}}, not {given!r}",
            path="buckets",
        )
    for name, bounds in given.items():
        path = f"buckets[{name!r}]"
        if name not in buckets:
            raise ConfigurationError(f"{path}: no such histogram; there are {', '.join(buckets)}", path=path)
        if not isinstance(bounds, Sequence) or isinstance(bounds, (str, bytes)) or not bounds:
            raise ConfigurationError(f"{path} must be a list of seconds, not {bounds!r}", path=path)
        for bound in bounds:
            if not is_number(bound) or not isfinite(bound) or bound <= 0:
                raise ConfigurationError(f"{path} must hold finite seconds above 0, not {bound!r}", path=path)
        ascending = tuple(float(bound) for bound in bounds)
        if any(low >= high for low, high in pairwise(ascending)):
            raise ConfigurationError(f"{path} must ascend, and {bounds!r} does not", path=path)
        buckets[name] = ascending
    return buckets


class Labels:
    """Keeps labels bounded: the first names and combinations are kept for good, what comes later is called "other".

    Args:
        max_names: distinct values of each label; combinations in one family are bounded by `MAX_SERIES`.
    """

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        if isinstance(max_names, bool) or not isinstance(max_names, int) or max_names < 1:
            raise ConfigurationError(f"max_names must be a whole number above 0, not {max_names!r}", path="max_names")
        self.max_names = max_names
        self._names: dict[str, set[str]] = {}
        self._sets: dict[str, set[tuple[str, ...]]] = {}

    def bounded(self, family: Family, *values: object) -> tuple[str, ...]:
        """`values`, in the order of the family's labels, with "other" for those that are one too many."""
        found = tuple(self._name(label, value) for label, value in zip(family.labels, values, strict=True))
        known = self._sets.setdefault(family.name, set())
        if found not in known:
            if len(known) >= MAX_SERIES:
                return (OTHER,) * len(found)
            known.add(found)
        return found

    def _name(self, label: str, value: object) -> str:
        known = self._names.setdefault(label, set())
        if value in known:
            return str(value)  # only strings are known
        if value is None:
            return ""  # an empty label and none are the same to Prometheus
        if not isinstance(value, str) or len(known) >= self.max_names or len(value) > MAX_LENGTH:
            return OTHER
        try:
            value.encode()
        except UnicodeEncodeError:  # half a surrogate pair would break the whole scrape
            return OTHER
        known.add(value)
        return value

    def __repr__(self) -> str:
        names = ", ".join(f"{len(known)} {label}" for label, known in self._names.items())
        return f"<Labels {names or 'empty'} of {self.max_names} each>"
