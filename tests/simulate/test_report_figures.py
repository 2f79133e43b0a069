"""Charts: axes with round numbers, lines that stay in the frame and break where nothing is known."""

from __future__ import annotations

import re
from math import isfinite
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante.simulate.report_figures import Axis, Line, bars, from_zero, key, plot, ratios

POSITIVE = st.floats(1e-6, 1e9)


@given(st.lists(POSITIVE, min_size=1))
def test_an_axis_from_zero(values: list[float]) -> None:
    """All values are on it, it is not much longer than it must be, and has 2 to 8 ticks, all within it."""
    axis = from_zero(values, "calls")
    assert axis.low == 0
    assert max(values) <= axis.high * (1 + 1e-9)
    assert axis.high <= 2 * max(values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(-1e-9 <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    assert [axis.place(value) for value in sorted(values)] == sorted(axis.place(value) for value in values)


@given(st.lists(POSITIVE, min_size=1))
def test_a_logarithmic_axis(values: list[float]) -> None:
    """All values from the least on are on it; equal ratios are equal steps; its ticks are within."""
    axis = ratios(values, "s", least=1e-3)
    shown = [max(value, 1e-3) for value in values]
    assert axis.low <= min(shown) * (1 + 1e-6)
    assert max(shown) <= axis.high * (1 + 1e-9)
    ticks = axis.ticks()
    assert ticks
    assert all(axis.low * 0.99 <= tick <= axis.high * 1.01 for tick in ticks)
    middle = (axis.low * axis.high) ** 0.5
    assert axis.place(middle) == pytest.approx(0.5)
    assert (axis.place(axis.low), axis.place(axis.high)) == (0, pytest.approx(1))


def test_nothing_to_show() -> None:
    """No values, zeros, values that are not known: an axis all the same."""
    for values in ([], [0.0], [None, None]):
        assert from_zero(values, "calls").high > 0
    assert ratios([], "s").high > ratios([], "s").low > 0
    assert ratios([0.0], "s").high > 0


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=30))
def test_lines_stay_in_the_frame(values: list[float | None]) -> None:
    """Whatever the values, the drawing is well-formed and inside its own borders."""
    line = Line('a <b> & "c"', list(enumerate(values)), 3, marked=True)
    x = Axis(0.0, max(1.0, len(values) - 1), "time, s")
    drawn = ET.fromstring(plot([line], x, Axis(0.0, 10.0, "calls"), title="A & B", width=400, height=250))
    paths = [each for each in drawn.iter("path") if each.get("class", "").startswith("line")]
    known = [value for value in values if value is not None]
    assert len(paths) == (1 if known else 0)
    for path in paths:
        assert all(isfinite(number) and 0 <= number <= 400 for number in numbers(path.get("d", "")))
    markers = [each for each in drawn.iter("path") if each.get("class") == "fill c3"]
    assert len(markers) == len(known)


def test_a_line_breaks_where_nothing_is_known() -> None:
    """Two pieces, not a bridge."""
    line = Line("waits", [(0, 1.0), (1, 2.0), (2, None), (3, 1.0), (4, 1.0)], 0)
    drawn = ET.fromstring(plot([line], Axis(0, 4, "s"), Axis(0, 2, "s"), title="waits"))
    (path,) = [each for each in drawn.iter("path") if each.get("class") == "line c0"]
    assert path.get("d", "").count("M") == 2


def test_labels_and_goals() -> None:
    """Both axes say what they are, with the unit; a goal outside the frame is not drawn."""
    x = ratios([0.01, 10.0], "time to first token, s")
    text = plot(
        [Line("a", [(0.1, 0.5)], 0)], x, Axis(0, 1, "of all, %", percent=True), title="t", at=[(1.0, "objective")]
    )
    words = ["".join(each.itertext()) for each in ET.fromstring(text).iter("text")]
    assert {"time to first token, s", "of all, %", "t", "objective", "100", "0.1"} <= set(words)
    assert "objective" not in plot([], x, Axis(0, 1, "y"), title="t", at=[(99.0, "objective")])


def test_bars() -> None:
    """As long as their values; a whisker only where there is a spread; long names are shortened, not cut off."""
    rows = [("static:64", 0.5, 0.5, 0.5), ("some_module.of_mine:a_policy", 1.0, 0.8, 1.0), ("nothing", 0.0, 0.0, 0.0)]
    drawn = ET.fromstring(bars(rows, Axis(0, 1, "served, %", percent=True), title="all"))
    widths = [float(each.get("width", "")) for each in drawn.iter("rect")]
    assert widths[0] == pytest.approx(widths[1] / 2, abs=0.1)
    assert widths[2] == 0
    assert len([each for each in drawn.iter("path") if each.get("class") == "whisker"]) == 1
    assert "some_mod…a_policy" in {each.text for each in drawn.iter("text")}
    assert "some_module.of_mine:a_policy: 100" in {each.text for each in drawn.iter("title")}


def test_colour_is_not_all_that_tells_lines_apart() -> None:
    """28 lines: no two have both the same colour and the same dashes; the key shows what the line looks like."""
    looks = set()
    for number in range(28):
        (path,) = ET.fromstring(key("a", number)).iter("path")
        looks.add((path.get("class"), path.get("stroke-dasharray")))
        line = plot([Line("a", [(0, 0.0), (1, 1.0)], number)], Axis(0, 1, "x"), Axis(0, 1, "y"), title="t")
        dash = path.get("stroke-dasharray")
        assert (f'stroke-dasharray="{dash}"' in line) == (dash is not None)
    assert len(looks) == 28
