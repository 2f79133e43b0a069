"""The example with the OpenAI client does against a real engine what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.real.engine import Engine

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).parents[2] / "examples" / "openai_stream.py"


def run_example(engine: Engine, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), "--base-url", engine.url, "--model", "random-llama", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_streams_come_one_after_another(engine: Engine) -> None:
    printed = run_example(engine, "Who are you?", "What is a pace?", "And who waits?")
    waits = [float(seconds) for seconds in re.findall(r"\[waited (\d+\.\d+) s", printed)]
    firsts = [float(seconds) for seconds in re.findall(r"first token after (\d+\.\d+) s", printed)]
    assert len(waits) == 3
    assert waits == sorted(waits)
    assert waits[0] == 0.0 < waits[1] < waits[2]
    assert min(firsts) > 0
    assert printed.endswith("3 asked, 3 answered, 0 refused\n")
    # Each answer is printed whole before the next question's turn comes.
    order = re.findall(r"Who are you\?|What is a pace\?|And who waits\?|\[waited", printed)
    assert order == ["Who are you?", "[waited", "What is a pace?", "[waited", "And who waits?", "[waited"]


def test_what_would_come_too_late_is_refused(engine: Engine) -> None:
    printed = run_example(engine, "--within", "0", "Who are you?")
    assert "[refused: deadline_" in printed
    assert printed.endswith("1 asked, 0 answered, 1 refused\n")
