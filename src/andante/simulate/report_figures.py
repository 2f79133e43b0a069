"""Line and bar charts as SVG, drawn by hand: axes, lines, markers, whiskers. No style but class names."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    _Place = Callable[[float], float]

COLOURS = 7
"""Colours that the style sheet knows, as the classes c0, c1, ...; more lines than that differ by their dashes."""

_DASHES = ("", "8 3", "4 2", "10 3 2 3")


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a plot.

    Attributes:
        low, high: what it shows; above 0 where `log`.
        label: with the unit.
        log: whether equal steps are equal ratios.
        percent: ticks of a share are written in per cent.
    """

    low: float
    high: float
    label: str
    log: bool = False
    percent: bool = False

    def place(self, value: float) -> float:
        """Where `value` stands, 0 at `low` and 1 at `high`; kept within."""
        if self.log:
            share = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers, at most about `most` of them."""
        if self.log:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            fine = [m * 10.0**d for d in decades for m in (1, 2, 5)]
            coarse = [10.0**d for d in decades]
            within = [t for t in fine if self.low * 0.999 <= t <= self.high * 1.001]
            if len(within) > most:
                within = [t for t in coarse if self.low * 0.999 <= t <= self.high * 1.001]
            return within
        step = _round((self.high - self.low) / most)
        first = ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, floor(self.high / step + 1e-9) + 1)]

    def text(self, tick: float) -> str:
        """How a tick is written."""
        return f"{100 * tick:g}" if self.percent else f"{tick:,g}" if abs(tick) < 10_000 else f"{tick:,.0f}"


def from_zero(values: Iterable[float | None], label: str) -> Axis:
    """An axis from 0 to a round number at or above the largest of `values`."""
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    step = _round(top / 4)
    return Axis(0.0, ceil(top / step - 1e-9) * step, label)


def ratios(values: Iterable[float], label: str, least: float = 1e-3) -> Axis:
    """A logarithmic axis around `values`, from `least` at the lowest."""
    known = [max(value, least) for value in values] or [least, 10 * least]
    low, high = min(known), max(known)
    low = 10.0 ** floor(log10(low) + 1e-9) * _below(low / 10.0 ** floor(log10(low) + 1e-9))
    return Axis(low, max(high, low * 10), label, log=True)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot.

    Attributes:
        name: for whoever points at it.
        points: (x, y); a y of None breaks the line.
        colour: its number; decides the dashes too.
        marked: a marker at each point, with its numbers for whoever points at it.
        whiskers: (x, least, most) at each point.
        steps: holds its value until the next point.
        faint: in the background, for comparison.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: int
    marked: bool = False
    whiskers: Sequence[tuple[float, float, float]] = ()
    steps: bool = False
    faint: bool = False


def plot(
    lines: Sequence[Line], x: Axis, y: Axis, *, title: str, width: int = 400, height: int = 250,
    at: Sequence[tuple[float, str]] = (),
) -> str:  # fmt: skip
    """The lines in a frame with axes. `at`: upright marks with a word each, such as an objective."""
    left, right, top, bottom = 46, 12, 26, 40

    def px(value: float) -> float:
        return left + x.place(value) * (width - left - right)

    def py(value: float) -> float:
        return height - bottom - y.place(value) * (height - top - bottom)

    floor_, roof, end = height - bottom, top, width - right
    out = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    out.append(f'<text class="title" x="{left}" y="15">{escape(title)}</text>')
    for tick in y.ticks(5):
        out.append(f'<path class="grid" d="M{left} {py(tick):.1f}H{end}"/>')
        out.append(f'<text class="tick" text-anchor="end" x="{left - 5}" y="{py(tick) + 4:.1f}">{y.text(tick)}</text>')
    for tick in x.ticks():
        out.append(f'<path class="grid" d="M{px(tick):.1f} {roof}V{floor_}"/>')
        out.append(
            f'<text class="tick" text-anchor="middle" x="{px(tick):.1f}" y="{floor_ + 14}">{x.text(tick)}</text>'
        )
    out.append(f'<path class="axis" d="M{left} {roof}V{floor_}H{end}"/>')
    middle = (left + end) / 2
    out.append(f'<text class="label" text-anchor="middle" x="{middle:.0f}" y="{height - 8}">{escape(x.label)}</text>')
    up = (roof + floor_) / 2
    out.append(
        f'<text class="label" text-anchor="middle" transform="translate(11 {up:.0f}) rotate(-90)">'
        f"{escape(y.label)}</text>"
    )
    for line in lines:
        out += _line(line, px, py, x, y)
    for value, word in at:
        if x.low <= value <= x.high:
            out.append(f'<path class="goal" d="M{px(value):.1f} {roof}V{floor_}"/>')
            side = "end" if px(value) > middle else "start"
            shift = -4 if side == "end" else 4
            out.append(
                f'<text class="tick word" text-anchor="{side}" x="{px(value) + shift:.1f}" y="{floor_ - 5}">'
                f"{escape(word)}</text>"
            )
    out.append("</svg>")
    return "".join(out)


def bars(rows: Sequence[tuple[str, float, float, float]], x: Axis, *, title: str, width: int = 400) -> str:
    """A bar for each row (name, value, least, most), with a whisker from least to most."""
    left, right, top, each = 116, 14, 26, 24
    height = top + each * len(rows) + 40
    floor_ = height - 40

    def px(value: float) -> float:
        return left + x.place(value) * (width - left - right)

    out = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    out.append(f'<text class="title" x="{left}" y="15">{escape(title)}</text>')
    for tick in x.ticks():
        out.append(f'<path class="grid" d="M{px(tick):.1f} {top}V{floor_}"/>')
        out.append(
            f'<text class="tick" text-anchor="middle" x="{px(tick):.1f}" y="{floor_ + 14}">{x.text(tick)}</text>'
        )
    for place, (name, value, least, most) in enumerate(rows):
        y = top + each * place + each / 2
        short = name if len(name) <= 17 else name[:8] + "…" + name[-8:]
        out.append(f'<text class="tick" text-anchor="end" x="{left - 5}" y="{y + 4:.1f}">{escape(short)}</text>')
        out.append(
            f'<rect class="fill c{place % COLOURS}" x="{left}" y="{y - 7:.1f}" width="{px(value) - left:.1f}" '
            f'height="14">'
            f"<title>{escape(name)}: {x.text(value)}</title></rect>"
        )
        if most > least:
            out.append(f'<path class="whisker" d="M{px(least):.1f} {y:.1f}H{px(most):.1f}"/>')
    out.append(f'<path class="axis" d="M{left} {top}V{floor_}H{width - right}"/>')
    middle = (left + width - right) / 2
    out.append(f'<text class="label" text-anchor="middle" x="{middle:.0f}" y="{height - 8}">{escape(x.label)}</text>')
    out.append("</svg>")
    return "".join(out)


def key(name: str, colour: int, *, marked: bool = False, faint: bool = False) -> str:
    """A piece of a legend: a bit of the line, and its name."""
    mark = _marker(colour, 14, 7) if marked else ""
    return (
        f'<span class="key"><svg viewBox="0 0 28 14" aria-hidden="true">'
        f'<path class="{_classes(colour, faint)}"{_dash(colour)} d="M0 7H28"/>{mark}</svg>{escape(name)}</span>'
    )


def _line(line: Line, px: _Place, py: _Place, x: Axis, y: Axis) -> Iterator[str]:
    path, pen = "", "M"
    for at, value in line.points:
        if value is None:
            pen = "M"
            continue
        if line.steps and pen == "L":
            path += f"H{px(at):.1f}V{py(value):.1f}"
        else:
            path += f"{pen}{px(at):.1f} {py(value):.1f}"
        pen = "L"
    name = escape(line.name)
    for at, least, most in line.whiskers:
        if most > least:
            yield f'<path class="whisker c{line.colour % COLOURS}" d="M{px(at):.1f} {py(least):.1f}V{py(most):.1f}"/>'
    if path:
        style = f'class="{_classes(line.colour, line.faint)}"{_dash(line.colour)}'
        yield f'<path {style} d="{path}"><title>{name}</title></path>'
    if line.marked:
        for at, value in line.points:
            if value is not None:
                said = f"<title>{name}: {y.text(round(value, 4))} at {x.text(at)}</title>"
                yield _marker(line.colour, px(at), py(value), said)


def _marker(colour: int, x: float, y: float, said: str = "") -> str:
    """Circle, square, triangle and diamond in turn, so that colour is not all that tells lines apart."""
    style = f'class="fill c{colour % COLOURS}"'
    kind = colour % 4
    if kind == 0:
        return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="4">{said}</circle>'
    shape = ("", "M-4 -4H4V4H-4Z", "M0 -5L5 4H-5Z", "M0 -5.5L5.5 0L0 5.5L-5.5 0Z")[kind]
    return f'<path {style} transform="translate({x:.1f} {y:.1f})" d="{shape}">{said}</path>'


def _classes(colour: int, faint: bool) -> str:
    return "line faint" if faint else f"line c{colour % COLOURS}"


def _dash(colour: int) -> str:
    dash = _DASHES[(colour % COLOURS + colour // COLOURS) % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _round(step: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten at or above `step`."""
    power = 10.0 ** floor(log10(step))
    return next(m for m in (1, 2, 2.5, 5, 10) if m * power >= step * (1 - 1e-9)) * power


def _below(value: float) -> float:
    return 5.0 if value >= 5 else 2.0 if value >= 2 else 1.0
