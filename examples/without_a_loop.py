"""The same decisions without an event loop: 600 calls offered in a minute to a limit of 300, in no time.

Run it: python examples/without_a_loop.py
"""

# --8<-- [start:code]
from heapq import heappop, heappush
from math import inf

from andante import Call, Controller, Outcome, ServiceClass, Ticket, TokenBucket

controller = Controller(
    TokenBucket(300, "minute"),
    classes=[ServiceClass("chat", ttft=1.0), ServiceClass("batch", max_wait=20.0)],
)
arrivals = [(n * 0.1, Call(service="chat" if n % 3 == 0 else "batch")) for n in range(600)]
ends: list[tuple[float, int, Ticket]] = []
now = 0.0

while arrivals or ends or controller.waiting:
    now = min(
        arrivals[0][0] if arrivals else inf,
        ends[0][0] if ends else inf,
        max(now, controller.next_look(now)),
    )
    started = []
    while ends and ends[0][0] <= now:
        controller.leave(heappop(ends)[2], Outcome(), now)
    while arrivals and arrivals[0][0] <= now:
        started.append(controller.offer(arrivals.pop(0)[1], now))
    for ticket in [*started, *controller.step(now)]:
        if ticket.state.value == "admitted":
            heappush(ends, (now + 0.5, id(ticket), ticket))

for lane in controller.plan.lanes:
    print(f"{lane.name}: {lane.offered} offered, {lane.started} started, {lane.refused} refused")
# --8<-- [end:code]
