"""One request as the engine sees it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from andante.errors import ConfigurationError


class JobState(Enum):
    """Where a job is in the engine's life."""

    NEW = "new"
    WAITING = "waiting"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class Job:
    """One request as the engine sees it: token counts in, times out. Serve each job once.

    Args:
        prompt_tokens: at least 1.
        output_tokens: at least 1; the engine stops after exactly so many.
        tag: anything the caller wants to find again; the engine never looks at it.
        cached_tokens: of the prompt, those in the engine's prefix cache: fewer than `prompt_tokens`, as the last one is
            always computed (default 0).

    Attributes:
        state: a `JobState`.
        first: when its first token came (seconds on the caller's clock), or None.
        end: when its last token came, or None.
        generated: output tokens so far. Exact for a job that is not decoding; of a decoding one ask `Engine.generated`.
        prefilled: prefill tokens computed for it, recomputed ones included.
        preemptions: how often it lost its place.
    """

    __slots__ = (
        "_done", "_since", "_stop", "cached_tokens", "end", "first", "generated", "output_tokens", "preemptions",
        "prefilled", "prompt_tokens", "state", "tag",
    )  # fmt: skip

    def __init__(self, prompt_tokens: int, output_tokens: int, tag: Any = None, *, cached_tokens: int = 0) -> None:
        for name, value in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"Job.{name} must be a whole number above 0, not {value!r}", path=name)
        if cached_tokens != 0 and (
            isinstance(cached_tokens, bool)
            or not isinstance(cached_tokens, int)
            or not 0 < cached_tokens < prompt_tokens
        ):
            raise ConfigurationError(
                f"Job.cached_tokens must be a whole number from 0 to prompt_tokens - 1, not {cached_tokens!r}",
                path="cached_tokens",
            )
        self.cached_tokens = cached_tokens
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.tag = tag
        self.state = JobState.NEW
        self.first: float | None = None
        self.end: float | None = None
        self.generated = 0
        self.prefilled = 0
        self.preemptions = 0
        self._done = 0  # tokens whose KV it holds, not counting what it decoded since `_since`
        self._since = 0  # the engine's decode count at which it began to decode
        self._stop = 0  # the decode count that brings its last token

    def __repr__(self) -> str:
        return f"<Job {self.prompt_tokens}+{self.output_tokens} {self.state.value}, {self.generated} generated>"
