"""Policies by name: the built-in ones, and functions of one's own; what is said when one is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.simulate.contenders import contender
from andante.simulate.gateways import Gateways
from andante.simulate.policies import no_control
from andante.simulate.profiles import profile
from andante.simulate.record import Fate
from andante.simulate.traces import poisson
from andante.simulate.workload import ClientClass, assign

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = (ClientClass("quick", share=1, ttft=1.0, itl=0.1), ClientClass("slow", share=1, e2e=60.0))

OWN = """
from andante import Concurrency, Controller, ServiceClass
from andante.simulate import no_control
from andante.simulate.gateways import Gateways

SHARED = Concurrency(4)
NUMBER = 7

def one(classes): return Concurrency(4)
def several(classes): return [Concurrency(4), Concurrency(5, name="other")]
def a_tuple(classes): return (Concurrency(4),)
def open_door(classes): return []
def controller(classes): return Controller(Concurrency(2), classes=[ServiceClass(c.name) for c in classes])
def gateways(classes): return Gateways(controller(classes), controller(classes))
def policy(classes): return no_control
def by_names(classes): return Concurrency(len([c.name for c in classes]))

def shared(classes): return [SHARED]
CONTROLLER = Controller()
def same_controller(classes): return CONTROLLER
def number(classes): return 7
def strings(classes): return ["a"]
def nothing(classes): return None
def a_class(classes): return Concurrency
def without_argument(): return []
def raises(classes): raise KeyError("no such thing")
def leaves(classes): raise SystemExit(3)
def late(classes):
    def policy():
        def way(request):
            raise RuntimeError("at the first call")
        return way
    return policy
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("own")
    (folder / "own_policies.py").write_text(OWN)
    (folder / "own_broken.py").write_text("x = 1\ny = 1 / 0\n")
    (folder / "own_typo.py").write_text("def f(:\n")
    (folder / "own_needs.py").write_text("import nowhere_to_be_found\n")
    (folder / "own_exits.py").write_text("raise SystemExit(2)\n")
    sys.path.insert(0, str(folder))
    yield "own_policies"
    sys.path.remove(str(folder))


def fates(name: str) -> set[Fate]:
    requests = assign(poisson(5.0, 5.0, prompt=(100, 0.5), output=(20, 0.5), seed=1), CLIENTS)
    return {record.fate for record in contender(name).serve(requests, profile("a100-8b"), CLIENTS)}


@pytest.mark.parametrize("name", ["none", "semaphore:4", "static:4", "codel-lifo:4", "aiolimiter:20", "aiolimiter:0.5"])
def test_built_in_ones_serve(name: str) -> None:
    """Each lets calls through to the engine."""
    if name.startswith("aiolimiter"):
        pytest.importorskip("aiolimiter")
    policy = contender(name)
    policy.check(CLIENTS)
    assert policy.source is None
    assert Fate.DONE in fates(name)


@pytest.mark.parametrize("name", ["natural-pace", "aimd", "vegas", "gradient2"])
def test_those_that_learn_serve(name: str) -> None:
    """Each starts from nothing and lets calls through, in the order of the classes."""
    if name != "natural-pace":
        pytest.importorskip("andante.limits")
    made = contender(name).made(CLIENTS)
    assert isinstance(made, Controller)
    assert made.plan.by_name["quick"].service == CLIENTS[0].service()
    contender(name).check(CLIENTS)
    assert Fate.DONE in fates(name)


def test_class_order_is_what_static_adds() -> None:
    """`static:N` knows the classes and their objectives, `none` and `semaphore:N` do not."""
    made = contender("static:4").made(CLIENTS)
    assert isinstance(made, Controller)
    assert made.plan.by_name["quick"].service == CLIENTS[0].service()
    assert contender("none").made(CLIENTS) is no_control


