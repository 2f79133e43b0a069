"""Virtual time under the pytest plugins that people have: anyio's and pytest-asyncio."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

import andante

if TYPE_CHECKING:
    from pathlib import Path

INI = """
[pytest]
filterwarnings = error
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
"""

WITH_ANYIO = """
import anyio
import pytest
from andante.clock import current_clock
from andante.testing import virtual_backend

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return virtual_backend(request.param)

@pytest.fixture
async def started():
    await anyio.sleep(100)
    yield current_clock()()
    await anyio.sleep(100)

@pytest.mark.anyio
async def test_time(started):
    await anyio.sleep(3600)
    assert started == 100
    assert current_clock()() == pytest.approx(3700)

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [virtual_backend("asyncio")])
async def test_deadlock():
    await anyio.Event().wait()

@pytest.mark.anyio
async def test_the_next_one_is_unharmed():
    await anyio.sleep(5)
    assert current_clock()() == pytest.approx(5)
"""

WITH_PYTEST_ASYNCIO = """
import asyncio
import pytest
from andante.clock import current_clock

@pytest.mark.asyncio
async def test_time():
    await asyncio.sleep(3600)
    assert current_clock()() == 3600

@pytest.mark.asyncio
async def test_deadlock():
    await asyncio.Event().wait()

@pytest.mark.asyncio
async def test_the_next_one_is_unharmed():
    await asyncio.sleep(5)
    assert current_clock()() == 5
"""

CONFTEST = """
from andante.testing import VirtualTimeLoop

def pytest_asyncio_loop_factories(config, item):
    return {"virtual": VirtualTimeLoop}
"""


def pytest_on(folder: Path) -> str:
    folder.joinpath("pytest.ini").write_text(INI, encoding="utf-8")
    src = str(next(iter(andante.__path__))).rpartition("andante")[0]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={src}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_anyio_plugin(tmp_path: Path) -> None:
    """Tests and fixtures of anyio's plugin run in virtual time; a deadlock fails its own test and no other."""
    tmp_path.joinpath("test_it.py").write_text(WITH_ANYIO, encoding="utf-8")
    output = pytest_on(tmp_path)
    assert "1 failed, 4 passed" in output, output
    assert "DeadlockError: virtual time stands at 0 s" in output, output


def test_pytest_asyncio(tmp_path: Path) -> None:
    """pytest-asyncio takes the loop by its hook for loop factories; every test begins at 0."""
    if find_spec("pytest_asyncio") is None:
        pytest.skip("pytest-asyncio is not installed here")
    import pytest_asyncio.plugin

    if "pytest_asyncio_loop_factories" not in inspect.getsource(pytest_asyncio.plugin):
        pytest.skip("this pytest-asyncio has no hook for loop factories")
    tmp_path.joinpath("conftest.py").write_text(CONFTEST, encoding="utf-8")
    tmp_path.joinpath("test_it.py").write_text(WITH_PYTEST_ASYNCIO, encoding="utf-8")
    output = pytest_on(tmp_path)
    assert "1 failed, 2 passed" in output, output
    assert "DeadlockError: virtual time stands at 0 s" in output, output
