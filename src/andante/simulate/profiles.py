"""What one engine can do, as eight numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from andante.errors import ConfigurationError
from andante.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """The timing and the room of one continuous-batching engine.

    A step with P prefill tokens and B decoding sequences, which hold K tokens of context, takes

        a + b*P + c*B + d*K + e*Q     ms,    Q = sum over prefill chunks of chunk * (context before + chunk / 2)

    Attributes:
        a: ms a step takes at least (weights read, launches).
        b: ms per prefill token.
        c: ms per decoding sequence.
        d: ms per token of context that a decoding sequence reads from the KV cache.
        e: ms per (prefill token x token of context): attention's quadratic part; 0 leaves it out.
        kv: KV cache capacity in tokens.
        seqs: most sequences running at once (vLLM's `max_num_seqs`).
        mbt: most tokens in one step (vLLM's `max_num_batched_tokens`); at least `seqs`, as vLLM itself demands.

    Raises ConfigurationError when a time is negative or not finite, `a` is 0, or a size is not a whole number above 0.
    """

    a: float
    b: float
    c: float
    d: float
    e: float
    kv: int
    seqs: int
    mbt: int

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            path = f"EngineProfile.{item.name}"
            if item.name in ("kv", "seqs", "mbt"):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ConfigurationError(f"{path} must be a whole number above 0, not {value!r}", path=item.name)
            elif not is_number(value) or not isfinite(value) or value < 0:
                raise ConfigurationError(f"{path} must be a finite number of ms >= 0, not {value!r}", path=item.name)
        if self.a == 0:
            raise ConfigurationError("EngineProfile.a must be above 0 ms: a step cannot take no time", path="a")
        if self.mbt < self.seqs:
            raise ConfigurationError(
                f"EngineProfile.mbt must be at least seqs ({self.seqs}), not {self.mbt}: every running sequence may "
                "need one token in a step",
                path="mbt",
            )

    def step_ms(self, prefill: int, decoding: int, context: int, pairs: float = 0.0) -> float:
        """The time of one step in ms, by the formula above (P, B, K, Q)."""
        return self.a + self.b * prefill + self.c * decoding + self.d * context + self.e * pairs


PROFILES: Mapping[str, EngineProfile] = MappingProxyType(
    {
        "a100-8b": EngineProfile(a=11.0, b=0.064, c=0.039, d=8.1e-5, e=1.6e-6, kv=456_000, seqs=256, mbt=2048),
        "h100-8b": EngineProfile(a=6.9, b=0.022, c=0.012, d=4.1e-5, e=7.3e-7, kv=456_000, seqs=256, mbt=2048),
        "h100x4-70b": EngineProfile(a=16.0, b=0.068, c=0.03, d=2.4e-5, e=9.3e-7, kv=496_000, seqs=256, mbt=2048),
        "rtx4090-8b": EngineProfile(a=16.5, b=0.085, c=0.045, d=1.4e-4, e=5e-6, kv=41_408, seqs=256, mbt=2048),
        "h100-7b-mha": EngineProfile(a=6.1, b=0.0205, c=0.01, d=1.8e-4, e=7.4e-7, kv=119_008, seqs=256, mbt=4096),
        "rtxpro6000-8b": EngineProfile(a=10.89, b=0.03, c=0.03, d=1.12e-4, e=0.0, kv=530_000, seqs=128, mbt=2048),
        "vllm-cpu": EngineProfile(a=1.7, b=0.03, c=0.2, d=0.0, e=0.0, kv=65_536, seqs=64, mbt=2048),
    }
)
"""Calibrated engines, one GPU each unless the name says more. What each was checked against:

- `h100-7b-mha`, Llama-2-7B, H100: a real vLLM run (282 requests, light load), nothing tuned to it.
- `rtx4090-8b`, Llama-3.1-8B, RTX 4090, little KV: a real vLLM run (300 requests at 10/s, KV full); coefficients from
  kernel measurements, rounded.
- `rtxpro6000-8b`, Llama-3.1-8B, RTX PRO 6000: `a` and `d` were *tuned* to the one real run it is compared with, so its
  agreement there is a fit, not a test.
- `a100-8b`, `h100-8b`, Llama-3-8B in bf16: composed from measured parts (linear layers and attention kernels; `d` and
  `e` of the A100 by scaling), never compared with a run as a whole.
- `h100x4-70b`, Llama-70B on four H100: decode from real runs, prefill composed; not compared as a whole.
- `vllm-cpu`, a model of 0.7 M weights under vLLM on two CPU cores: gaps between tokens measured with 1, 32 and 64
  calls inside (1.9, 8.9 and 14 ms); not compared as a whole.

`python -m andante.simulate.validate FOLDER` prints the comparison with the real runs. Near saturation queueing
amplifies any error of a profile, so compare policies on the same profile; do not read seconds off it.
"""


def profile(name: str) -> EngineProfile:
    """The profile called `name`. Raises ConfigurationError that lists the names there are."""
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        raise ConfigurationError(
            f"no engine profile {name!r}; there are {', '.join(PROFILES)}", path="profile"
        ) from None
