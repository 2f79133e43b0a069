"""Watch an admission: metrics for Prometheus, events by structlog, and a listener of one's own.

Run it: python examples/metrics_and_logs.py
"""

# --8<-- [start:imports]
import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from andante import Admission, Concurrency, Cost, Rejected, ServiceClass, guard
from andante.events import Event, Refused
from andante.telemetry import PrometheusListener, StructlogListener

# --8<-- [end:imports]


# --8<-- [start:own]
class Refusals:
    """A listener is any object with on(event). It is called inside the call: be quick, and never wait."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on(self, event: Event) -> None:
        if isinstance(event, Refused):
            self.reasons.append(f"{event.service}: {event.error.reason}")


# --8<-- [end:own]

# --8<-- [start:listeners]
registry = CollectorRegistry()  # leave it out, and prometheus_client's own is used
metrics = PrometheusListener(registry, buckets={"queue_wait_seconds": [0.01, 0.05, 0.25, 1, 5, 30]})
logs = StructlogListener(levels={"left": "info"})  # besides refusals, overloads and changed limits
refusals = Refusals()

admission = Admission(
    Concurrency(2),
    classes=[ServiceClass("chat", max_wait=0.2), ServiceClass("batch", max_waiting=3)],
    name="llm",
    listeners=[metrics, logs, refusals],
)
# --8<-- [end:listeners]

# --8<-- [start:application]
# The application's own affair, at any time: here after the listener was made. Each of andante's lines carries what the
# caller has bound, because a listener runs in the caller's context.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.JSONRenderer(),
    ]
)
# --8<-- [end:application]


@guard(admission, service="chat", settle=lambda _: Cost(input_tokens=12, output_tokens=5))
async def chat(prompt: str) -> AsyncGenerator[str, None]:
    await asyncio.sleep(0.03)  # your client's stream goes here
    for word in prompt.split():
        yield word
        await asyncio.sleep(0.005)


@guard(admission, service="batch")
async def batch(prompt: str) -> str:
    await asyncio.sleep(0.05)
    if prompt == "bad":
        raise TimeoutError("the prompt may stand in here, so it is not logged")
    return prompt.upper()


# --8<-- [start:calls]
async def one_chat(number: int) -> None:
    structlog.contextvars.bind_contextvars(request_id=f"r-{number}")
    async with aclosing(chat("five words for every chat")) as words:
        async for _ in words:
            pass


async def one_batch(prompt: str) -> None:
    try:
        await batch(prompt)
    except (Rejected, TimeoutError):
        pass


async def main() -> None:
    await asyncio.gather(*(one_chat(n) for n in range(3)), *(one_batch(p) for p in ("good", "bad", "more", "last")))
    wanted = ("andante_offered", "andante_calls", "andante_refused", "andante_inside", "andante_tokens")
    for line in generate_latest(registry).decode().splitlines():
        if line.startswith(wanted):
            print(line)
    print(refusals.reasons)


# --8<-- [end:calls]

asyncio.run(main())
