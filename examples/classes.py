"""Service classes and deadlines: urgent calls first, hopeless ones refused at once with a reason and a time.

Run it: python examples/classes.py
"""

# --8<-- [start:code]
import asyncio

from andante import Admission, Call, Concurrency, Cost, Rejected, ServiceClass, guard, request

admission = Admission(
    Concurrency(2),
    classes=[  # from the most urgent to the least
        ServiceClass("chat", ttft=1.0),
        ServiceClass("report", e2e=30.0, floor=0.1),  # a tenth of the work is always theirs
        ServiceClass("nightly", deferrable=True, max_waiting=10_000),
    ],
)


async def model(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def by_hand() -> None:
    call = Call(Cost(input_tokens=300), service="chat", tenant="acme")
    async with admission.admit(call) as permit:
        await model(0.05)
        permit.progress(40)  # forty tokens have come
        permit.settle(Cost(input_tokens=280, output_tokens=40))  # what it really was
    print(permit.account)


@guard(admission, service="report")
async def report() -> str:
    return await model(0.05)


async def main() -> None:
    await by_hand()

    with request(tenant="acme", within=2.0) as r:  # one deadline over everything inside
        await asyncio.gather(report(), report(), report())
    print([round(account.waited, 2) for account in r.accounts])

    busy = [asyncio.create_task(report()) for _ in range(2)]
    await asyncio.sleep(0)  # now both places are taken
    print(admission.explain(Call(service="chat")))
    try:
        with request(within=0.02):
            await report()
    except Rejected as error:  # the work was not started
        print(f"{type(error).__name__}: {error}")
    await asyncio.gather(*busy)


asyncio.run(main())
# --8<-- [end:code]
