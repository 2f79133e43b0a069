"""What all tests share: the two event loops, and how hard hypothesis looks."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

# "ci" is the same every time, so that a red build is about the change; "campaign" is for a long look by hand:
# HYPOTHESIS_PROFILE=campaign make test PYTEST_ARGS="-k stateful"
settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "campaign", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

# tests/real imports the packages of the group `real`; make test-real brings them, make test does without.
collect_ignore = [] if find_spec("openai") and find_spec("xllamacpp") else ["real"]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """A test marked `anyio` runs once on each event loop."""
    backend: str = request.param
    return backend
