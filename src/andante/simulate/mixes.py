"""Mixes of calls: classes of clients, each with the lengths of its prompts and answers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import exp, inf, isfinite, log
from types import MappingProxyType
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.simulate.workload import ClientClass
from andante.values import is_number

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

LONGEST = 8192
"""Tokens that a prompt or an answer has at most, unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal numbers of tokens.

    Attributes:
        prompt, output: medians.
        prompt_sigma, output_sigma: standard deviations of the logarithm (natural); 0: always the median.
        longest_prompt, longest_output: longer ones are cut to these.
    """

    prompt: float
    prompt_sigma: float
    output: float
    output_sigma: float
    _: KW_ONLY
    longest_prompt: int = LONGEST
    longest_output: int = LONGEST

    def __post_init__(self) -> None:
        for name in ("prompt", "output", "longest_prompt", "longest_output"):
            value = getattr(self, name)
            if not is_number(value) or not 1 <= value < inf:
                raise ConfigurationError(f"Lengths.{name} must be at least 1 token, not {value!r}", path=name)
        for name in ("prompt_sigma", "output_sigma"):
            value = getattr(self, name)
            if not is_number(value) or not isfinite(value) or value < 0:
                raise ConfigurationError(f"Lengths.{name} must be finite and >= 0, not {value!r}", path=name)

    def draw(self, source: random.Random, longer: float = 1.0) -> tuple[int, int]:
        """A prompt's and an answer's tokens, the answer `longer` times as long as usual."""
        prompt = _length(source, self.prompt, self.prompt_sigma, 1.0, self.longest_prompt)
        return prompt, _length(source, self.output, self.output_sigma, longer, self.longest_output)


def _length(source: random.Random, median: float, sigma: float, longer: float, longest: int) -> int:
    exponent = log(median * longer) + source.gauss(0.0, sigma)
    return longest if exponent > log(longest) else max(1, round(exp(exponent)))


Mix = tuple[tuple[ClientClass, Lengths], ...]
"""Classes from the most urgent to the least, each with its lengths."""


def _chat(interactive: Lengths, standard: Lengths, batch: Lengths, *, itl: float = 0.06) -> Mix:
    return (
        (ClientClass("interactive", share=50, value=3, ttft=1.0, itl=itl, leaves_without_first=10.0), interactive),
        (ClientClass("standard", share=30, value=2, e2e=30.0, leaves=60.0), standard),
        (ClientClass("batch", share=20, value=1, e2e=600.0), batch),
    )


def _small(itl: float) -> Mix:
    return (
        (ClientClass("interactive", share=50, value=3, ttft=1.0, itl=itl, leaves_without_first=10.0),
         Lengths(50, 0.6, 40, 0.6)),
        (ClientClass("standard", share=30, value=2, e2e=15.0, leaves=60.0), Lengths(110, 0.6, 60, 0.6)),
        (ClientClass("batch", share=20, value=1, e2e=120.0), Lengths(200, 0.6, 90, 0.6)),
    )  # fmt: skip


_TALK = (
    Lengths(300, 1.0, 120, 0.8),
    Lengths(700, 1.0, 180, 0.8, longest_output=512),
    Lengths(1000, 0.8, 250, 0.8),
)

MIXES: Mapping[str, Mix] = MappingProxyType(
    {
        "chat": _chat(*_TALK),
        "noitl": _chat(*_TALK, itl=inf),
        "heavy": _chat(Lengths(300, 1.6, 120, 1.3), Lengths(700, 1.6, 180, 1.2), Lengths(1000, 1.4, 250, 1.3)),
        "code": _chat(
            Lengths(1500, 0.8, 30, 0.8), Lengths(2000, 0.8, 60, 0.8, longest_output=512), Lengths(2500, 0.8, 120, 0.8)
        ),
        "offline": (
            (ClientClass("nightly", share=60, e2e=60.0), Lengths(700, 1.0, 180, 0.8)),
            (ClientClass("archive", share=40, e2e=600.0), Lengths(1000, 0.8, 250, 0.8)),
        ),
        "embed": (
            (ClientClass("query", share=60, value=3, ttft=1.0, leaves=10.0), Lengths(60, 0.8, 1, 0.0)),
            (ClientClass("index", share=40, e2e=120.0), Lengths(400, 0.8, 1, 0.0)),
        ),
        "small": _small(itl=0.012),
        "small-batching": _small(itl=0.010),
        "whole": ((ClientClass("call", share=1), Lengths(100, 0.5, 1, 0.0)),),
    }
)
"""The mixes of the policy studies.

- `chat`: the main one. `noitl`: without its objective for gaps. `heavy`: the same medians, heavier tails. `code`: long
  prompts, short answers. `offline`: nobody waits for a first token. `embed`: prompts without answers.
- `small`, `small-batching`: for engines on a CPU (`slots-4`, `vllm-cpu`); medians as used with the real ones, the
  sigmas assumed.
- `whole`: one class, no objectives, answers in one piece: for uniform backends.
"""


def mix(name: str) -> Mix:
    """The mix called `name`. Raises ConfigurationError that lists the mixes there are."""
    try:
        return MIXES[name]
    except (KeyError, TypeError):
        raise ConfigurationError(f"no mix {name!r}; there are {', '.join(MIXES)}", path="mix") from None
