"""Least squares whose answers are 0 or more: coefficients of times can be nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENOUGH = 1e-10  # a gradient below this is none, for unknowns and right-hand sides of the order of 1


def nonnegative(a: Sequence[Sequence[float]], b: Sequence[float]) -> list[float]:
    """The x >= 0 that minimizes x'Ax / 2 - b'x, by the active-set method of Lawson and Hanson (1974, chapter 23).

    Args:
        a: a symmetric positive definite matrix, such as X'X plus a ridge.
        b: the right-hand side, such as X'y.

    Unlike dropping the most negative coefficient once and for all, it lets one come back, so the answer is the optimum.
    """
    size = len(b)
    x = [0.0] * size
    free: list[int] = []
    for _ in range(3 * size):
        gradient = [b[i] - sum(a[i][j] * x[j] for j in free) for i in range(size)]
        steepest = max((i for i in range(size) if i not in free), key=gradient.__getitem__, default=None)
        if steepest is None or gradient[steepest] <= _ENOUGH * max(1.0, abs(b[steepest])):
            break
        free.append(steepest)
        while free:
            wanted = dict(zip(free, _solve(a, b, free), strict=True))
            if all(value > 0 for value in wanted.values()):
                x = [wanted.get(i, 0.0) for i in range(size)]
                break
            step = min(x[i] / (x[i] - wanted[i]) for i in free if wanted[i] <= 0 and x[i] != wanted[i])
            for i in free:
                x[i] += step * (wanted[i] - x[i])
            stuck = min(free, key=x.__getitem__)
            x[stuck] = 0.0
            free.remove(stuck)
    return x


def _solve(a: Sequence[Sequence[float]], b: Sequence[float], free: Sequence[int]) -> list[float]:
    """The unknowns of `free`, the others 0, by elimination; a positive definite matrix needs no pivots."""
    rows = [[a[i][j] for j in free] + [b[i]] for i in free]
    size = len(rows)
    for k in range(size):
        pivot = rows[k][k]
        for i in range(k + 1, size):
            factor = rows[i][k] / pivot
            for j in range(k, size + 1):
                rows[i][j] -= factor * rows[k][j]
    out = [0.0] * size
    for k in reversed(range(size)):
        out[k] = (rows[k][size] - sum(rows[k][j] * out[j] for j in range(k + 1, size))) / rows[k][k]
    return out
