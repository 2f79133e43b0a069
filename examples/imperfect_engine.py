"""The same limit in front of an engine with faults: what do noise, freezes, retries and wrong sizes cost?

Run it: python examples/imperfect_engine.py
"""

# --8<-- [start:code]
from andante import Concurrency, Controller
from andante.simulate import Engine, Retry, draw, mix, profile, replay_controller, score, service_classes
from andante.simulate.hearsay import Chunks, misjudged
from andante.simulate.imperfect import freezes, noisy
from andante.simulate.shapes import bursty

chat = mix("chat")
clients = [client for client, _ in chat]
calls = draw(bursty(60, seed=1), chat, rate=12, seconds=60, seed=1)

for faults in (False, True):
    engine = Engine(profile("a100-8b"))
    controller = Controller(Concurrency(80), classes=service_classes(clients))
    if faults:
        records = replay_controller(
            misjudged(calls, 2.0), freezes(noisy(engine), 1.0, every=30.0), Chunks(controller, 4), retry=Retry()
        )
    else:
        records = replay_controller(calls, engine, controller)
    print(f"{'with' if faults else 'without'} faults: {score(records, clients).value:.0%} of the value in time")
# --8<-- [end:code]
