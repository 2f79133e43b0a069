"""How the tests put andante around the client: what a call may cost, what of a stream counts, what it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from andante import Concurrency, Cooldown, Cost, ServiceClass, TokenBucket, guard
from tests.real.load import KINDS

if TYPE_CHECKING:
    from andante import Admission, Gate
    from andante.events import Event
    from tests.real.load import Create


def reserved(*, messages: list[dict[str, str]], max_tokens: int, **_: object) -> Cost:
    """Before the call: a word is a token or so, and the answer may be as long as it is allowed to be."""
    words = sum(len(message["content"].split()) for message in messages)
    return Cost(input_tokens=words, output_tokens=max_tokens)


def content(chunk: Any) -> int:
    """1 for a chunk that brings text; 0 for the first (it has only a role) and the last (it has only the usage)."""
    return int(bool(chunk.choices and chunk.choices[0].delta.content))


def used(answer: Any) -> Cost | None:
    """After the call: what the server says in an answer, or in a stream's last chunk; None where it says nothing."""
    usage = answer.usage
    return None if usage is None else Cost(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)


def put_guard(admission: Admission, create: Create, service: str | None = None) -> Create:
    """`create`, paced by `admission`."""
    guarded: Create = guard(admission, service=service, cost=reserved, items=content, settle=used)(create)
    return guarded


def gates(places: int) -> list[Gate]:
    """New gates: `places` calls at once, more tokens a second than any engine here makes, and the server's pushback."""
    return [Concurrency(places), TokenBucket(1_000_000, unit="tokens"), Cooldown()]


def classes() -> list[ServiceClass]:
    """The kinds of callers as service classes, the most urgent first."""
    return [
        ServiceClass("interactive", ttft=KINDS[0].ttft, itl=KINDS[0].itl),
        ServiceClass("standard", e2e=KINDS[1].e2e),
        ServiceClass("batch", e2e=KINDS[2].e2e),
    ]


class Events:
    """A listener that keeps everything it hears."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def on(self, event: Event) -> None:
        self.heard.append(event)

    def only(self, kind: type[Event]) -> Any:
        """The one event of this kind."""
        (event,) = (event for event in self.heard if type(event) is kind)
        return event
