"""One model and one engine for all tests of this folder. Without the packages they are skipped, and say so."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.real.engine import Engine, Model, made, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    Connect = Callable[[Engine], AbstractAsyncContextManager[Any]]

PACKAGES = ("gguf", "numpy", "openai", "tokenizers", "xllamacpp")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Random weights, made once."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        reason = f"a real engine needs {', '.join(missing)}: the dependency group `real` (make test-real) has them"
        if os.environ.get("ANDANTE_REAL_REQUIRED"):
            pytest.fail(reason)
        pytest.skip(reason)
    return made("small", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def shared_engine(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with serving(model, tmp_path_factory.mktemp("engine") / "log.txt") as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    """An engine with four slots, all free."""
    assert shared_engine.busy() == 0, "the test before has left work in the engine"
    return shared_engine


@pytest.fixture
def connect() -> Connect:
    """`async with connect(engine) as client:` an openai client that never retries and is closed at the end."""

    @asynccontextmanager
    async def connection(engine: Engine) -> AsyncIterator[Any]:
        import openai

        http = openai.DefaultAsyncHttpxClient(trust_env=False)  # a thousand connections, and no proxy to loopback
        async with openai.AsyncOpenAI(
            base_url=engine.url,
            api_key="none",
            max_retries=0,
            timeout=600,
            http_client=http,
            # This server promises to keep a connection and closes it after a stream: the next call might just catch it.
            default_headers={"Connection": "close"},
        ) as client:
            yield client

    return connection
