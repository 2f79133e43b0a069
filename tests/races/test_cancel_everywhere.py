"""Law 2: whoever is cancelled, at whatever step, nothing leaks, and nobody else is forgotten."""

from __future__ import annotations

import pytest

from tests.races.scenes import SCENES, Changes, Drain, Places, Rate, Scene, Shared, Streams
from tests.races.stepping import Strike, play

# In each scene somebody who holds a place, somebody who waits, and whoever does something special.
VICTIMS: dict[type[Scene], tuple[str, ...]] = {
    Places: ("a", "b", "impatient"),
    Rate: ("b", "e"),
    Shared: ("a", "c"),
    Streams: ("a", "b"),
    Changes: ("B", "c"),
    Drain: ("a", "c", "drain"),
}


def perform(kind: type[Scene], backend: str, victim: str | None, strike: Strike, *, bare: bool = False) -> Scene:
    scene = kind()
    if victim is not None:
        strike.blow = lambda: scene.cancel(victim, bare=bare)

    async def main() -> None:
        await scene.run(victim)

    play(backend, main, strike)
    return scene


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", SCENES, ids=lambda kind: kind.__name__.lower())
def test_undisturbed(kind: type[Scene], backend: str) -> None:
    """Without a victim the scene ends as it should, or the tests below would show nothing."""
    scene = perform(kind, backend, None, Strike())
    assert all(scene.fair(name, ending) for name, ending in scene.ended.items())


@pytest.mark.parametrize(
    ("kind", "victim"),
    [pytest.param(kind, victim, id=f"{kind.__name__.lower()}-{victim}") for kind in SCENES for victim in VICTIMS[kind]],
)
@pytest.mark.parametrize("how", ["asyncio-scope", "asyncio-bare", "trio-scope"])
def test_cancel_at_every_step(kind: type[Scene], victim: str, how: str) -> None:
    """FC-12, FC-15: one caller is cancelled at step k, for every k until the scene ends without having noticed."""
    backend, manner = how.split("-")
    at = 1
    endings = set()
    while True:
        strike = Strike(at)
        try:
            scene = perform(kind, backend, victim, strike, bare=manner == "bare")
        except BaseException as error:
            error.add_note(f"{kind.__name__}: {victim} was cancelled at step {at} on {how}")
            raise
        endings.add(scene.ended.get(victim, "cancelled"))
        if strike.steps < at:
            break
        at += 1
    assert "cancelled" in endings
    assert endings - {"cancelled"}, "the last run was not disturbed"
