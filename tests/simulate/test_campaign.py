"""A campaign: every policy at every load with every seed, in one process or several, with the same figures."""

from __future__ import annotations

import multiprocessing
import sys
from typing import TYPE_CHECKING, Any

import pytest

from andante.errors import AndanteError, ConfigurationError
from andante.simulate import campaign
from andante.simulate.arrivals import Drawn, OfTrace
from andante.simulate.campaign import Campaign, Cell, run
from andante.simulate.mixes import mix
from andante.simulate.traces import poisson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHAT = mix("chat")
ENGINE = "rtx4090-8b"  # serves fewer calls, which takes less time
SMALL = Campaign(("static:16", "none"), Drawn(CHAT, 20.0), loads=(0.5, 2.0), seeds=(1, 2), profile=ENGINE)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CONCURRENCIES", (16, 128))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder: Path = tmp_path_factory.mktemp("own")
    (folder / "own_in_processes.py").write_text(
        "import os, time\n"
        "from andante import Concurrency, Gate\n"
        "def eight(classes): return Concurrency(8)\n"
        "def counts(classes):\n"
        "    class Heard(Gate):\n"
        "        tokens, inside = 0, 0\n"
        "        def delay(self, entry, now): return 0.0 if self.tokens or not self.inside else float('inf')\n"
        "        def enter(self, entry, now): self.inside += 1\n"
        "        def progress(self, entry, items, now):\n"
        "            self.tokens += items\n"
        "            self.changed()\n"
        "    return Heard()\n"
        "def fails(classes):\n"
        "    class Bad(Gate):\n"
        "        def leave(self, entry, outcome, now): raise ValueError('full moon')\n"
        "    return Bad()\n"
        "def dies(classes):\n"
        "    class Deadly(Gate):\n"
        "        def leave(self, entry, outcome, now): os._exit(9)\n"
        "    return Deadly()\n"
    )
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def test_every_cell_once_in_order() -> None:
    """Loads, then policies, then seeds; what is offered does not depend on the policy; overload is seen as such."""
    heard: list[str] = []
    found = run(SMALL, watch=lambda what, share: heard.append(what))
    assert [each.cell for each in found.results] == [
        Cell(policy, load, seed) for load in (0.5, 2.0) for policy in ("static:16", "none") for seed in (1, 2)
    ]
    for load in SMALL.loads:
        mine, others = (found.of(policy, load) for policy in SMALL.policies)
        assert [each.score.total.offered for each in mine] == [each.score.total.offered for each in others]
        assert [each.picture.timeline.arrived for each in mine] == [each.picture.timeline.arrived for each in others]
    light, heavy = (sum(each.score.value for each in found.of("none", load)) for load in SMALL.loads)
    assert light > heavy
    offered = sum(each.score.total.offered for each in found.of("none", 2.0)) / 2
    assert offered == pytest.approx(2.0 * found.capacity.rate * 20.0, rel=0.2)
    assert list(dict.fromkeys(heard)) == ["measuring the engine", *(str(cell) for cell in SMALL.cells)]


def test_processes_change_nothing(own: Path) -> None:
    """Two processes find what one does, and leave none behind."""
    asked = Campaign(("own_in_processes:eight", "none"), Drawn(CHAT, 10.0), loads=(1.5,), seeds=(3,), profile=ENGINE)
    shares: list[float] = []
    together = run(asked, jobs=2, watch=lambda what, share: shares.append(share))
    assert not multiprocessing.active_children()
    assert together == run(asked)
    assert len(shares) >= 4
    assert together.results[0].score != together.results[1].score


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_policy_that_fails_is_named(own: Path, jobs: int) -> None:
    """With load and seed, from whichever process."""
    asked = Campaign(("none", "own_in_processes:fails"), Drawn(CHAT, 5.0), loads=(1.0,), seeds=(1,), profile=ENGINE)
    with pytest.raises(ConfigurationError, match=r"own_in_processes:fails: .*full moon.*\[load 1, seed 1\]"):
        run(asked, jobs=jobs)


def test_a_process_that_dies(own: Path) -> None:
    """No hang and no stack of futures: one error that says what happened."""
    asked = Campaign(("none", "own_in_processes:dies"), Drawn(CHAT, 5.0), loads=(1.0,), seeds=(1,), profile=ENGINE)
    with pytest.raises(AndanteError, match="a process that ran replays ended by itself"):
        run(asked, jobs=2)


def test_interrupted_leaves_no_process() -> None:
    """Ctrl-C while others work ends them."""

    def interrupt(what: str, share: float) -> None:
        if multiprocessing.active_children():
            raise KeyboardInterrupt

    asked = Campaign(("none", "static:4"), Drawn(CHAT, 600.0), loads=(3.0,))
    with pytest.raises(KeyboardInterrupt):
        run(asked, jobs=2, watch=interrupt)
    assert not multiprocessing.active_children()


