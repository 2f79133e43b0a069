"""The engine model against real vLLM runs (their origin: tests/data/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from andante.simulate.validate import RUNS, Comparison, compare, main

DATA = Path(__file__).parent.parent / "data"


def run_of(name: str) -> Comparison:
    (file,) = [file for file, profile in RUNS.items() if profile == name]
    return compare(DATA / file, name)


def off(pair: tuple[float, float]) -> float:
    return abs(pair[1] / pair[0] - 1)


@pytest.mark.parametrize("name", ["h100-7b-mha", "rtx4090-8b"])
def test_mean_times_within_five_percent(name: str) -> None:
    """Nothing was tuned to these runs (the second one's coefficients were rounded): mean TTFT and e2e within 5 %."""
    run = run_of(name)
    assert off(run.ttft) < 0.05
    assert off(run.e2e) < 0.05
    assert off(run.tpot) < 0.05
    assert off(run.makespan) < 0.05


def test_the_tuned_run_is_told_apart() -> None:
    """`rtxpro6000-8b` was fitted to the run it is compared with: this guards the code, not the model."""
    run = run_of("rtxpro6000-8b")
    assert off(run.ttft) < 0.02
    assert off(run.e2e) < 0.03


def test_full_kv_preempts() -> None:
    """The run whose KV cache was full is served with preemptions, the light one without."""
    assert run_of("rtx4090-8b").preemptions > 100
    assert run_of("h100-7b-mha").preemptions == 0


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It prints one line a run; without the files it says so and exits with 2."""
    assert main([str(DATA)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["profile", *RUNS.values()]
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    assert "cannot read the trace" in capsys.readouterr().err
    name = next(iter(RUNS))
    (tmp_path / name).write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    assert main([str(tmp_path)]) == 2
    assert "ttft_s" in capsys.readouterr().err
