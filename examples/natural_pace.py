"""Nobody says how many calls the engine can carry: the pace is found from the streams. In virtual time.

Run it: python examples/natural_pace.py
"""

# --8<-- [start:code]
from andante import Concurrency, Controller, Gate, NaturalPace
from andante.simulate import ClientClass, assign, poisson, profile, replay_controller, score, service_classes

clients = [
    ClientClass("chat", share=60, value=3, ttft=1.0, itl=0.06, leaves_without_first=10.0),
    ClientClass("report", share=40, value=1, e2e=60.0),
]
calls = assign(poisson(rate=14, seconds=60, prompt=(500, 1.0), output=(150, 0.8), seed=1), clients, seed=1)

gates: dict[str, Gate] = {f"at most {n}": Concurrency(n) for n in (32, 64, 128)} | {"natural": NaturalPace()}
for name, gate in gates.items():
    controller = Controller(gate, classes=service_classes(clients))
    result = score(replay_controller(calls, profile("a100-8b"), controller), clients)
    print(f"{name:12} {result.value:.0%} of the value in time")
# --8<-- [end:code]
