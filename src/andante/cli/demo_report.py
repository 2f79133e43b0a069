"""What `andante demo` prints: the table, the two lines below it, and the same as JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from math import inf, isinf
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from andante.simulate.comparison import Comparison, Result
    from andante.simulate.workload import ClientClass

TASKS = 8
"""What a run consists of: one measurement of the engine and seven replays."""


def wants_colour(stream: TextIO) -> bool:
    """Colours on a terminal, unless NO_COLOR is set (no-color.org) or the terminal is dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# JSON. ----------------------------------------------------------------------------------------------------------------


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Everything the text says and more, in JSON's types; times in seconds, None where there is none."""
    scenario = comparison.scenario
    return {
        "scenario": {
            "trace": comparison.trace.name,
            "calls": len(comparison.trace),
            "left_out": comparison.left_out,
            "seconds": comparison.trace.seconds,
            "speed_up": comparison.speed_up,
            "offered_rate": comparison.trace.rate,
            "profile": scenario.profile,
            "load": scenario.load,
            "own_load": comparison.own_load,
            "seed": scenario.seed,
            "classes": [_finite(asdict(client)) for client in scenario.clients],
        },
        "engine": {
            "capacity": comparison.capacity.rate,
            "best_concurrency": comparison.capacity.concurrency,
            "cap": comparison.cap,
            "sweep": [asdict(point) for point in comparison.capacity.sweep],
        },
        "policies": [_policy(result) for result in comparison.results],
        "best_semaphore": comparison.best_semaphore.name,
        "summary": list(summary(comparison)),
    }


def _policy(result: Result) -> dict[str, Any]:
    score = result.score
    head = {"name": result.name, "kind": result.kind, "parameter": result.parameter, "why_not": result.why_not}
    if score is None:
        return head | {"value": None, "total": None, "classes": None, "preemptions": None, "seconds": None}
    return head | {
        "value": score.value,
        "total": asdict(score.total),
        "classes": {each.name: asdict(each) for each in score.classes},
        "preemptions": score.preemptions,
        "seconds": score.seconds,
    }


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and isinf(value) else value for name, value in values.items()}


# Text. ----------------------------------------------------------------------------------------------------------------


def as_text(comparison: Comparison, *, colour: bool = False) -> str:
    """The report for people, at most 100 columns wide with classes of short names."""
    paint = _Paint(colour)
    parts = [
        _head(comparison, paint),
        _classes(comparison, paint),
        _sweep(comparison, paint),
        _table(comparison, paint),
    ]
    return "\n\n".join(parts) + "\n\n" + "\n".join(summary(comparison))


def _head(comparison: Comparison, paint: _Paint) -> str:
    scenario, trace = comparison.scenario, comparison.trace
    own, rate = comparison.own_load, comparison.capacity.rate
    load = f"load {scenario.load:g}"
    if abs(own / scenario.load - 1) > 0.01:
        load = f"load {scenario.load:g} by the mix of its whole hour, {own:.3g} by that of these calls"
    left_out = f"; {comparison.left_out:,} more are too long for this engine" if comparison.left_out else ""
    return "\n".join(
        (
            paint.strong(f"{trace.name}: first {scenario.seconds:g} s, {comparison.speed_up:.2f} times as fast"),
            f"{len(trace):,} calls in {trace.seconds:.0f} s, {trace.rate:.3g} a second: {load}{left_out}",
            f"engine model {scenario.profile}, virtual time, no GPU: serves {rate:.2f} of them a second at most",
            f"cap: {comparison.cap} calls at once{_why_cap(comparison)}; seed {scenario.seed}",
        )
    )


def _why_cap(comparison: Comparison) -> str:
    itl = comparison.scenario.itl
    if comparison.cap == comparison.capacity.concurrency and comparison.cap_keeps_itl:
        return ", the fewest that reach that"
    if comparison.cap_keeps_itl:
        return f", the most at which 9 calls in 10 keep {_time(itl)} a token"
    return f", the fewest tried (more than 1 call in 10 misses {_time(itl)} a token even so)"


def _classes(comparison: Comparison, paint: _Paint) -> str:
    clients = comparison.scenario.clients
    total = sum(client.share for client in clients)
    rows = [("class", "calls", "value", "objectives", "its clients leave")]
    for client in clients:
        share = f"{100 * client.share / total:.0f} %"
        rows.append((client.name, share, f"{client.value:g}", _objectives(client), _patience(client)))
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    lines = []
    for row in rows:
        name, share, value, goal, leaves = row
        line = f"  {name:<{widths[0]}}  {share:>{widths[1]}}  {value:>{widths[2]}}  {goal:<{widths[3]}}  {leaves}"
        lines.append(paint.dim(line) if row is rows[0] else line)
    return "\n".join(lines)


