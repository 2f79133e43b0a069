"""What an engine can serve of a mix, and at which concurrency."""

from __future__ import annotations

from math import inf

import pytest

from andante.errors import ConfigurationError
from andante.simulate.capacity import capacity, main, saturated, serve
from andante.simulate.engine import Engine
from andante.simulate.job import Job
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.traces import Arrival, Trace, azure_conversation

FLAT = EngineProfile(
    a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64
)  # a step takes 0.1 s, whatever is in it
SHORT = Trace([Arrival(0.0, 4, 5)] * 40)


def test_by_hand() -> None:
    """A step takes 0.1 s and a call five of them: n at once are n / 0.5 calls a second, up to the engine's four."""
    result = capacity(FLAT, SHORT, concurrencies=[1, 2, 4, 8])
    assert [point.rate for point in result.sweep] == pytest.approx([2.0, 4.0, 8.0, 8.0])
    assert (result.rate, result.concurrency) == (pytest.approx(8.0), 4)
    assert [point.itl for point in result.sweep] == pytest.approx([0.1] * 4)
    assert result.within_itl(0.1001) == 8
    assert result.within_itl(0.05) == 1
    assert result.within_itl(inf) == 8


def test_arrivals_and_concurrency() -> None:
    """`serve` waits for arrivals, keeps their order and lets no more than `concurrency` in."""
    engine = Engine(FLAT)
    jobs = [(0.0, Job(4, 5)), (0.0, Job(4, 5)), (10.0, Job(4, 1))]
    assert serve(engine, jobs, concurrency=1) == pytest.approx(10.1)
    assert [job.first for _, job in jobs] == pytest.approx([0.1, 0.6, 10.1])
    assert serve(Engine(FLAT), []) == 0.0


def test_the_published_figure() -> None:
    """The excerpt on `a100-8b`: about 8 calls a second at 256 at once; gaps within 60 ms for nine in ten at 96."""
    result = capacity(PROFILES["a100-8b"], azure_conversation(), concurrencies=[64, 96, 112, 256])
    assert result.concurrency == 256
    assert result.rate == pytest.approx(7.97, rel=0.01)
    assert result.within_itl(0.06) == 96


def test_too_little_kv_falls_when_overfilled() -> None:
    """With little KV, more at once serve less: preemption recomputes what was computed before."""
    trace = azure_conversation().first(120)
    few, many = (saturated(PROFILES["rtx4090-8b"], trace, n) for n in (32, 256))
    assert few.rate > many.rate
    assert few.preemptions < many.preemptions


def test_bad_input() -> None:
    """Nothing that fits, no concurrency, no calls: named."""
    with pytest.raises(ConfigurationError, match="fits into 1000"):
        capacity(FLAT, Trace([Arrival(0.0, 1000, 1)]))
    with pytest.raises(ConfigurationError, match="concurrencies"):
        capacity(FLAT, SHORT, concurrencies=[])
    with pytest.raises(ConfigurationError, match="concurrencies"):
        capacity(FLAT, SHORT, concurrencies=[0, 4])
    with pytest.raises(ConfigurationError, match="calls"):
        capacity(FLAT, SHORT, calls=0)


def test_draw_and_progress() -> None:
    """So many calls are drawn, the same ones for the same seed; the caller hears after each concurrency."""
    heard: list[tuple[int, int]] = []
    trace = azure_conversation()
    first = capacity(
        FLAT, trace.within(300), calls=20, seed=1, concurrencies=[2, 4], progress=lambda *at: heard.append(at)
    )
    assert heard == [(1, 2), (2, 2)]
    assert first == capacity(FLAT, trace.within(300), calls=20, seed=1, concurrencies=[4, 2])
    assert first != capacity(FLAT, trace.within(300), calls=20, seed=2, concurrencies=[2, 4])


def test_a_short_trace_is_repeated() -> None:
    """Ten calls are served again and again, so that filling and emptying the engine do not hide its rate."""
    ten = Trace([Arrival(0.0, 4, 5 + n) for n in range(10)])
    result = capacity(FLAT, ten, concurrencies=[4])
    assert result.rate == pytest.approx(4 / 0.95, rel=0.02)
    assert capacity(FLAT, ten, calls=10, concurrencies=[4]).rate < 0.95 * result.rate


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the sweep and marks the choice; an unknown profile is one line and 2."""
    assert main(["--caps", "32", "64"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a100-8b, Azure LLM inference trace 2023 (conversation): 6.")
    assert out.count("<-") == 1
    assert main(["--profile", "b200"]) == 2
    assert "no engine profile 'b200'" in capsys.readouterr().err
