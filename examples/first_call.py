"""Decorate any async function: at most four calls at once, at most twenty starts a second.

Run it: python examples/first_call.py
"""

# --8<-- [start:code]
import asyncio
import time
from contextlib import closing

from andante import Admission, Concurrency, Rejected, TokenBucket, guard

admission = Admission(
    Concurrency(4),  # at most four at once
    TokenBucket(20, "second"),  # at most twenty starts a second, evenly
)


@guard(admission)
async def complete(prompt: str) -> str:
    await asyncio.sleep(0.1)  # your client's call goes here
    return prompt.upper()


async def main() -> None:
    start = time.monotonic()
    answers = await asyncio.gather(*(complete(f"prompt {i}") for i in range(20)))
    print(f"{len(answers)} answers in {time.monotonic() - start:.1f} s")
    print(admission)

    await asyncio.sleep(0.05)
    with closing(admission.try_enter()):  # now or never
        try:
            admission.try_enter()
        except Rejected as error:
            print(f"{error.reason}: try again in {error.retry_after:.3f} s")


asyncio.run(main())
# --8<-- [end:code]
