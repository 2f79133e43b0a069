"""What a newcomer gets wrong is said in words, and what holds a call has a name."""

from __future__ import annotations

from typing import Any

import pytest

from andante import (
    Admission,
    Call,
    Closed,
    Concurrency,
    ConfigurationError,
    Controller,
    DeadlineUnreachable,
    Rejected,
    ServiceClass,
    State,
    guard,
)


@pytest.mark.anyio
async def test_a_call_that_is_none() -> None:
    """A name is no Call, and the error says so; nothing is counted."""
    admission = Admission(Concurrency(1))
    mistake: Any = "chat"
    with pytest.raises(ConfigurationError, match="takes a Call, not 'chat'"):
        await admission.enter(mistake)
    with pytest.raises(ConfigurationError, match="takes a Call"):
        admission.try_enter(mistake)
    assert admission.snapshot().offered == 0


@pytest.mark.parametrize("name", ["settle", "items"])
def test_what_is_no_function(name: str) -> None:
    """A parameter that must be a function is looked at when it is given, not at the first call."""
    wrong: Any = {name: 3}
    with pytest.raises(ConfigurationError, match=name):
        guard(Admission(), **wrong)
    mistake: Any = 3
    with pytest.raises(ConfigurationError, match="classify"):
        Admission(classify=mistake)


@pytest.mark.anyio
async def test_progress_of_no_number() -> None:
    """progress("x") names the value."""
    mistake: Any = "x"
    async with Admission().admit() as permit:
        with pytest.raises(ConfigurationError, match="'x'"):
            permit.progress(mistake)


@pytest.mark.anyio
async def test_refusals_in_words() -> None:
    """A drained admission and a deadline that has passed are called so."""
    admission = Admission(Concurrency(1))
    with pytest.raises(DeadlineUnreachable, match="its deadline has passed"):
        await admission.enter(Call(deadline=admission.now() - 1))
    await admission.drain()
    with pytest.raises(Closed, match="draining and takes no new calls"):
        await admission.enter()


def test_who_waits_behind_others_is_held_by_the_same_gate() -> None:
    """A refusal names the gate that shut the door, also for those who never stood in it."""
    controller = Controller(Concurrency(1), classes=[ServiceClass("a", max_wait=1.0)])
    tickets = [controller.offer(Call(service="a"), 0.0) for _ in range(4)]
    controller.step(2.0)
    refused = [ticket.error for ticket in tickets if ticket.state is State.REFUSED]
    assert len(refused) == 3
    assert all(isinstance(error, Rejected) and error.gate == "concurrency" for error in refused)