@pytest.mark.parametrize(
    "function", ["one", "several", "a_tuple", "open_door", "controller", "gateways", "policy", "by_names"]
)
def test_own_ones_serve(own: str, function: str) -> None:
    """A gate, some, none, a controller, gateways, a policy: all of them, found as module:function, are put to work."""
    policy = contender(f"{own}:{function}")
    policy.check(CLIENTS)
    assert policy.source is not None
    assert policy.source.endswith("own_policies.py")
    assert fates(f"{own}:{function}") <= {Fate.DONE, Fate.REFUSED}
    assert Fate.DONE in fates(f"{own}:{function}")


def test_gateways_and_controllers_stay_what_they_are(own: str) -> None:
    """Only gates are put into a controller with the classes' objectives."""
    assert isinstance(contender(f"{own}:gateways").made(CLIENTS), Gateways)
    made = contender(f"{own}:controller").made(CLIENTS)
    assert isinstance(made, Controller)
    assert made.plan.by_name["quick"].service.ttft is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope", "no policy 'nope'; there are none, semaphore:N"),
        ("", "no policy ''"),
        (":", "no policy ':'"),
        ("own_policies:", "no policy 'own_policies:'"),
        (":one", "no policy ':one'"),
        ("none:3", "takes no parameter"),
        ("natural-pace:1", "takes no parameter"),
        ("static", "whole number of calls at once above 0, as in static:64"),
        ("static:0", "whole number"),
        ("static:-3", "whole number"),
        ("static:1.5", "whole number"),
        ("semaphore:many", "as in semaphore:64"),
        ("codel-lifo:", "as in codel-lifo:64"),
        ("aiolimiter:0", "rate in calls a second above 0"),
        ("aiolimiter:nan", "rate in calls a second"),
        ("aiolimiter:inf", "rate in calls a second"),
        ("aiolimiter", "rate in calls a second"),
        ("nowhere_at_all:f", "no module 'nowhere_at_all', neither installed nor in the current directory"),
        ("andante.nowhere:f", "no module 'andante.nowhere'"),
        ("own_policies:absent", "own_policies has no function 'absent'"),
        ("own_policies:NUMBER", "has a int, not a function, called 'NUMBER'"),
        ("own_broken:f", "importing own_broken: ZeroDivisionError: division by zero (own_broken.py, line 2)"),
        ("own_typo:f", "importing own_typo: SyntaxError"),
        ("own_needs:f", "importing own_needs: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("own_exits:f", "importing own_exits: SystemExit: 2"),
    ],
)
def test_bad_names(own: str, name: str, said: str) -> None:
    """One line that says what is wrong, and what there is."""
    with pytest.raises(ConfigurationError) as caught:
        contender(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("raises", "KeyError: 'no such thing' (own_policies.py, line"),
        ("leaves", "SystemExit: 3"),
        ("without_argument", "TypeError: without_argument() takes 0 positional arguments but 1 was given"),
        ("number", "must return a gate, a list of gates, a Controller, Gateways or a Policy, not 7"),
        ("strings", "not ['a']"),
        ("nothing", "not None"),
        ("a_class", "must return a gate"),
        ("shared", "twice; make a new one each time"),
        ("same_controller", "twice; make a new one each time"),
    ],
)
def test_bad_factories(own: str, function: str, said: str) -> None:
    """A factory that raises, returns nonsense, or returns what has learned already, is named before anything runs."""
    with pytest.raises(ConfigurationError, match=f"policy own_policies:{function}") as caught:
        contender(f"{own}:{function}").check(CLIENTS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_that_fails_on_the_way(own: str) -> None:
    """It is named, with the line."""
    contender(f"{own}:late").check(CLIENTS)
    with pytest.raises(
        ConfigurationError, match=r"policy own_policies:late: RuntimeError: at the first call \(own_pol"
    ):
        fates(f"{own}:late")


def test_without_aiolimiter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything runs."""
    monkeypatch.setitem(sys.modules, "aiolimiter", None)
    with pytest.raises(ConfigurationError, match="aiolimiter is not installed"):
        contender("aiolimiter:5")
