"""The scenario file of the demo."""

from __future__ import annotations

from importlib.resources import files
from math import inf

import pytest

from andante.errors import ConfigurationError
from andante.simulate.scenario import demo_scenario, parse_scenario

TEXT = (files("andante.simulate") / "data" / "demo.toml").read_text("utf-8")


def test_the_packaged_one() -> None:
    """Twice the capacity, 3.16 times as fast, three classes from the most urgent to the least."""
    scenario = demo_scenario()
    assert (scenario.profile, scenario.load, scenario.seconds) == ("a100-8b", 2.0, 600.0)
    assert scenario.load * scenario.speed_up == pytest.approx(3.16, abs=0.005)
    interactive, standard, batch = scenario.clients
    assert [client.name for client in scenario.clients] == ["interactive", "standard", "batch"]
    assert [client.share for client in scenario.clients] == [50, 30, 20]
    assert [client.value for client in scenario.clients] == [3, 2, 1]
    assert (interactive.ttft, interactive.itl, interactive.leaves_without_first) == (1.0, 0.06, 10.0)
    assert (standard.e2e, standard.leaves, standard.ttft) == (30.0, 60.0, inf)
    assert (batch.e2e, batch.leaves) == (600.0, inf)
    assert scenario.itl == 0.06


def test_changed() -> None:
    """What is given replaces, what is not stays; the original is left alone."""
    scenario = demo_scenario()
    other = scenario.changed(load=3.0, seed=0)
    assert (other.load, other.seed, other.profile) == (3.0, 0, "a100-8b")
    assert (scenario.load, scenario.changed()) == (2.0, scenario)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("load = 2.0", "load = 0", "load must be"),
        ("load = 2.0", "load = nan", "load must be"),
        ("load = 2.0", "", "load must be"),
        ("seed = 1", "seed = 1.5", "seed must be of type int"),
        ("seed = 1", "seed = true", "seed must be of type int"),
        ("seed = 1", "sede = 1", "no field 'seed'"),
        ("seed = 1", "seed = 1\nsede = 2", "unknown field 'sede'"),
        ('"a100-8b"', '"a100"', "no engine profile"),
        ("rate = 5.53", "rate = -1", "rate must be"),
        ("rate = 5.53", "rate = 5.53\nrat = 1", "unknown field 'rat'"),
        ("[8,", "[0, 8,", "concurrencies must be"),
        ("[8,", "['a', 8,", "demo"),
        ("share = 50", "share = 0", "class 'interactive': share"),
        ("share = 50", "shares = 50", "unknown field 'shares'"),
        ('name = "batch"', "", "demo"),
        ("load = 2.0", "load = = 2", "demo"),
    ],
)
def test_bad_scenarios(old: str, new: str, said: str) -> None:
    """Whatever is wrong in the file is named, with the file."""
    assert old in TEXT
    with pytest.raises(ConfigurationError, match="demo") as caught:
        parse_scenario(TEXT.replace(old, new, 1), source="demo")
    assert said in str(caught.value)
