"""Guard a stream: the place is held until the stream ends, fails or is closed, and the true cost is charged.

Run it: python examples/stream.py
"""

# --8<-- [start:code]
import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from andante import Admission, Concurrency, Cost, TokenBucket, guard

tokens_an_hour = TokenBucket(60_000, "hour", unit="tokens", burst=1_000)
admission = Admission(Concurrency(2), tokens_an_hour)


def reservation(prompt: str, max_tokens: int = 200) -> Cost:
    """What a call may cost at most; what it did not use comes back at its end."""
    return Cost(input_tokens=len(prompt.split()), output_tokens=max_tokens)


@guard(admission, cost=reservation)
async def generate(prompt: str, max_tokens: int = 200) -> AsyncGenerator[str, None]:
    for number in range(max_tokens):
        await asyncio.sleep(0.001)  # your client's stream goes here
        yield f"{prompt[:3]}{number} "


async def main() -> None:
    async with aclosing(generate("why is the sky blue?")) as stream:
        async for token in stream:
            print(token, end="")
            if token == "why4 ":
                break  # leaving early gives the place back at once ...
    used = 1_000 - tokens_an_hour.snapshot(admission.now())["level"]
    print(f"\ncharged about {used:.0f} tokens of the 205 reserved")  # ... and charges what was seen


asyncio.run(main())
# --8<-- [end:code]
