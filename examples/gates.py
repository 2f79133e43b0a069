"""Every gate once, and one of your own.

Run it: python examples/gates.py
"""

from andante import Admission, Breaker, Call, Concurrency, Cooldown, Cost, TokenBucket, guard
from andante.testing import virtual_time


async def token_bucket() -> None:
    # --8<-- [start:token_bucket]
    requests = TokenBucket(500, "minute", strict_window=True, name="requests")
    tokens = TokenBucket(100_000, "minute", unit="tokens", burst=20_000, name="tokens")
    admission = Admission(requests, tokens)

    call = Call(Cost(input_tokens=900, output_tokens=500))  # what it may use
    async with admission.admit(call) as permit:
        # the work
        permit.settle(Cost(input_tokens=900, output_tokens=120))  # what it used: 380 tokens come back
    # --8<-- [end:token_bucket]
    print(tokens)


async def concurrency() -> None:
    # --8<-- [start:concurrency]
    places = Concurrency(8)
    admission = Admission(places)
    places.limit = 12  # while it runs: who waits is let in at once
    # --8<-- [end:concurrency]
    print(admission)


async def cooldown() -> None:
    # --8<-- [start:cooldown]
    class RateLimited(Exception):
        status_code = 429
        retry_after = 30.0

    admission = Admission(Concurrency(8), Cooldown())

    @guard(admission)
    async def call(fails: bool) -> str:
        if fails:
            raise RateLimited
        return "done"

    try:
        await call(True)
    except RateLimited:  # errors of the work come through untouched
        pass
    print(admission.explain().retry_after)  # everybody waits these 30 s, then one probes
    # --8<-- [end:cooldown]
    print(await call(False), "after", admission.now(), "s of virtual time")


async def breaker() -> None:
    # --8<-- [start:breaker]
    admission = Admission(Concurrency(8), Breaker(share=0.5, window=30, probes=3))

    @guard(admission)
    async def call(up: bool) -> str:
        if not up:
            raise ConnectionRefusedError("nobody listens")
        return "done"

    for _ in range(10):
        try:
            await call(up=False)
        except ConnectionRefusedError:
            pass
    print(admission.explain())  # nobody tries for 5 s; then three look whether it is back
    # --8<-- [end:breaker]
    print(await call(up=True), "after", admission.now(), "s of virtual time")


async def own_gate() -> None:
    # --8<-- [start:own]
    from andante import Entry, Gate, Outcome

    class MemoryOfOneCard(Gate):
        """At most `total` bytes of the calls inside together."""

        def __init__(self, total: float) -> None:
            super().__init__()
            self.total = total
            self.used = 0.0

        def delay(self, entry: Entry, now: float) -> float:
            return 0.0 if self.used + entry.cost.memory_bytes <= self.total else float("inf")

        def enter(self, entry: Entry, now: float) -> None:
            self.used += entry.cost.memory_bytes

        def leave(self, entry: Entry, outcome: Outcome, now: float) -> None:
            self.used -= entry.cost.memory_bytes

        def undo(self, entry: Entry, now: float) -> None:
            self.used -= entry.cost.memory_bytes

    admission = Admission(MemoryOfOneCard(80e9))
    async with admission.admit(Call(Cost(memory_bytes=20e9))):
        ...
    # --8<-- [end:own]
    print(admission)


async def main() -> None:
    await token_bucket()
    await concurrency()
    await cooldown()
    await breaker()
    await own_gate()


virtual_time.run(main)
