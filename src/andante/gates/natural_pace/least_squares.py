"""Straight lines that forget."""

from __future__ import annotations


class Line:
    """Weighted least squares of y over x, whose past can be made to fade."""

    __slots__ = ("w", "x", "xx", "xy", "y")

    def __init__(self) -> None:
        self.w = self.x = self.y = self.xx = self.xy = 0.0

    def add(self, x: float, y: float, weight: float = 1.0) -> None:
        """A point."""
        many = weight * x
        self.w += weight
        self.x += many
        self.y += weight * y
        self.xx += many * x
        self.xy += many * y

    def fade(self, kept: float) -> None:
        """What is there counts `kept` times as much as before."""
        self.w *= kept
        self.x *= kept
        self.y *= kept
        self.xx *= kept
        self.xy *= kept

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
