"""A workload through a policy, with an event loop and without: times by hand, conservation, equal decisions."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from andante.controller import Controller
from andante.errors import ConfigurationError
from andante.gates.concurrency import Concurrency
from andante.gates.token_bucket import TokenBucket
from andante.simulate.policies import admission, aiolimiter, no_control, semaphore
from andante.simulate.profiles import PROFILES, EngineProfile
from andante.simulate.record import GAP, Fate, Record
from andante.simulate.replay import replay
from andante.simulate.traces import Arrival, Trace, azure_conversation, poisson
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, assign, service_classes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FLAT = EngineProfile(
    a=100.0, b=0.0, c=0.0, d=0.0, e=0.0, kv=1000, seqs=4, mbt=64
)  # a step takes 0.1 s, whatever is in it
CALM = ClientClass("calm", share=1)
TRIO = (
    ClientClass("interactive", share=50, value=3, ttft=1.0, itl=0.06, leaves_without_first=10.0),
    ClientClass("standard", share=30, value=2, e2e=30.0, leaves=60.0),
    ClientClass("batch", share=20, value=1, e2e=600.0),
)


def calls(*times: float, client: ClientClass = CALM, tokens: int = 5) -> list[Request]:
    return [Request(at, 4, tokens, client) for at in times]


def overs(records: list[Record]) -> list[float | None]:
    return [record.over for record in records]


def test_no_control_by_hand() -> None:
    """A step of 0.1 s a token, four at a time: the fifth call begins when the first four are through."""
    records = replay(calls(1.0, 1.0, 1.0, 1.0, 1.0), FLAT, no_control)
    assert overs(records) == pytest.approx([1.5, 1.5, 1.5, 1.5, 2.0], abs=20 * GAP)
    assert [record.ttft for record in records] == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.6], abs=20 * GAP)
    assert [record.itl for record in records] == pytest.approx([0.1] * 5, abs=2 * GAP)
    assert {record.fate for record in records} == {Fate.DONE}
    assert {record.tokens for record in records} == {4 + 5}


def test_semaphore_by_hand() -> None:
    """One at a time, in order; a place that becomes free is taken in the very next step."""
    records = replay(calls(0.0, 0.0, 0.0), FLAT, semaphore(1))
    assert overs(records) == pytest.approx([0.5, 1.0, 1.5], abs=20 * GAP)
    assert [record.entered for record in records] == pytest.approx([0.0, 0.5, 1.0], abs=20 * GAP)


def test_aiolimiter_keeps_its_rate() -> None:
    """The real package, on the clock of the loop: 2 at once, then 2 a second."""
    records = replay(calls(*[0.0] * 8, tokens=1), FLAT, aiolimiter(2))
    entered = sorted(record.entered or 0.0 for record in records)
    assert entered == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], abs=1e-6)


def test_aiolimiter_never_spins() -> None:
    """Rates whose sums round badly do not stop the clock of a loop that moves only by timers."""
    trace = poisson(20.0, 60.0, prompt=(30.0, 0.5), output=(3.0, 0.5), longest=60, seed=2)
    for rate in (7.97, 8.1, 3.3333333, 0.7):
        records = replay(assign(trace.first(60 if rate > 1 else 3), [CALM]), FLAT, aiolimiter(rate))
        assert all(record.fate is Fate.DONE for record in records)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "8"])
def test_bad_policies(bad: Any) -> None:
    """Rates and places that make no sense are named."""
    with pytest.raises(ConfigurationError, match="rate"):
        aiolimiter(bad)
    with pytest.raises(ConfigurationError, match="places"):
        semaphore(bad)


def test_clients_leave() -> None:
    """FC-20: a client leaves a line or a stream when its patience ends; what it held is free for the next step."""
    hasty = ClientClass("hasty", share=1, leaves_without_first=0.25)
    short = ClientClass("short", share=1, leaves=0.25)
    requests = [*calls(0.0, tokens=50, client=short), *calls(0.0, client=hasty), *calls(0.05)]
    records = replay(requests, FLAT, semaphore(1))
    assert [record.fate for record in records] == [Fate.LEFT, Fate.LEFT, Fate.DONE]
    assert records[0].over == pytest.approx(0.25)
    assert records[0].ttft == pytest.approx(0.1, abs=1e-5)
    assert records[0].itl is None
    assert records[1].over == pytest.approx(0.25)
    assert records[1].job is None
    assert records[2].entered == pytest.approx(0.25)
    # The step under way when the first one left ends at 0.3; the next one is the newcomer's.
    assert records[2].over == pytest.approx(0.3 + 0.5, abs=1e-4)
    assert records[0].tokens == 4 + 3
    assert not records[0].met

    # The step that makes a token is under way when its client leaves: computed, and never seen.
    at_once = ClientClass("at once", share=1, leaves=0.05)
    (record,) = replay(calls(0.0, client=at_once), FLAT, no_control)
    assert (record.fate, record.over, record.ttft, record.tokens) == (Fate.LEFT, pytest.approx(0.05), None, 4 + 1)


def test_first_token_ends_the_first_patience_only() -> None:
    """With its first token a client waits for the last, as long as its other patience lasts."""
    both = ClientClass("both", share=1, leaves_without_first=0.15, leaves=0.35)
    only = ClientClass("only", share=1, leaves_without_first=0.15)
    for run in (lambda r: replay(r, FLAT, no_control), lambda r: without_loop(r, FLAT)):
        left, done = run([*calls(0.0, client=both), *calls(0.0, client=only)])
        assert (left.fate, left.over) == (Fate.LEFT, pytest.approx(0.35))
        assert (done.fate, done.over) == (Fate.DONE, pytest.approx(0.5, abs=1e-4))


def without_loop(requests: list[Request], profile: EngineProfile) -> list[Record]:
    names = dict.fromkeys(request.client for request in requests)
    soft = [ClientClass(client.name, share=1) for client in names]
    return replay_controller(requests, profile, Controller(classes=service_classes(soft)))


def workload(seconds: float, speed: float) -> list[Request]:
    return assign(azure_conversation().first(seconds).faster(speed), TRIO, seed=7)


def test_andante_refuses_and_accounts() -> None:
    """At twice the capacity an admission refuses what it cannot serve in time. Every call is accounted for, once, and
    none starts later than its objective allows."""
    requests = workload(80, 6.4)
    records = replay(requests, PROFILES["a100-8b"], admission(TRIO, lambda: [Concurrency(96)]))
    fates = [record.fate for record in records]
    assert fates.count(Fate.REFUSED) > 20
    assert [record.request for record in records] == requests
    for record in records:
        assert record.over is not None
        assert record.request.at <= record.over
        if record.fate is Fate.REFUSED:
            assert record.job is None
            assert record.reason in {"deadline_unreachable", "deadline_expired", "line_full", "shed"}
            assert record.after <= record.request.client.ttft + 30.0
        if record.fate is Fate.DONE:
            assert record.job is not None
            assert record.job.generated == record.request.output_tokens
            assert record.entered is not None
            assert (
                record.entered - record.request.at <= min(record.request.client.ttft, record.request.client.e2e) + 1e-9
            )


@pytest.mark.parametrize("places", [8, 96])
def test_event_loop_and_controller_decide_the_same(places: int) -> None:
    """Law 11: the same gates and classes with an event loop and without give every call the same fate at the same time
    (an admission sets no timer under 1 ms, so refusals may come that much later)."""
    requests = workload(80, 6.4)
    with_loop = replay(requests, PROFILES["a100-8b"], admission(TRIO, lambda: [Concurrency(places)]))
    bare = replay_controller(
        requests, PROFILES["a100-8b"], Controller(Concurrency(places), classes=service_classes(TRIO))
    )
    assert [record.fate for record in with_loop] == [record.fate for record in bare]
    assert [record.reason for record in with_loop] == [record.reason for record in bare]
    assert overs(with_loop) == pytest.approx(overs(bare), abs=1.1e-3)
    assert len({record.fate for record in bare}) > 1


@pytest.mark.parametrize("places", [12, 300])
def test_clients_leave_at_the_same_times(places: int) -> None:
    """Without objectives clients lose patience, in the line and in the engine: the same ones with a loop and without,
    and what the engine computed for them is the same."""
    requests = workload(60, 8.0)
    soft = [ClientClass(client.name, share=1) for client in TRIO]
    with_loop = replay(requests, PROFILES["rtx4090-8b"], admission(soft, lambda: [Concurrency(places)]))
    bare = replay_controller(
        requests, PROFILES["rtx4090-8b"], Controller(Concurrency(places), classes=service_classes(soft))
    )
    assert [record.fate for record in with_loop] == [record.fate for record in bare]
    assert overs(with_loop) == pytest.approx(overs(bare), abs=1e-6)
    assert [record.tokens for record in with_loop] == [record.tokens for record in bare]
    inside = [record.job is not None for record in bare if record.fate is Fate.LEFT]
    assert inside
    assert all(inside) if places == 300 else not all(inside)


def test_a_rate_gate_is_looked_at_in_time() -> None:
    """A gate that opens by time alone is asked again when it said it would, without an event loop too."""
    requests = calls(*[0.0] * 6, tokens=1)
    bare = replay_controller(requests, FLAT, Controller(TokenBucket(2.0), classes=service_classes([CALM])))
    entered = sorted(record.entered or 0.0 for record in bare)
    assert entered == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5], abs=1e-6)


@pytest.mark.parametrize("policy", [no_control, semaphore(4), admission(TRIO, lambda: [Concurrency(4)])])
def test_deterministic(policy: Any) -> None:
    """A replay repeated is the same replay."""
    requests = workload(20, 4.0)
    runs = [replay(requests, PROFILES["a100-8b"], policy) for _ in range(2)]
    assert overs(runs[0]) == overs(runs[1])
    assert [record.fate for record in runs[0]] == [record.fate for record in runs[1]]


def test_every_token_is_told() -> None:
    """A slot hears of each of its tokens, and a call that does not fit or a policy that fails ends the replay."""

    class Heard:
        items = 0.0

        def progress(self, items: float = 1.0) -> None:
            self.items += items

    slots: list[Heard] = []

    @asynccontextmanager
    async def way(request: Request) -> AsyncIterator[Heard]:
        slots.append(Heard())
        yield slots[-1]

    replay(calls(0.0, 0.3, 0.31), FLAT, lambda: way)
    assert [slot.items for slot in slots] == [5, 5, 5]

    with pytest.raises(ConfigurationError, match="1000 KV tokens"):
        replay([Request(0.0, 1000, 1, CALM)], FLAT, no_control)

    class Deaf:
        def progress(self, items: float = 1.0) -> None:
            raise OverflowError("too loud")

    with pytest.raises(OverflowError, match="too loud"):
        replay(calls(0.0, 5.0), FLAT, lambda: lambda _: nullcontext(Deaf()))

    def broken(request: Request) -> Any:
        raise LookupError("no way")

    with pytest.raises(LookupError, match="no way"):
        replay(calls(0.0, 5.0), FLAT, lambda: broken)


def test_progress_is_told() -> None:
    """The caller hears up to the last request, of both drivers."""
    requests = assign(Trace([Arrival(0.1 * n, 4, 2) for n in range(40)]), [CALM])
    heard: list[tuple[int, int]] = []
    replay(requests, FLAT, no_control, progress=lambda *at: heard.append(at))
    assert heard == [(16, 40), (32, 40), (40, 40)]
    heard.clear()
    replay_controller(
        requests, FLAT, Controller(classes=service_classes([CALM])), progress=lambda *at: heard.append(at)
    )
    assert heard[-1] == (40, 40)


def test_nothing_offered() -> None:
    """An empty workload is over at once."""
    assert replay([], FLAT, no_control) == []
    assert replay_controller([], FLAT, Controller()) == []


def test_records_before_they_end() -> None:
    """A record says nothing that it cannot know."""
    record = Record(calls(1.0)[0])
    assert (record.ttft, record.itl, record.after, record.met, record.tokens) == (None, None, inf, False, 0)
    record.ended(Fate.REFUSED, 1.5, "shed")
    assert repr(record) == "<Record calm at 1: refused after 0.5 s>"
