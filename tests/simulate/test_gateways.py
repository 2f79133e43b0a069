"""Several gateways before one engine: each sees its own calls, and together they lose none."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gates.concurrency import Concurrency
from andante.gates.token_bucket import TokenBucket
from andante.simulate.engine import Engine
from andante.simulate.gateways import Gateways, uncontrolled
from andante.simulate.hearsay import Late
from andante.simulate.mixes import MIXES
from andante.simulate.profiles import PROFILES
from andante.simulate.record import Fate
from andante.simulate.shapes import draw, steady
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import Retry, service_classes
from tests.simulate.accounting import accounted

if TYPE_CHECKING:
    from andante.ticket import Ticket

A100 = PROFILES["a100-8b"]
CHAT = MIXES["chat"]
CLIENTS = [client for client, _ in CHAT]


def made(count: int, places: int) -> list[Controller[Ticket]]:
    return [Controller(Concurrency(places), classes=service_classes(CLIENTS)) for _ in range(count)]


def offered(controller: Controller[Ticket]) -> int:
    return sum(lane.offered for lane in controller.plan.lanes)


def test_one_gateway_alone_changes_nothing() -> None:
    """A single gateway among `Gateways` decides as by itself."""
    requests = draw(steady(), CHAT, 12.0, 20.0)
    (alone,), (wrapped,) = made(1, 64), made(1, 64)
    assert [r.over for r in replay_controller(requests, A100, alone)] == [
        r.over for r in replay_controller(requests, A100, Gateways(wrapped))
    ]


@pytest.mark.parametrize("shares", [None, [1, 1, 1, 1], [5, 3, 2, 0]])
def test_each_sees_its_own_calls(shares: list[float] | None) -> None:
    """Clients are shared out in turn or by shares; the books of all gateways together are those of the workload."""
    requests = draw(steady(), CHAT, 14.0, 30.0)
    gateways = made(4, 20)
    together = Gateways(*gateways, shares=shares, seed=1)
    records = replay_controller(requests, A100, together, retry=Retry())
    accounted(records, *gateways)
    total = sum(map(offered, gateways))
    assert total > len(requests)  # retries
    counts = [offered(gateway) / total for gateway in gateways]
    expected = [share / sum(shares) for share in shares] if shares else [0.25] * 4
    assert counts == pytest.approx(expected, abs=0.08 if shares else 0.01)
    assert repr(together) == "<Gateways: 4, 0 calls inside or waiting>"


def test_four_limits_fill_the_engine_as_one() -> None:
    """Four gateways of 16 places hold at most 64 inside together."""

    class Watched(Engine):
        most = 0

        def step(self, now: float) -> Any:
            self.most = max(self.most, self.running + self.waiting)
            return super().step(now)

    engine = Watched(A100)
    gateways = made(4, 16)
    records = replay_controller(draw(steady(), CHAT, 20.0, 20.0), engine, Gateways(*gateways))
    accounted(records, *gateways)
    assert engine.most == 64


def test_an_uncontrolled_gateway() -> None:
    """A fourth of the clients passes all control: nobody of them waits or is refused, and the others pay for it."""
    requests = draw(steady(), CHAT, 14.0, 30.0)
    values = []
    for share in (0.0, 0.25):
        ours, theirs = made(1, 64)[0], uncontrolled(CLIENTS)
        records = replay_controller(requests, A100, Gateways(ours, theirs, shares=[1 - share, share]))
        fates = accounted(records, ours, theirs)
        assert fates[Fate.REFUSED] == sum(lane.refused for lane in ours.plan.lanes)
        assert sum(lane.refused for lane in theirs.plan.lanes) == 0
        assert offered(theirs) == pytest.approx(share * len(requests), abs=0.06 * len(requests))
        values.append(sum(r.request.client.value for r in records if r.met))
    assert values[1] < values[0]


def test_gateways_that_look_by_time() -> None:
    """The earliest look of all counts, and wrappers go inside."""
    gateways = [Controller(TokenBucket(rate), classes=service_classes(CLIENTS)) for rate in (0.2, 3.0)]
    requests = draw(steady(), CHAT, 5.0, 20.0)
    records = replay_controller(requests, A100, Gateways(gateways[0], Late(gateways[1], 0.05)))
    accounted(records, *gateways)
    started = [sum(lane.started for lane in gateway.plan.lanes) for gateway in gateways]
    assert started[1] > 1.5 * started[0] > 0


@pytest.mark.parametrize("shares", [[1], [1, 2, 3], [0, 0], [-1, 2], [nan, 1], [inf, 1], ["1", 1], [True, 1]])
def test_bad_shares(shares: Any) -> None:
    """Shares that make no sense, and no gateway at all, are named."""
    with pytest.raises(ConfigurationError, match="shares"):
        Gateways(Controller(), Controller(), shares=shares)
    with pytest.raises(ConfigurationError, match="at least one"):
        Gateways()
