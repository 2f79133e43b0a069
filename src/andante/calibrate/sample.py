"""What is remembered of one call, and what can go wrong with one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Effect(Enum):
    """What a trouble does to the climb."""

    PUSHBACK = "pushback"
    """The backend says that it cannot (429, 503, 529, a time-out): this is the bound."""
    FATAL = "fatal"
    """No call will ever succeed (401, 404, a refused connection): stop at once."""
    FAULT = "fault"
    """This call failed (500, a broken or an empty stream): the climb goes on unless there are many."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One way in which calls fail.

    Attributes:
        kind: a few words, the same for all calls that fail in this way; what is counted.
        said: what the backend said of it, or an explanation; for people.
        effect: what it does to the climb.
    """

    kind: str
    said: str = ""
    effect: Effect = Effect.FAULT

    def __str__(self) -> str:
        return f"{self.kind}: {self.said}" if self.said else self.kind


class CallFailed(Exception):
    """Raised by a target when a call fails in a way that it knows."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


@dataclass(slots=True)
class Sample:
    """One call. Times are seconds on the clock of the run; None: it has not come to that.

    Attributes:
        started: when it was sent.
        first: when its first output came; None for a whole call, whose end is all that is seen.
        ended: when it was over, well or not.
        items: when output came, and how many tokens each time.
        tokens: its output tokens as the backend counts them; None: it does not say, and `items` are counted.
        prompt: its input tokens as the backend counts them.
        trouble: why it failed.
    """

    started: float
    first: float | None = None
    ended: float | None = None
    items: list[tuple[float, float]] = field(default_factory=list)
    tokens: float | None = None
    prompt: float | None = None
    trouble: Trouble | None = None

    @property
    def output(self) -> float | None:
        """Its output tokens, None where nobody knows."""
        return self.tokens if self.tokens is not None else sum(count for _, count in self.items) or None

    @property
    def scale(self) -> float:
        """Tokens in an item that counts as one: servers may put several tokens into one chunk."""
        seen = sum(count for _, count in self.items)
        return self.tokens / seen if self.tokens and seen else 1.0

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return self.ended is not None and self.trouble is None


class Report:
    """How a target tells what comes of its call, while it comes.

    Args:
        sample: what is written into.
        clock: tells the time, in seconds.
        heard: called at every item; whoever waits for output sees that there was some.
    """

    __slots__ = ("_clock", "_heard", "sample")

    def __init__(self, sample: Sample, clock: Callable[[], float], heard: Callable[[], None] = lambda: None) -> None:
        self.sample = sample
        self._clock = clock
        self._heard = heard

    def item(self, tokens: float = 1.0) -> None:
        """Output has come now: of a stream, about so many tokens."""
        now = self._clock()
        if self.sample.first is None:
            self.sample.first = now
        self.sample.items.append((now, tokens))
        self._heard()

    def usage(self, tokens: float | None, prompt: float | None = None) -> None:
        """The backend's own count of output and input tokens; None where it tells of none."""
        self.sample.tokens = self.sample.tokens if tokens is None else tokens
        self.sample.prompt = self.sample.prompt if prompt is None else prompt
