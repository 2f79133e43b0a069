"""Straight lines that forget."""

from __future__ import annotations


class Line:
    """Weighted least squares of y over x, whose past fades by whatever factor each new point brings."""

    __slots__ = ("w", "x", "xx", "xy", "y")

    def __init__(self) -> None:
        self.w = self.x = self.y = self.xx = self.xy = 0.0

    def add(self, x: float, y: float, kept: float, weight: float = 1.0) -> None:
        """A point; what was there counts `kept` times as much as before."""
        self.w = self.w * kept + weight
        self.x = self.x * kept + weight * x
        self.y = self.y * kept + weight * y
        self.xx = self.xx * kept + weight * x * x
        self.xy = self.xy * kept + weight * x * y

    def varies(self) -> bool:
        """Whether x has varied: its variance is over 1 % of the mean of its squares."""
        return self.w > 0 and self.xx * self.w - self.x * self.x > 0.01 * self.xx * self.w

    def slope(self) -> float:
        """dy/dx. Only where x varies."""
        return (self.w * self.xy - self.x * self.y) / (self.w * self.xx - self.x * self.x)

    def mean_x(self) -> float:
        """The weighted mean of x."""
        return self.x / self.w

    def mean_y(self) -> float:
        """The weighted mean of y."""
        return self.y / self.w
