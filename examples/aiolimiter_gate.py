"""Keep the aiolimiter that you have, and add what it lacks.

Run it: python examples/aiolimiter_gate.py
"""

# --8<-- [start:code]
import asyncio

from aiolimiter import AsyncLimiter

from andante import Admission, AioLimiter, ServiceClass

limiter = AsyncLimiter(10, 1)  # shared with code that knows nothing of andante
admission = Admission(AioLimiter(limiter), classes=[ServiceClass("urgent"), ServiceClass("other", max_wait=2.0)])


async def main() -> None:
    async with limiter:  # the old code
        pass
    async with admission.admit():  # the new code, at the same limit
        print(admission)


asyncio.run(main())
# --8<-- [end:code]
