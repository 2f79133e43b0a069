"""Workload traces: when calls arrive and how long they are. Read from CSV, packaged, or drawn."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import exp, inf, isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, overload

from andante.errors import ConfigurationError
from andante.values import is_number

if TYPE_CHECKING:
    from os import PathLike

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
"""The columns a trace must have; others are ignored."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One call of a trace.

    Attributes:
        at: seconds since the trace began.
        prompt_tokens: at least 1.
        output_tokens: at least 1.
    """

    at: float
    prompt_tokens: int
    output_tokens: int


class Trace(Sequence[Arrival]):
    """Arrivals in order of time. Immutable; every method that changes something returns a new trace.

    Args:
        arrivals: ascending in time.
        name: what reports call it.
        seconds: how long the trace lasts, for its rate; default: up to its last arrival.

    Raises ConfigurationError when the arrivals do not ascend or last longer than `seconds`.
    """

    __slots__ = ("_arrivals", "name", "seconds")

    def __init__(self, arrivals: Iterable[Arrival], *, name: str = "trace", seconds: float | None = None) -> None:
        self._arrivals = tuple(arrivals)
        self.name = name
        before = 0.0
        for arrival in self._arrivals:
            if not before <= arrival.at < inf:
                raise ConfigurationError(
                    f"arrivals must ascend from 0, but {before:g} s is followed by {arrival.at:g} s"
                )
            before = arrival.at
        if seconds is not None and not before <= seconds < inf:
            raise ConfigurationError(
                f"seconds must be at least the last arrival ({before:g}), not {seconds!r}", path="seconds"
            )
        self.seconds = before if seconds is None else float(seconds)

    @property
    def rate(self) -> float:
        """Calls per second on average; 0 for a trace without any length."""
        return len(self._arrivals) / self.seconds if self.seconds > 0 else 0.0

    def first(self, seconds: float) -> Trace:
        """The arrivals before `seconds`."""
        _positive(seconds, "seconds")
        kept = [arrival for arrival in self._arrivals if arrival.at < seconds]
        return Trace(kept, name=self.name, seconds=max(kept[-1].at if kept else 0.0, min(seconds, self.seconds)))

    def faster(self, factor: float) -> Trace:
        """The same calls, `factor` times as fast (2.0: in half the time)."""
        _positive(factor, "factor")
        return Trace(
            [Arrival(a.at / factor, a.prompt_tokens, a.output_tokens) for a in self._arrivals],
            name=self.name,
            seconds=max(self.seconds / factor, self._arrivals[-1].at / factor if self._arrivals else 0.0),
        )

    def within(self, tokens: int) -> Trace:
        """Without the calls whose prompt and output together exceed `tokens` (what an engine can hold at all)."""
        return Trace(
            [a for a in self._arrivals if a.prompt_tokens + a.output_tokens <= tokens],
            name=self.name,
            seconds=self.seconds,
        )

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self._arrivals)

    @overload
    def __getitem__(self, index: int) -> Arrival: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Arrival]: ...
    def __getitem__(self, index: int | slice) -> Arrival | Sequence[Arrival]:
        return self._arrivals[index]

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}: {len(self)} calls in {self.seconds:g} s, {self.rate:.2f}/s>"


def read_trace(path: str | PathLike[str]) -> Trace:
    """Reads a CSV file, gzipped where its name ends in `.gz`, with the columns `arrival_s` (seconds since the first
    request, ascending), `prompt_tokens` and `output_tokens`; further columns are ignored.

    Raises ConfigurationError, naming the file and the line, for a file that cannot be read, a missing column, a value
    that is no number, negative or NaN, a token count below 1, an arrival earlier than the one before, or no rows.
    """
    source = Path(path)
    try:
        raw = source.read_bytes()
        text = (gzip.decompress(raw) if source.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:  # gzip.BadGzipFile is an OSError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigurationError(f"cannot read the trace {source}: {reason}", path="trace") from error
    except Exception as error:  # zlib.error of a damaged stream
        raise ConfigurationError(f"cannot read the trace {source}: {error}", path="trace") from error
    return parse_trace(text, source=str(source))


def parse_trace(text: str, *, source: str = "trace") -> Trace:
    """The trace in `text` (see `read_trace`); `source` is what errors call it."""
    rows = csv.reader(io.StringIO(text))
    try:
        header = [column.strip() for column in next(rows, [])]
        missing = [column for column in COLUMNS if column not in header]
        if missing:
            raise ConfigurationError(
                f"{source}, line 1: no column {', '.join(missing)}; a trace needs {','.join(COLUMNS)}", path="trace"
            )
        places = [header.index(column) for column in COLUMNS]
        arrivals: list[Arrival] = []
        before = 0.0
        for row in rows:
            if not row:
                continue
            arrival = _row(row, places, f"{source}, line {rows.line_num}")
            if arrival.at < before:
                raise ConfigurationError(
                    f"{source}, line {rows.line_num}: arrival_s {arrival.at:g} is before {before:g} of the line above; "
                    "sort the trace by arrival",
                    path="trace",
                )
            before = arrival.at
            arrivals.append(arrival)
    except csv.Error as error:
        raise ConfigurationError(f"{source}, line {rows.line_num}: {error}", path="trace") from error
    if not arrivals:
        raise ConfigurationError(f"{source}: no rows below the header", path="trace")
    return Trace(arrivals, name=Path(source).name)


def _row(row: Sequence[str], places: Sequence[int], where: str) -> Arrival:
    if len(row) <= max(places):
        raise ConfigurationError(f"{where}: {len(row)} columns, too few", path="trace")
    at = _number(row[places[0]], "arrival_s", where)
    if at < 0:
        raise ConfigurationError(f"{where}: arrival_s must be 0 or more, not {row[places[0]]!r}", path="trace")
    counts = []
    for name, place in zip(COLUMNS[1:], places[1:], strict=True):
        value = _number(row[place], name, where)
        if value < 1 or value != int(value):
            raise ConfigurationError(
                f"{where}: {name} must be a whole number above 0, not {row[place]!r}", path="trace"
            )
        counts.append(int(value))
    return Arrival(at, counts[0], counts[1])


def _number(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigurationError(f"{where}: {name} must be a number, not {text!r}", path="trace") from None
    if not isfinite(value):
        raise ConfigurationError(f"{where}: {name} must be finite, not {text!r}", path="trace")
    return value


def azure_conversation() -> Trace:
    """The packaged excerpt: the first 600 s of arrivals of the Azure LLM inference trace 2023, conversation.

    Microsoft, CC-BY-4.0; Patel et al., Splitwise, ISCA 2024. See `simulate/data/ATTRIBUTION.md`.
    """
    data = files("andante.simulate") / "data" / "azure_conv_600s.csv.gz"
    trace = parse_trace(gzip.decompress(data.read_bytes()).decode(), source="azure_conv_600s.csv.gz")
    return Trace(trace, name="Azure LLM inference trace 2023 (conversation)", seconds=600.0)


def poisson(
    rate: float,
    seconds: float,
    *,
    prompt: tuple[float, float] = (1020.0, 0.9),
    output: tuple[float, float] = (129.0, 1.0),
    longest: int = 8192,
    seed: int = 0,
) -> Trace:
    """A drawn trace: Poisson arrivals, lognormal lengths. The same arguments give the same trace.

    Args:
        rate: calls per second.
        seconds: how long.
        prompt: median and sigma of the prompt's tokens (the medians default to those of the Azure conversation trace).
        output: the same for the output's tokens.
        longest: every length is cut to 1 .. longest.
        seed: of the generator.
    """
    _positive(rate, "rate")
    _positive(seconds, "seconds")
    for name, (median, sigma) in (("prompt", prompt), ("output", output)):
        _positive(median, f"{name} median")
        if not (isfinite(sigma) and sigma >= 0):
            raise ConfigurationError(f"{name} sigma must be finite and >= 0, not {sigma!r}", path=name)
    if isinstance(longest, bool) or not isinstance(longest, int) or longest < 1:
        raise ConfigurationError(f"longest must be a whole number of tokens above 0, not {longest!r}", path="longest")
    draw = random.Random(seed)

    def length(median: float, sigma: float) -> int:
        exponent = log(median) + draw.gauss(0.0, sigma)
        return longest if exponent > log(longest) else max(1, round(exp(exponent)))

    arrivals: list[Arrival] = []
    at = draw.expovariate(rate)
    while at < seconds:
        arrivals.append(Arrival(at, length(*prompt), length(*output)))
        at += draw.expovariate(rate)
    return Trace(arrivals, name="poisson", seconds=seconds)


def _positive(value: float, name: str) -> None:
    if not is_number(value) or not 0 < value < inf:
        raise ConfigurationError(f"{name} must be a finite number above 0, not {value!r}", path=name)