def _objectives(client: ClientClass) -> str:
    goals = []
    if client.ttft < inf:
        goals.append(f"first token in {_time(client.ttft)}")
    if client.itl < inf:
        goals.append(f"{_time(client.itl)} a token")
    if client.e2e < inf:
        goals.append(f"whole answer in {_time(client.e2e)}")
    return ", ".join(goals) or "a whole answer"


def _patience(client: ClientClass) -> str:
    when = []
    if client.leaves_without_first < inf:
        when.append(f"after {_time(client.leaves_without_first)} without a token")
    if client.leaves < inf:
        when.append(f"after {_time(client.leaves)}")
    return ", ".join(when) or "never"


def _sweep(comparison: Comparison, paint: _Paint) -> str:
    """The semaphores that were tried; only the best one stands in the table."""
    best = comparison.best_semaphore
    tried = []
    for result in comparison.results:
        if result.kind == "semaphore" and result.score is not None:
            text = f"{result.parameter:g} places {_percent(result.score.value)}"
            tried.append(paint.strong(text + " (best)") if result is best else text)
    return f"semaphore, value served: {', '.join(tried)}"


def _table(comparison: Comparison, paint: _Paint) -> str:
    clients = comparison.scenario.clients
    watched = next((place for place, client in enumerate(clients) if client.ttft < inf), None)
    widths = [max(len(client.name), 5) + 2 for client in clients]
    block = sum(widths)
    lines = [
        paint.dim(
            f"{'':<17}{'value':>7}{'within objectives':>{block}}{'first token':>16}{'refused':>15}{'':>7}{'wasted':>8}"
        ),
        paint.dim(
            f"{'policy':<17}{'served':>7}{''.join(f'{c.name:>{w}}' for c, w in zip(clients, widths, strict=True))}"
            f"{'p50':>8}{'p99':>8}{'calls':>7}{'after':>8}{'left':>7}{'tokens':>8}"
        ),
    ]
    shown = [r for r in comparison.results if r.kind != "semaphore" or r is comparison.best_semaphore]
    best = max(result.score.value for result in shown if result.score is not None)
    for result in shown:
        score = result.score
        if score is None:
            lines.append(f"{result.name:<17}{result.why_not}")
            continue
        first = score.total if watched is None else score.classes[watched]
        goodput = "".join(f"{_percent(c.goodput):>{w}}" for c, w in zip(score.classes, widths, strict=True))
        line = (
            f"{result.name:<17}{_percent(score.value):>7}{goodput}{_time(first.ttft_p50):>8}{_time(first.ttft_p99):>8}"
            f"{score.total.refused:>7,}{_time(score.total.refused_p50):>8}{score.total.left:>7,}"
            f"{_percent(score.total.wasted):>8}"
        )
        lines.append(paint.good(line) if score.value > best - 0.005 else line)
    of_whom = "calls" if watched is None else f"{clients[watched].name} calls"
    lines.append(paint.dim("Value (calls times worth) and shares: served within objectives, of all that was offered."))
    lines.append(paint.dim(f"First token: {of_whom} that got one. Refused after: median. Wasted: on all other calls."))
    return "\n".join(lines)


def summary(comparison: Comparison) -> tuple[str, str]:
    """What the results show, and what to try next: two lines, computed from the results."""
    return _shows(comparison.andante, comparison.best_other), _next(comparison.scenario.load)


def _shows(andante: Result, other: Result) -> str:
    if andante.score is None or other.score is None:
        return "Not everything ran, so there is nothing to compare."
    mine, theirs = andante.score.value, other.score.value
    if abs(mine - theirs) < 0.01:
        said = f"andante served as much value as {other.name}, the best of the others"
    elif theirs < 0.005:
        said = f"andante served {_percent(mine)} of the value, the others next to nothing"
    elif mine > theirs:
        said = f"andante served {mine / theirs:.2g}x the value of {other.name}, next best"
    else:
        said = f"{other.name} served {theirs / mine:.2g}x the value of andante" if mine else f"{other.name} did better"
    less = [
        f"{a.name} ({_percent(a.goodput)}, not {_percent(b.goodput)})"
        for a, b in zip(andante.score.classes, other.score.classes, strict=True)
        if a.goodput < b.goodput - 0.01
    ]
    return f"{said}{'; less for ' if less else ''}{', '.join(less)}."


def _next(load: float) -> str:
    if load > 1:
        return "Next: andante demo --load 0.5 (room for all: what does control cost?) or --trace FILE (yours)."
    return "Next: andante demo --load 2 (not enough for all: who is served?) or --trace FILE (yours)."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return "0 ms" if seconds < 0.0005 else f"{1000 * seconds:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


class _Paint:
    """Escape sequences, or none."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def strong(self, text: str) -> str:
        return self._in("1", text)

    def dim(self, text: str) -> str:
        return self._in("2", text)

    def good(self, text: str) -> str:
        return self._in("1;32", text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text
