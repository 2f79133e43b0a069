"""The public names as a typed program uses them. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_type

from andante import (
    AIMD,
    Account,
    Admission,
    AioLimiter,
    Call,
    Concurrency,
    Controller,
    Cooldown,
    Cost,
    Decision,
    Ending,
    Entry,
    Gate,
    Gradient2,
    Outcome,
    Permit,
    Rejected,
    ServiceClass,
    Snapshot,
    Ticket,
    TokenBucket,
    Vegas,
    guard,
    request,
)

if TYPE_CHECKING:
    from andante.events import Event


class Card(Gate):
    def delay(self, entry: Entry, now: float) -> float:
        return 0.0 if entry.cost.memory_bytes < 1e9 else float("inf")

    def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
        assert_type(outcome.ending, Ending)


class Listening:
    def on(self, event: Event) -> None:
        assert_type(event.at, float)


def classify(error: BaseException) -> tuple[Ending, float | None]:
    return (Ending.OVERLOADED, 1.0) if isinstance(error, TimeoutError) else (Ending.IGNORED, None)


admission = Admission(
    TokenBucket(10, "minute", unit="tokens", burst=100),
    Concurrency(4),
    Cooldown(initial=timedelta(seconds=1)),
    Card(name="card"),
    classes=[ServiceClass("chat", ttft=1, gates=(Concurrency(2),)), ServiceClass("batch", e2e=timedelta(minutes=1))],
    name="engine",
    listeners=[Listening()],
    classify=classify,
)


def price(prompt: str, *, limit: int = 10) -> Cost:
    return Cost(input_tokens=len(prompt), output_tokens=limit)


@guard(admission, service="chat", cost=price, deadline=2.0)
async def complete(prompt: str, *, limit: int = 10) -> int:
    return len(prompt) + limit


@guard(admission, items=len, settle=lambda last: Cost(output_tokens=len(last)))
async def stream(prompt: str) -> AsyncIterator[str]:
    yield prompt


def who(client: Client, prompt: str) -> str:
    return client.tenant + prompt


class Client:
    @guard(admission, tenant=who)
    async def ask(self, prompt: str) -> str:
        return prompt

    tenant = "acme"


async def use(limiter: Any) -> None:
    assert_type(await complete("why", limit=3), int)
    assert_type(stream("why"), AsyncIterator[str])
    assert_type(await Client().ask("why"), str)
    async with admission.admit(Call(Cost(input_tokens=1), service="chat", tenant=3)) as permit:
        assert_type(permit, Permit)
        permit.progress(2)
        permit.settle(Cost())
        assert_type(permit.account, Account)
    try:
        admission.try_enter().close()
    except Rejected as error:
        assert_type(error.retry_after, float | None)
    assert_type(admission.explain(), Decision)
    assert_type(admission.snapshot(), Snapshot)
    assert_type(admission.pressure, str)
    admission.reconfigure(gates=[AioLimiter(limiter)], size_bias=0)
    assert_type(await admission.drain(timedelta(seconds=1)), int)
    with request(tenant="acme", within=timedelta(seconds=2)) as r:
        assert_type(r.accounts, list[Account])


controller = Controller(Concurrency(1))
assert_type(controller.offer(Call(), 0.0), Ticket)
assert_type(controller.step(0.0), list[Ticket])

aimd = AIMD(minimum=2, timeout=timedelta(seconds=3))
assert_type(aimd.limit, float)
assert_type(Concurrency(aimd).limit, float)
Controller(Concurrency(Vegas(maximum=64, probe=10)), Concurrency(Gradient2(queue=2, window=100), name="second"))
