"""Prompt tokens that the backend has yet to prefill, by arithmetic: nobody says when it does."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

_MEMORY = 1.0  # seconds, of the rate


class Prefill(NamedTuple):
    """The virtual queue of prompts at one moment.

    Attributes:
        waiting: prompt tokens not yet prefilled.
        done: prompt tokens prefilled since the beginning.
        rate: prompt tokens prefilled per second, over the last second.
    """

    waiting: float = 0.0
    done: float = 0.0
    rate: float = 0.0

    def after(self, seconds: float, each: float) -> Prefill:
        """`seconds` later, where a token takes `each` seconds. First a and then b is the same as a + b."""
        if seconds <= 0:
            return self
        waiting, done, rate = self
        busy = waiting * each
        if busy > seconds:
            moved = seconds / each
            return Prefill(waiting - moved, done + moved, 1 / each + (rate - 1 / each) * exp(-seconds / _MEMORY))
        if busy > 0:
            rate = 1 / each + (rate - 1 / each) * exp(-busy / _MEMORY)
        return Prefill(0.0, done + waiting, rate * exp((busy - seconds) / _MEMORY))

    def plus(self, tokens: float) -> Prefill:
        """A prompt joins the queue."""
        return Prefill(self.waiting + tokens, self.done, self.rate)

    def without(self, tokens: float) -> Prefill:
        """So much of the queue has left it."""
        return Prefill(max(0.0, self.waiting - tokens), self.done, self.rate)

    def seen(self, tokens: float) -> Prefill:
        """So much of the queue was prefilled already, as it turns out."""
        tokens = min(tokens, self.waiting)
        return Prefill(self.waiting - tokens, self.done + tokens, self.rate) if tokens > 0 else self
