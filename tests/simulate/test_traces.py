"""Traces: read, packaged, drawn, sped up; bad files are named by file and line."""

from __future__ import annotations

import gzip
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from andante.errors import ConfigurationError
from andante.simulate.traces import Arrival, Trace, azure_conversation, parse_trace, poisson, read_trace

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "arrival_s,prompt_tokens,output_tokens\n"


def test_reads_csv_and_gzip(tmp_path: Path) -> None:
    """Columns may stand in any order among others; blank lines and a byte order mark are no trouble."""
    text = "who,output_tokens,arrival_s,prompt_tokens\nme,5,0.0,100\n\nyou,7,1.5,2e2\n"
    plain, zipped = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    plain.write_text("\ufeff" + text, encoding="utf-8")
    zipped.write_bytes(gzip.compress(text.encode()))
    for file in (plain, zipped):
        trace = read_trace(file)
        assert list(trace) == [Arrival(0.0, 100, 5), Arrival(1.5, 200, 7)]
        assert trace.name == file.name
    assert read_trace(str(plain)).rate == pytest.approx(2 / 1.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column arrival_s"),
        ("arrival_s,prompt_tokens\n0,1\n", "line 1: no column output_tokens"),
        (HEAD, "no rows"),
        (HEAD + "0,1,1\n0,x,1\n", "line 3: prompt_tokens must be a number, not 'x'"),
        (HEAD + "0,1,\n", "line 2: output_tokens must be a number"),
        (HEAD + "0,1\n", "line 2: 2 columns"),
        (HEAD + "-1,1,1\n", "line 2: arrival_s must be 0 or more"),
        (HEAD + "nan,1,1\n", "line 2: arrival_s must be finite"),
        (HEAD + "inf,1,1\n", "line 2: arrival_s must be finite"),
        (HEAD + "0,nan,1\n", "line 2: prompt_tokens must be finite"),
        (HEAD + "0,0,1\n", "line 2: prompt_tokens must be a whole number above 0"),
        (HEAD + "0,1,-3\n", "line 2: output_tokens must be a whole number above 0"),
        (HEAD + "0,1.5,1\n", "line 2: prompt_tokens must be a whole number above 0"),
        (HEAD + "5,1,1\n\n4,1,1\n", "line 4: arrival_s 4 is before 5"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file, the line and what is wrong there."""
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_trace(file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    """No file, a folder, no gzip, a damaged gzip, no text: one kind of error, which names the file."""
    good = gzip.compress(b"arrival_s,prompt_tokens,output_tokens\n" + b"0,1,1\n" * 500)
    files: dict[str, bytes] = {
        "plain.csv.gz": b"0,1,1\n",
        "cut.csv.gz": good[:30],
        "damaged.csv.gz": good[:20] + b"\xff\x00\xff" + good[23:],
        "binary.csv": b"\xff\xfe\x00",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in [*files, "missing.csv", ""]:
        with pytest.raises(ConfigurationError, match="cannot read the trace"):
            read_trace(tmp_path / name)
    (tmp_path / "zeros.csv").write_bytes(b"\0\0\0")
    with pytest.raises(ConfigurationError, match=r"zeros\.csv"):
        read_trace(tmp_path / "zeros.csv")


def test_the_packaged_excerpt() -> None:
    """2,867 calls in the first 600 s of the Azure conversation trace, whose attribution is in the package."""
    trace = azure_conversation()
    assert len(trace) == 2867
    assert trace[0] == Arrival(0.0, 374, 44)
    assert trace[1] == Arrival(4.3146, 396, 109)
    assert trace[-1].at < 600.0 == trace.seconds
    assert trace.rate == pytest.approx(4.778, abs=0.001)
    assert sum(arrival.prompt_tokens for arrival in trace) == 3_287_402
    assert sum(arrival.output_tokens for arrival in trace) == 746_194


def test_changing_a_trace() -> None:
    """`faster`, `first` and `within` give new traces and leave the old one alone."""
    trace = Trace([Arrival(0.0, 10, 1), Arrival(4.0, 1000, 1), Arrival(8.0, 10, 1)], name="t", seconds=10.0)
    fast = trace.faster(2)
    assert [arrival.at for arrival in fast] == [0.0, 2.0, 4.0]
    assert (fast.seconds, fast.rate, fast.name) == (5.0, 0.6, "t")
    assert [arrival.at for arrival in trace.first(8)] == [0.0, 4.0]
    assert trace.first(8).seconds == 8.0
    assert trace.first(100).seconds == 10.0
    assert len(trace.within(11)) == 2
    assert trace.within(11).seconds == 10.0
    assert len(trace) == 3
    assert list(trace[1:]) == list(trace)[1:]
    assert repr(trace) == "<Trace 't': 3 calls in 10 s, 0.30/s>"
    assert Trace([]).rate == 0.0
    assert len(Trace([]).faster(3)) == len(Trace([]).first(3)) == 0
    for bad in (0, -1, float("nan"), float("inf"), True, "2"):
        with pytest.raises(ConfigurationError, match="factor"):
            trace.faster(bad)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="seconds"):
            trace.first(bad)  # type: ignore[arg-type]


def test_order_is_checked() -> None:
    """Arrivals ascend from 0 and end within the trace."""
    for times in ([1.0, 0.5], [-1.0], [float("nan")], [float("inf")]):
        with pytest.raises(ConfigurationError, match="ascend"):
            Trace([Arrival(at, 1, 1) for at in times])
    for seconds in (1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="seconds"):
            Trace([Arrival(2.0, 1, 1)], seconds=seconds)


def test_poisson() -> None:
    """The same seed gives the same trace; rate and medians are what was asked for."""
    trace = poisson(20.0, 200.0, prompt=(400.0, 1.0), output=(100.0, 0.5), seed=3)
    assert list(trace) == list(poisson(20.0, 200.0, prompt=(400.0, 1.0), output=(100.0, 0.5), seed=3))
    assert list(trace) != list(poisson(20.0, 200.0, prompt=(400.0, 1.0), output=(100.0, 0.5), seed=4))
    assert trace.rate == pytest.approx(20.0, rel=0.06)
    assert median(arrival.prompt_tokens for arrival in trace) == pytest.approx(400, rel=0.08)
    assert median(arrival.output_tokens for arrival in trace) == pytest.approx(100, rel=0.08)
    gaps = [b.at - a.at for a, b in pairwise(trace)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / mean == pytest.approx(1.0, abs=0.08)
    wild = poisson(5.0, 50.0, prompt=(1.0, 900.0), output=(1e9, 0.0), longest=77)
    assert {arrival.output_tokens for arrival in wild} == {77}
    assert {arrival.prompt_tokens for arrival in wild} <= set(range(1, 78))


@pytest.mark.parametrize(
    "bad",
    [
        {"rate": 0.0},
        {"rate": float("nan")},
        {"seconds": float("inf")},
        {"prompt": (0.0, 1.0)},
        {"output": (10.0, -1.0)},
        {"output": (10.0, float("nan"))},
        {"longest": 0},
        {"longest": True},
    ],
)
def test_bad_poisson(bad: dict[str, Any]) -> None:
    """Rates, lengths and bounds that make no sense are named."""
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        poisson(**({"rate": 1.0, "seconds": 10.0} | bad))


def test_parse_names_its_source() -> None:
    """A text from anywhere is called what the caller calls it."""
    with pytest.raises(ConfigurationError, match="from the wire, line 2"):
        parse_trace(HEAD + "x,1,1\n", source="from the wire")
