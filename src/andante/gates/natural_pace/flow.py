"""What is going on at one backend, as whoever starts the calls and relays the streams can see it."""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING

from andante.values import Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.service import ServiceClass
    from andante.values import Outcome

_LEARN = 0.05  # weight of a new call in the averages of a class
_UNTOLD = 256.0  # output tokens of a call that reserves none
_QUIET = 2  # calls in a row without a word before their end: that class does not stream
_MOST = 1e9  # tokens that a call counts at most: sums stay finite
_PACE = 10.0  # seconds: the memory of the pace that is told


class Stream:
    """One call inside."""

    __slots__ = ("ahead", "expected", "number", "prompt", "rank", "started", "third", "tokens", "trail")

    def __init__(self, number: int, rank: int, prompt: float, expected: float, ahead: float, started: float) -> None:
        self.number = number
        self.rank = rank
        self.prompt = prompt
        self.expected = expected
        self.ahead = ahead  # prompt tokens in front of it when it started, its own included
        self.started = started
        self.tokens = 0.0
        self.trail = (-inf, -inf, -inf)  # the times of its last three chunks, the latest last


class Lengths:
    """How long the answers of one class get."""

    __slots__ = ("mean", "quantile", "quiet", "seen")

    def __init__(self) -> None:
        self.mean = self.quantile = 0.0
        self.seen = 0
        self.quiet = 0  # calls in a row that told nothing before their end

    def reserve(self, tokens: float) -> None:
        """Before the first has ended: what it asked for."""
        if not self.mean:
            self.mean, self.quantile = (tokens or _UNTOLD) / 4, tokens or _UNTOLD

    def learn(self, tokens: float) -> None:
        """One more answer."""
        self.seen += 1
        self.mean += _LEARN * (tokens - self.mean)
        self.quantile *= exp(_LEARN * (0.95 if tokens > self.quantile else -_LEARN))


def told_tokens(entry: Entry, outcome: Outcome) -> float:
    """The output tokens that the backend said the call took; 0 where it said nothing, and the estimate stands."""
    cost = outcome.cost
    return cost.output_tokens if cost is not None and cost is not entry.cost else 0.0


class Rate:
    """Calls and output tokens a second, of those that ended in the last 10 s or so."""

    __slots__ = ("_at", "_calls", "_since", "_tokens")

    def __init__(self) -> None:
        self._calls = self._tokens = 0.0
        self._since = self._at = -inf

    def add(self, tokens: float, now: float) -> None:
        """A call with so many output tokens has ended."""
        if self._since == -inf:
            self._since = self._at = now
        kept = exp(-max(0.0, now - self._at) / _PACE)
        self._calls, self._tokens, self._at = self._calls * kept + 1, self._tokens * kept + tokens, max(now, self._at)

    def per_second(self, now: float) -> tuple[float, float]:
        """Calls and tokens a second at `now`; zeros before anything has ended."""
        if self._since == -inf:
            return 0.0, 0.0
        kept = exp(-max(0.0, now - self._at) / _PACE)
        seen = _PACE * (1 - exp(-max(now - self._since, 1.0) / _PACE))  # less was seen than is remembered, at first
        return self._calls * kept / seen, self._tokens * kept / seen