def test_a_trace_at_its_own_speed() -> None:
    """Without a load a trace runs as it is, and the load it amounts to is told."""
    trace = poisson(4.0, 20.0, seed=3)
    asked = Campaign(("none",), OfTrace(trace, tuple(client for client, _ in CHAT)))
    found = run(asked)
    (load,) = found.campaign.loads
    assert load == pytest.approx(trace.rate / found.capacity.rate)
    assert found.results[0].score.total.offered == len(trace)
    assert found.results[0].picture.timeline.width == pytest.approx(20.0 / 120)


def test_what_a_policy_hears(own: Path) -> None:
    """Each token, or the ends alone: a gate that counts tokens lets in by what it hears."""
    policies = ("own_in_processes:counts",)
    values = []
    for tells in ("streams", "ends"):
        asked = Campaign(policies, Drawn(CHAT, 10.0), loads=(1.0,), profile=ENGINE, tells=tells)
        values.append(run(asked).results[0].score.total.done)
    streams, ends = values
    assert ends == 1
    assert streams > 1


def test_settling_is_told_where_the_load_steps() -> None:
    """Two steps, two numbers; no step, none."""
    steps = run(Campaign(("none",), Drawn(CHAT, 150.0, "steps"), loads=(0.4,), profile=ENGINE))
    assert len(steps.results[0].settled) == 2
    assert all(each is not None and 0 <= each <= 50 for each in steps.results[0].settled)
    assert run(Campaign(("none",), Drawn(CHAT, 20.0), loads=(0.4,), profile=ENGINE)).results[0].settled == ()


def test_the_fingerprint(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever decides the figures changes it, the text of an own policy too; what does not, does not."""
    policies = ("own_in_processes:eight",)
    asked = Campaign(policies, Drawn(CHAT, 20.0), loads=(1.0,))
    assert asked.fingerprint == Campaign(policies, Drawn(CHAT, 20.0), loads=(1.0,)).fingerprint
    others = [
        Campaign(("none",), Drawn(CHAT, 20.0), loads=(1.0,)),
        Campaign(policies, Drawn(CHAT, 21.0), loads=(1.0,)),
        Campaign(policies, Drawn(CHAT, 20.0), loads=(1.1,)),
        Campaign(policies, Drawn(CHAT, 20.0), loads=(1.0,), seeds=(2,)),
        Campaign(policies, Drawn(CHAT, 20.0), loads=(1.0,), profile="h100-8b"),
        Campaign(policies, Drawn(CHAT, 20.0), loads=(1.0,), tells="ends"),
    ]
    assert len({asked.fingerprint, *(other.fingerprint for other in others)}) == 7
    before = asked.fingerprint
    with (own / "own_in_processes.py").open("a") as file:
        file.write("# changed\n")
    assert asked.fingerprint != before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policies": ()}, "policies: there must be at least one"),
        ({"seeds": ()}, "seeds: there must be at least one"),
        ({"loads": ()}, "loads: there must be at least one"),
        ({"policies": ("none", "none")}, "'none' is there twice"),
        ({"seeds": (1, 1)}, "1 is there twice"),
        ({"loads": (1, 1.0)}, "is there twice"),
        ({"loads": (0.0,)}, "a load must be"),
        ({"loads": (-1.0,)}, "a load must be"),
        ({"loads": (float("nan"),)}, "a load must be"),
        ({"loads": (float("inf"),)}, "a load must be"),
        ({"loads": ("1",)}, "a load must be"),
        ({"seeds": (1.5,)}, "a seed must be"),
        ({"seeds": (True,)}, "a seed must be"),
        ({"profile": "b200"}, "no engine profile 'b200'"),
    ],
)
def test_bad_campaigns(changed: dict[str, Any], said: str) -> None:
    """Said when it is made."""
    arguments: dict[str, Any] = {"policies": ("none",), "arrivals": Drawn(CHAT, 20.0), "loads": (1.0,)} | changed
    with pytest.raises(ConfigurationError) as caught:
        Campaign(**arguments)
    assert said in str(caught.value)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_bad_jobs(jobs: Any) -> None:
    """Only whole numbers above 0."""
    with pytest.raises(ConfigurationError, match="jobs must be"):
        run(SMALL, jobs=jobs)


def test_no_call_arrives() -> None:
    """Too little time for a single call is said."""
    with pytest.raises(ConfigurationError, match="no call arrives"):
        run(Campaign(("none",), Drawn(CHAT, 0.001), loads=(0.5,)))


def test_a_mistake_is_said_before_anything_runs() -> None:
    """The last policy is made before the first runs."""
    heard: list[str] = []
    asked = Campaign(("none", "static:many"), Drawn(CHAT, 20.0), loads=(1.0,))
    with pytest.raises(ConfigurationError, match="static:many"):
        run(asked, watch=lambda what, share: heard.append(what))
    assert not heard
