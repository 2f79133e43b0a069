"""How long a step of the backend takes, learned from nothing but calls that have ended."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from andante.gates.natural_pace.nnls import nonnegative

if TYPE_CHECKING:
    from collections.abc import Sequence

COLD = 24  # ended calls before the law is more than a guess
_PRIOR = (15e-3, 50e-6, 50e-9, 100e-6)  # seconds: a step, per call inside, per token inside, per prefill token
_TRUST, _TRUST_LOADED = 0.001, 1.0  # the prior, or what was loaded, counts as much as so many ended calls
_KEPT = 0.998  # forgetting, per ended call
_EVERY = 8  # ended calls between two solutions, later
_DRIFT, _LEAST, _MOST = 0.2, 0.25, 4.0  # of the correction
_SHORTEST = 1e-6  # seconds
_CHUNK = 2048.0  # prompt tokens in one step, as engines of today are set


class StepLaw:
    """seconds of a step = corr * (t0 + t1 n + t2 size + t3 prefill tokens in it).

    A call with O output tokens that took T seconds, while n calls and `size` tokens were inside on average and D prompt
    tokens were prefilled, says T / corr = t0 O + t1 n O + t2 size O + t3 D. The four are nonnegative least squares over
    such rows, of relative errors: each is divided by what was expected of it, but by no less than a third and no more
    than three times what it took. Sums fade by 0.2 % a call. `corr` follows a drift sooner than they forget.

    No single call can spoil it: the longer one took beyond three times what was expected, the less it counts, and one
    that took nothing at all weighs as much as four.

    Attributes:
        t: (t0, t1, t2, t3) in seconds.
        corr: factor on all of them, 0.25 to 4.
        ended: calls learned from.
    """

    def __init__(self) -> None:
        self.t = _PRIOR
        self.corr = 1.0
        self.ended = 0
        self._prior = _PRIOR
        self._trust = _TRUST
        self._a = [[0.0] * 4 for _ in range(4)]
        self._b = [0.0] * 4

    def base(self, n: float, size: float) -> float:
        """Seconds of a step without prefill, with `n` calls of `size` tokens inside; a microsecond at least."""
        t = self.t
        return max(_SHORTEST, self.corr * (t[0] + t[1] * n + t[2] * size))

    def company(self, n: float, size: float) -> float:
        """The share of such a step that is there because of the calls: 0 to 1."""
        t0, t1, t2, _ = self.t
        company = t1 * n + t2 * size
        return company / (t0 + company) if company > 0 else 0.0

    @property
    def per_prefill(self) -> float:
        """Seconds that a prompt token adds to the step in which it is prefilled."""
        return self.corr * self.t[3]

    def per_prompt(self, base: float) -> float:
        """Seconds for which a prompt token keeps those behind it waiting: its own, and its share of the step."""
        return self.per_prefill + base / _CHUNK

    def learn(self, output: float, n: float, size: float, prefilled: float, took: float) -> None:
        """A call has ended: its output tokens, means over its life, tokens prefilled in that time, and its seconds."""
        row = (output, n * output, size * output, prefilled)
        expected = sum(t * x for t, x in zip(self.t, row, strict=True))
        then = took / self.corr  # what it would have taken without the drift
        if not (then > 0 and expected > 0 and isfinite(then) and isfinite(expected)):
            return
        by = min(max(expected, then / 3), max(3 * then, expected / 2))
        x0, x1, x2, x3 = x = [p * value / by for p, value in zip(_PRIOR, row, strict=True)]
        if not x0 + x1 + x2 + x3 < 1e6:
            return  # it would drown every other
        self.ended += 1
        y = then / by
        for i, value in enumerate(x):
            self._b[i] = self._b[i] * _KEPT + value * y
            sums = self._a[i]
            sums[0] = sums[0] * _KEPT + value * x0
            sums[1] = sums[1] * _KEPT + value * x1
            sums[2] = sums[2] * _KEPT + value * x2
            sums[3] = sums[3] * _KEPT + value * x3
        if self.ended > COLD:
            error = min(2.0, max(0.5, then / expected))
            self.corr = min(_MOST, max(_LEAST, self.corr * error**_DRIFT))
        if self.ended <= COLD or self.ended % _EVERY == 0:
            self._solve()

    def restore(self, t: Sequence[float], ended: int) -> None:
        """Begin with what was learned before; nonsense is ignored."""
        if len(t) == 4 and all(isfinite(value) and 0 <= value < 1e3 for value in t) and any(t[:3]):
            self.t = self._prior = (float(t[0]), float(t[1]), float(t[2]), float(t[3]))
            self._trust = _TRUST_LOADED
            self.ended = ended

    def _solve(self) -> None:
        trust = self._trust
        ridge = [[value + trust * (i == j) for j, value in enumerate(row)] for i, row in enumerate(self._a)]
        right = [value + trust * t / p for value, t, p in zip(self._b, self._prior, _PRIOR, strict=True)]
        t0, t1, t2, t3 = (p * x for p, x in zip(_PRIOR, nonnegative(ridge, right), strict=True))
        if t0 + t1 + t2 > 0 and isfinite(t0 + t1 + t2 + t3):
            self.t = (t0, t1, t2, t3)
