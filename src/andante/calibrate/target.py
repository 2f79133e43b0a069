"""What is calibrated: something that can be called, one answer each time."""

from __future__ import annotations

import importlib
import inspect
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from andante.calibrate.sample import CallFailed, Effect, Trouble
from andante.ending import classify
from andante.errors import ConfigurationError
from andante.values import Ending

if TYPE_CHECKING:
    from andante.calibrate.sample import Report

_TEXT = (  # words that are about a token each in most vocabularies
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were all her she there would their we him been has when who will no more if out so up said "
    "what its about than into them can only other time new some could these two may first then do any like my now "
    "over such our man me even most made after also did many off before must well back through years where much "
    "your way down should because long each just state those people too good world still see men work here life "
    "both day part high house water "
)
_WORDS = _TEXT.split()


def new_seed() -> int:
    """A seed that no run before had: no cache of the backend knows its prompts."""
    return random.SystemRandom().getrandbits(64)


class Target(Protocol):
    """Something that answers calls."""

    name: str

    async def open(self) -> None:
        """Find out what has to be known before the first call. Raises CallFailed."""

    async def call(self, index: int, report: Report) -> None:
        """Make call number `index` and tell `report` what comes, as it comes.

        Raises CallFailed, or whatever else goes wrong; `trouble_of` says what that means.
        """

    async def close(self) -> None:
        """Nothing will be called any more."""


def prompt(index: int, words: int, seed: int) -> str:
    """`words` short English words, about a token each, unlike those of any other `index` and `seed`."""
    draw = random.Random(f"{seed} {index}")
    return " ".join(draw.choice(_WORDS) for _ in range(max(1, words)))


def trouble_of(error: BaseException) -> Trouble:
    """What an error of a target says: a CallFailed in its own words; else andante's `classify` tells overload."""
    if isinstance(error, CallFailed):
        return error.trouble
    ending, _ = classify(error)
    effect = Effect.PUSHBACK if ending is Ending.OVERLOADED else Effect.FAULT
    return Trouble(type(error).__name__, str(error)[:200], effect)


class FunctionTarget:
    """An async function (whole calls, or one that returns a stream) or an async generator function.

    It is called with a prompt where its first parameter is called `prompt`, without arguments where it has none, else
    with the number of the call (0, 1, ...). Each item of a stream is one token. A whole answer has as many tokens as
    it says: it is an int itself, or has `usage.completion_tokens` like OpenAI's.

    Args:
        function: what to call.
        name: what the report calls it.
        words: length of the prompts, in words.

    Raises:
        ConfigurationError: it is not callable, or needs more than one argument.
    """

    def __init__(self, function: Any, name: str, *, words: int = 128) -> None:
        if not callable(function):
            raise ConfigurationError(f"{name} is {function!r}, not an async function", path="target")
        self.name = name
        self.function = function
        self._words = words
        self._seed = new_seed()
        self.takes = self._parameter(function, name)

    @staticmethod
    def _parameter(function: Any, name: str) -> str | None:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return "index"
        needed = [p for p in parameters if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
        if len(needed) > 1 or any(p.kind is p.KEYWORD_ONLY for p in needed):
            names = ", ".join(p.name for p in needed)
            raise ConfigurationError(f"{name} needs {names}; calibrate gives one argument", path="target")
        places = [p for p in parameters if p.kind not in {p.KEYWORD_ONLY, p.VAR_KEYWORD}]
        return places[0].name if places else None

    async def open(self) -> None:
        """Nothing to find out."""

    async def call(self, index: int, report: Report) -> None:
        answer = self.function(*self.arguments(index))
        if inspect.isawaitable(answer):
            answer = await answer
        elif not hasattr(answer, "__aiter__"):
            said = f"it returned {type(answer).__name__}: calibrate needs an async function or an async generator"
            raise CallFailed(Trouble("not async", said, Effect.FATAL))
        if hasattr(answer, "__aiter__"):
            await _read(answer, report)
        else:
            tokens = getattr(getattr(answer, "usage", None), "completion_tokens", answer)
            if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
                report.usage(float(tokens))

    def arguments(self, index: int) -> tuple[Any, ...]:
        """What it is called with."""
        if self.takes is None:
            return ()
        return (prompt(index, self._words, self._seed) if self.takes == "prompt" else index,)

    async def close(self) -> None:
        """Nothing to close."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


async def _read(stream: Any, report: Report) -> None:
    try:
        async for _ in stream:
            report.item()
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    if report.sample.first is None:
        raise CallFailed(Trouble("empty stream", "it ended without an item"))


def function_target(where: str, *, words: int = 128) -> FunctionTarget:
    """The target `module:function`; the working directory counts as a place of modules.

    Raises:
        ConfigurationError: no such module or function, or it cannot be called like this.
    """
    module, _, path = where.partition(":")
    if not module or not path:
        raise ConfigurationError(f"target must be a URL or module:function, not {where!r}", path="target")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"cannot import {module!r}: {error}", path="target") from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(f"{module!r} has no {path!r}", path="target") from None
    return FunctionTarget(found, where, words=words)
