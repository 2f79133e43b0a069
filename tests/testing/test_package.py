"""What `import andante.testing` brings, and what it leaves out."""

from __future__ import annotations

import subprocess
import sys

import pytest

import andante.testing
from andante.errors import ConfigurationError
from andante.testing import virtual_backend


def test_every_public_name_is_there() -> None:
    """`__all__` is complete, sorted and true."""
    names = andante.testing.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(andante.testing, name).__doc__
    with pytest.raises(AttributeError, match="nonsense"):
        _ = andante.testing.nonsense


def test_it_needs_no_test_library() -> None:
    """Virtual time, backend and recorder are of use outside of tests: no pytest, no hypothesis, no trio is loaded."""
    code = "import sys, andante.testing; print(*(n for n in ('pytest', 'hypothesis', 'trio') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_without_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where trio is not installed, asyncio works, and asking for trio says what to install."""
    monkeypatch.setitem(sys.modules, "trio.testing", None)
    assert virtual_backend("asyncio")[0] == "asyncio"
    with pytest.raises(ConfigurationError, match=r"andante\[trio\]"):
        virtual_backend("trio")
