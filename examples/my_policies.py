"""Policies to be compared by `andante simulate`: functions that make gates.

In the directory of this file: andante simulate --compare my_policies:wide my_policies:paced natural-pace
Run it: python examples/my_policies.py
"""

# --8<-- [start:code]
from andante import Concurrency, Gate, TokenBucket
from andante.simulate import ClientClass


def wide(_: list[ClientClass]) -> list[Gate]:
    """128 calls at once; whoever waits goes in the order of the classes."""
    return [Concurrency(128)]


def paced(_: list[ClientClass]) -> list[Gate]:
    """48 at once, and no more than 9 a second."""
    return [Concurrency(48), TokenBucket(9, per="second", burst=4)]


# --8<-- [end:code]

if __name__ == "__main__":
    # --8<-- [start:campaign]
    from andante.simulate.arrivals import Drawn
    from andante.simulate.campaign import Campaign, run
    from andante.simulate.mixes import mix

    found = run(Campaign(("my_policies:wide", "my_policies:paced"), Drawn(mix("chat"), 30.0), loads=(1.5,)))
    for result in found.results:
        print(f"{result.cell}: {result.score.value:.0%} of the value in time")
    # --8<-- [end:campaign]
