"""Adaptive limits on uniform backends: what each ends at, and what that is worth beside the best fixed limit.

Run it: python examples/limits.py
"""

from andante import AIMD, Admission, Concurrency, Controller, Cooldown, Gradient2, Vegas
from andante.simulate import (
    UNIFORM_PROFILES,
    Fate,
    ServiceEngine,
    ServiceProfile,
    draw,
    mix,
    replay_controller,
    service_classes,
)
from andante.simulate.shapes import steady

# --8<-- [start:use]
places = Concurrency(AIMD(initial=8, maximum=64, timeout=1.0))  # an embedder that answers in 0.2 s when it has room
admission = Admission(places, Cooldown())
# --8<-- [end:use]


# --8<-- [start:measure]
def served(profile: ServiceProfile, gate: Concurrency, seconds: float) -> float:
    """Calls a second that are done, after the first third, where a fifth more come than can be served."""
    clients = mix("whole")
    calls = draw(steady(), clients, 1.2 * profile.workers / profile.seconds, seconds, seed=1)
    controller = Controller(gate, classes=service_classes([client for client, _ in clients]))
    records = replay_controller(calls, ServiceEngine(profile), controller, tells="ends", until=seconds)
    ended = [record.over for record in records if record.fate is Fate.DONE and record.over is not None]
    return sum(end > seconds / 3 for end in ended) / (seconds * 2 / 3)


print("| backend | places | estimate | ends at | of the best fixed limit |")
print("|---|---|---|---|---|")
for name, seconds in (("http-20", 40.0), ("http-8-thrashing", 400.0)):
    profile = UNIFORM_PROFILES[name]
    assert isinstance(profile, ServiceProfile)
    best = served(profile, Concurrency(profile.workers), seconds)  # nothing is gained beyond, by how they are made
    for told, estimate in (
        ("`AIMD()`", AIMD()),
        ("`Vegas()`", Vegas()),
        ("`Gradient2()`", Gradient2()),
        ("`AIMD(initial=4, timeout=...)`, 1.5 times a call alone", AIMD(initial=4, timeout=1.5 * profile.seconds)),
        ("`Vegas(initial=4)`", Vegas(initial=4)),
        ("`Gradient2(initial=4, queue=1)`", Gradient2(initial=4, queue=1)),
    ):
        gate = Concurrency(estimate)
        share = served(profile, gate, seconds) / best
        print(f"| {name} | {profile.workers} | {told} | {gate.limit:.1f} | {share:.0%} |")
# --8<-- [end:measure]
