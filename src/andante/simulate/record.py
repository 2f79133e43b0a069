"""What happened to each request of a replay."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Literal

from andante.errors import ConfigurationError
from andante.simulate.job import Job
from andante.values import Cost, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.simulate.workload import Request

GAP = 1e-6
"""Seconds between two steps of the engine. Clients and gateway need no time, so within it everybody has reacted to the
step before: a place that became free is taken again when the next step begins."""


Tells = Literal["streams", "ends"]
"""What the gateway hears of a call inside: each of its tokens, or only its end."""


class Fate(Enum):
    """How it ended for the client."""

    DONE = "done"
    """It has its whole answer."""
    REFUSED = "refused"
    """It was refused before it started."""
    LEFT = "left"
    """It lost patience, in a line or in the engine."""


class Record:
    """What happened to one request. All times are absolute, in seconds; None where it did not happen.

    Attributes:
        request: the request.
        fate: a `Fate`.
        entered: when the policy let it in.
        over: when its answer was complete, it was refused, or it left.
        reason: the reason of the refusal.
        job: what the engine did for it.
    """

    __slots__ = ("entered", "fate", "job", "over", "reason", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.fate = Fate.DONE
        self.entered: float | None = None
        self.over: float | None = None
        self.reason: str | None = None
        self.job: Job | None = None

    @property
    def first(self) -> float | None:
        """When its client saw the first token."""
        job = self.job
        if job is None or job.first is None or (self.over is not None and job.first > self.over):
            return None  # the step was under way when the client left
        return job.first

    @property
    def ttft(self) -> float | None:
        """Seconds from arrival to the first token."""
        return None if self.first is None else self.first - self.request.at

    @property
    def itl(self) -> float | None:
        """Mean gap between its tokens in seconds, of a complete answer; 0 for an answer of one token."""
        if self.fate is not Fate.DONE or self.first is None or self.over is None:
            return None
        return (self.over - self.first) / max(1, self.request.output_tokens - 1)

    @property
    def after(self) -> float:
        """Seconds from arrival until it was over."""
        return inf if self.over is None else self.over - self.request.at

    @property
    def met(self) -> bool:
        """Whether it was served within its objectives."""
        ttft, itl = self.ttft, self.itl
        return ttft is not None and itl is not None and self.request.client.met(ttft, itl, self.after)

    @property
    def tokens(self) -> int:
        """Prefill and output tokens the engine computed for it, recomputed ones included."""
        return 0 if self.job is None else self.job.prefilled + self.job.generated

    @property
    def usage(self) -> Cost:
        """What a backend says at the end of a complete answer: the tokens it counted."""
        request = self.request
        return Cost(
            input_tokens=request.prompt_tokens, output_tokens=request.output_tokens, cached_tokens=request.cached
        )

    def started(self, now: float) -> Job:
        """It was let in: the job for the engine."""
        self.entered = now
        request = self.request
        self.job = Job(request.prompt_tokens, request.output_tokens, tag=self, cached_tokens=request.cached)
        return self.job

    def ended(self, fate: Fate, now: float, reason: str | None = None) -> None:
        """It is over."""
        self.fate, self.over, self.reason = fate, now, reason

    def __repr__(self) -> str:
        return f"<Record {self.request.client.name} at {self.request.at:g}: {self.fate.value} after {self.after:.3g} s>"


Progress = Callable[[int, int], None]
"""Told, now and then, how many requests are over and how many there are."""


def patience_of(request: Request, until: float = inf) -> tuple[float, float]:
    """When its client leaves, and when it does so without a first token; absolute, at most `until`."""
    client, at = request.client, request.at
    return min(at + client.leaves, until), min(at + client.leaves_without_first, until)


def offered(requests: Sequence[Request], until: float | None, tells: str) -> tuple[list[Record], float]:
    """A record of each request that a replay offers, and when it ends: the arguments of a replay, checked.

    Raises ConfigurationError for arrivals that do not ascend, and for an `until` or a `tells` that makes no sense.
    """
    if tells not in ("streams", "ends"):
        raise ConfigurationError(f'tells must be "streams" or "ends", not {tells!r}', path="tells")
    if until is not None and (not is_number(until) or not until >= 0):
        raise ConfigurationError(f"until must be a number of seconds, 0 or more, not {until!r}", path="until")
    end = inf if until is None else float(until)
    before = -inf
    for request in requests:
        if not before <= request.at < inf:
            raise ConfigurationError(
                f"requests must ascend in time, but {before:g} s is followed by {request.at:g} s; sort them by `at`",
                path="requests",
            )
        before = request.at
    return [Record(request) for request in requests if request.at < end], end


def counted(total: int, progress: Progress | None) -> Callable[[], None]:
    """To be called at each request that is over; tells `progress` now and then, and at the last."""
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if progress is not None and (done % 16 == 0 or done == total):
            progress(done, total)

    return one_more
