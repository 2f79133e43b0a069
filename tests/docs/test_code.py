"""Code in papers runs: every example, every block of the README, and docs hold no other Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_A_SERVER = {"openai_stream.py"}
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name not in NEEDS_A_SERVER)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(example: Path) -> None:
    """An example runs by itself, prints something, and warns of nothing."""
    assert run(str(example)).strip()


@pytest.mark.parametrize("number", range(len(BLOCK.findall((ROOT / "README.md").read_text()))))
def test_every_block_of_the_readme_runs(number: int, tmp_path: Path) -> None:
    """A reader may copy any block of the README into a file and run it."""
    block = BLOCK.findall((ROOT / "README.md").read_text())[number]
    path = tmp_path / "block.py"
    path.write_text(block)
    run(str(path))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: str(p.relative_to(ROOT / "docs")))
def test_docs_hold_no_python_of_their_own(page: Path) -> None:
    """Python in docs is included from examples/, which run."""
    for block in BLOCK.findall(page.read_text()):
        lines = [line for line in block.splitlines() if line.strip()]
        assert all(line.startswith('--8<-- "examples/') for line in lines), block
