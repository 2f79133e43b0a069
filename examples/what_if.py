"""Would another limit have served yesterday's calls better? Asked of the engine model, in virtual time.

Run it: python examples/what_if.py
"""

# --8<-- [start:code]
from andante import Concurrency, Controller
from andante.simulate import ClientClass, assign, poisson, profile, replay_controller, score, service_classes

clients = [
    ClientClass("chat", share=70, value=3, ttft=1.0, itl=0.06, leaves_without_first=10.0),
    ClientClass("report", share=30, value=1, e2e=60.0),
]
calls = assign(poisson(rate=12, seconds=60, prompt=(500, 1.0), output=(150, 0.8), seed=1), clients, seed=1)

for limit in (16, 64, 256):
    controller = Controller(Concurrency(limit), classes=service_classes(clients))
    result = score(replay_controller(calls, profile("a100-8b"), controller), clients)
    print(f"{limit:3} at once: {result.value:.0%} of the value in time")
# --8<-- [end:code]
