"""The laws of a gate, for the gates of this library and for yours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.testing.visitor import Visitor
from andante.testing.walk import LAWS, Walk
from andante.values import Call, Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from andante.gate import Gate

__all__ = ["CALLS", "LAWS", "Visitor", "gate_contract"]

CALLS = (
    Call(),
    Call(Cost(input_tokens=100, output_tokens=20)),
    Call(Cost(requests=2, input_tokens=900, output_tokens=100, cached_tokens=400, memory_bytes=1e6)),
    Call(Cost(requests=0)),
)
"""The calls that `gate_contract` makes unless it is given others."""


def gate_contract(
    make_gate: Callable[[], Gate],
    *,
    calls: Sequence[Call] = CALLS,
    exempt: Collection[str] = (),
    seed: int = 0,
    steps: int = 400,
    idle: float = 1e7,
    set_time: Callable[[float], None] | None = None,
) -> None:
    """Send calls through a gate, at random but the same for the same seed, and check that it keeps the `LAWS`.

    No time passes in reality and no event loop runs. Put it into a test as it is:

        def test_my_gate() -> None:
            gate_contract(lambda: MyGate(limit=3))

    Args:
        make_gate: makes a new gate, the same every time.
        calls: what is sent. Give calls that your gate treats differently; at least one of them must fit.
        exempt: names of `LAWS` that are not kept, for a good reason that the gate's documentation tells.
        seed: another one sends other calls.
        steps: how many things happen.
        idle: seconds of a rest after which your gate has its full capacity back; the default is 116 days.
        set_time: called with each new time before the gate hears of it, for a gate around something with a clock of
            its own.

    Raises:
        AssertionError: a law is broken; it says which, how, and what led to it.
        ConfigurationError: an unknown law in `exempt`, no calls, or a `make_gate` that makes none, or one for all.
    """
    for law in exempt:
        if law not in LAWS:
            raise ConfigurationError(f"exempt must name laws ({', '.join(LAWS)}), not {law!r}", path="exempt")
    if not calls:
        raise ConfigurationError("calls must hold at least one Call", path="calls")
    walk = Walk(make_gate, calls, frozenset(exempt), seed, set_time)
    walk.look_plain()
    for _ in range(steps):
        walk.step()
    walk.empty()
    walk.restart()
    walk.rest(idle)
