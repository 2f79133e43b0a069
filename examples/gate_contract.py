"""Put a gate of your own through the laws that every gate keeps.

Run it: python examples/gate_contract.py
"""

# --8<-- [start:code]
from andante import Concurrency
from andante.testing import gate_contract


def test_my_gate() -> None:
    gate_contract(lambda: Concurrency(3))  # your gate here; raises AssertionError with a story


# --8<-- [end:code]
test_my_gate()
print("the gate keeps its laws")
