"""The gates: rules about who may go in, and when. One file each."""

from andante.gates.aiolimiter import AioLimiter
from andante.gates.breaker import Breaker
from andante.gates.concurrency import Concurrency, Estimate
from andante.gates.cooldown import Cooldown
from andante.gates.token_bucket import TokenBucket

__all__ = ["AioLimiter", "Breaker", "Concurrency", "Cooldown", "Estimate", "TokenBucket"]
