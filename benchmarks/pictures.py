"""Draws the pictures of docs/explanation/pace.md from the engine model: python -m benchmarks.pictures

What one engine does at each number in flight, and what policies serve as the load grows. Seconds on one core.
"""

from __future__ import annotations

from pathlib import Path

from andante.simulate import Arrival, Trace, saturated
from andante.simulate.report_figures import Axis, Line, from_zero, plot
from benchmarks.pace import reached
from benchmarks.pace_grid import Cell

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
INSIDE = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
LOADS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
POLICIES = {"none": "no control", "static-160": "160 at once", "static-80": "80 at once", "natural": "NaturalPace"}
STYLE = """<style>
svg { background: #fff; font-family: system-ui, sans-serif } text { fill: #1b1f24; font-size: 12px }
.tick { fill: #59636e; font-size: 11px } .title { font-weight: 600; font-size: 13px }
.word { paint-order: stroke; stroke: #fff; stroke-width: 4px }
.grid { stroke: #e9ecef; fill: none } .axis { stroke: #59636e; fill: none }
.goal { stroke: #1b1f24; fill: none; stroke-dasharray: 4 3 } .line { fill: none; stroke-width: 2 }
.line.c0 { stroke: #0072b2 } .line.c1 { stroke: #d55e00 } .line.c2 { stroke: #009e73 } .line.c3 { stroke: #b5559a }
.fill.c0 { fill: #0072b2 } .fill.c1 { fill: #d55e00 } .fill.c2 { fill: #009e73 } .fill.c3 { fill: #b5559a }
</style>"""


def put(name: str, svg: str) -> None:
    """Write one picture that needs nothing beside it."""
    start = svg.index(">") + 1
    head = svg[:start] if "xmlns=" in svg[:start] else svg[: start - 1] + ' xmlns="http://www.w3.org/2000/svg">'
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text(head + STYLE + svg[start:] + "\n", "utf-8")
    print(f"docs/pictures/{name}.svg")


def engine() -> None:
    """Throughput and gaps of the engine against the number in flight."""
    cell = Cell("a100-8b", "chat", "poisson", 1.0, 0, 200.0)
    trace = Trace([Arrival(0.0, r.prompt_tokens, r.output_tokens) for r in cell.requests()], name="chat")
    points = [saturated(cell.profile, trace, n) for n in INSIDE]
    x = Axis(1, 256, "calls in flight", log=True)
    rate = Line("throughput", tuple((p.concurrency, p.rate) for p in points), 0, marked=True)
    gap = Line("gap", tuple((p.concurrency, 1000 * p.itl_p90) for p in points), 1, marked=True)
    marks = [(80.0, "pace")]
    rates = from_zero([p.rate for p in points], "calls/s")
    put("engine-throughput", plot([rate], x, rates, title="Throughput", at=marks))
    gaps = from_zero([1000 * p.itl_p90 for p in points], "ms")
    put("engine-gap", plot([gap], x, gaps, title="Gap between tokens, 90th percentile", at=marks))


def goodput() -> None:
    """What is served within the objectives, of what could be, against the load."""
    lines = []
    for colour, (name, title) in enumerate(POLICIES.items()):
        points = []
        for load in LOADS:
            values = [reached(Cell("a100-8b", "chat", "poisson", load, seed, 300.0), name) for seed in (41, 42)]
            points.append((load, sum(values) / len(values)))
            print(f"{title} at {load:g}: {points[-1][1]:.3f}")
        lines.append(Line(title, tuple(points), colour, marked=True))
    x = Axis(0.5, 3.0, "load (1 = the most the engine serves, whatever it takes)")
    y = Axis(0.0, 1.0, "value within objectives / bound")
    put("goodput", plot(lines, x, y, title="Served in time", width=560, height=300))


if __name__ == "__main__":
    engine()
    goodput()