class Flow:
    """Calls started and not ended, their prompts and expected answers.

    Attributes:
        streams: by entry, in the order of their starts.
        opening: those without a first result, in that order.
        ahead: prompt tokens of those, and of such that left and may still be in the backend's way.
        size: prompt and expected output tokens of all inside.
        chunk: output tokens per chunk, where usage tells.
        quiet: calls in a row that ended without a word before.
        done: calls and tokens a second.
    """

    def __init__(self) -> None:
        self.streams: dict[Entry, Stream] = {}
        self.opening: dict[Entry, Stream] = {}
        self.ghosts: list[tuple[int, float, float]] = []  # (number, prompt, gone by) of such that left early
        self.ahead = 0.0
        self.size = 0.0
        self.chunk = 1.0
        self.per_token = 0.0  # seconds per output token of finished calls
        self.lengths: list[Lengths] = [Lengths()]
        self.quiet = 0  # calls of any class in a row that ended without a word before
        self.done = Rate()
        self._number = 0
        self._chunks = 0

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        """These classes come here, in rank order."""
        self.lengths += [Lengths() for _ in range(len(classes) - len(self.lengths))]

    @property
    def inside(self) -> int:
        """Calls started and not ended."""
        return len(self.streams)

    def lengths_of(self, rank: int) -> Lengths:
        """How long the answers of the class of that rank get."""
        return self.lengths[min(rank, len(self.lengths) - 1)]

    def prompt(self, entry: Entry) -> float:
        """The prompt of `entry`, in tokens (or whatever its size is told in)."""
        return min(entry.cost.size, _MOST)

    def expects(self, entry: Entry) -> float:
        """The output tokens that its class makes us expect."""
        lengths = self.lengths_of(entry.rank)
        return min(lengths.mean or (entry.cost.output_tokens or _UNTOLD) / 4, _MOST)

    def ahead_at(self, now: float) -> float:
        """`ahead`, less the ghosts that are gone by `now`."""
        return self.ahead - sum(prompt for _, prompt, gone in self.ghosts if gone <= now) if self.ghosts else self.ahead

    def enter(self, entry: Entry, now: float) -> Stream:
        """`entry` has started."""
        if self.ghosts:
            self.lay(now)  # else they would count in what is ahead of it, and pile up while no first result comes
        self._number += 1
        prompt = self.prompt(entry)
        expected = self.expects(entry)
        self.ahead += prompt
        self.size += prompt + expected
        stream = Stream(self._number, entry.rank, prompt, expected, self.ahead, now)
        self.streams[entry] = self.opening[entry] = stream
        return stream

    def silent(self, entry: Entry) -> bool:
        """Whether calls of its class come back whole, without a word before."""
        return self.lengths_of(entry.rank).quiet >= _QUIET

    def unseen(self, entry: Entry, until: float) -> None:
        """Its first result will not be seen: its prompt is in the way `until` then."""
        stream = self.opening.pop(entry)
        self.ghosts.append((stream.number, stream.prompt, until))

    def first(self, entry: Entry, now: float) -> Stream | None:
        """Its first result has come: its prompt, and those of ghosts that came before it, are out of the way."""
        self.quiet = self.lengths_of(entry.rank).quiet = 0
        stream = self.opening.pop(entry, None)
        if stream is None:
            return None  # it was not expected to tell; it will count from now on
        self.ahead -= stream.prompt
        if self.ghosts:
            self.lay(now, before=stream.number)
        if not self.opening and not self.ghosts:
            self.ahead = 0.0  # no drift of rounding
        return stream

    def lay(self, now: float, before: int = 0) -> None:
        """Ghosts that came before that number, or whose time has passed, are gone."""
        stay = [ghost for ghost in self.ghosts if ghost[0] >= before and ghost[2] > now]
        self.ahead -= sum(ghost[1] for ghost in self.ghosts) - sum(ghost[1] for ghost in stay)
        self.ghosts = stay

    def leave(self, entry: Entry, outcome: Outcome | None, now: float, haunts: float = 0.0) -> Stream | None:
        """`entry` has left. Without a first result its prompt may stay in the backend's way for `haunts` seconds."""
        stream = self.streams.pop(entry, None)
        if stream is None:
            return None
        self.size -= stream.prompt + stream.expected
        stays = haunts > 0 and (outcome is None or outcome.ending is not Ending.DONE)
        if self.opening.pop(entry, None) is not None:
            if stays:
                self.ghosts.append((stream.number, stream.prompt, now + haunts))
            else:
                self.ahead -= stream.prompt
        elif self.ghosts and not stays:
            mine = [ghost for ghost in self.ghosts if ghost[0] == stream.number]
            if mine:
                self.ghosts.remove(mine[0])
                self.ahead -= stream.prompt
        if not self.streams:
            self.size = 0.0
        if outcome is not None:
            self._learn(entry, stream, outcome, now)
        return stream

    def _learn(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        if not stream.tokens and outcome.ending is Ending.DONE:
            self.quiet += 1
            self.lengths_of(stream.rank).quiet += 1
        items = outcome.items or 0.0
        told = told_tokens(entry, outcome)
        tokens = told or items
        if outcome.ending is Ending.DONE:
            self.done.add(tokens, now)
        if tokens <= 0:
            return
        lengths = self.lengths_of(stream.rank)
        lengths.reserve(entry.cost.output_tokens)
        lengths.learn(tokens)
        if told and items:
            self._chunks += 1
            self.chunk += max(_LEARN, 1 / self._chunks) * (told / items - self.chunk)
        if tokens > 1 and outcome.ttft is not None and outcome.seconds is not None:
            pace = (outcome.seconds - outcome.ttft) / (tokens - 1)
            self.per_token = self.per_token + _LEARN * (pace - self.per_token) if self.per_token else pace
