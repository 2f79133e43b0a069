"""What `andante calibrate` says: the curve, the natural pace with its spread, what went wrong; and the same as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from andante.calibrate.level import Level, Spread, drift

if TYPE_CHECKING:
    from andante.calibrate.drive import Calibration
    from andante.calibrate.sample import Trouble

_WIDTH = 18
_DRIFT = 1.15  # visits of one number that differ by more than this are worth a line
_MORE = {
    "at_most": "The knee may lie higher (--at-most).",
    "seconds": "With more --seconds it would go on.",
}


def as_text(calibration: Calibration, *, blocks: bool = True) -> str:
    """The report for people, at most 100 columns wide where the target's name is short.

    Args:
        calibration: finished, or interrupted at any time.
        blocks: False: plain ASCII, for terminals that know no more.
    """
    levels = calibration.levels
    parts = [_head(calibration)]
    if levels:
        parts.append(_curve(calibration, levels, blocks))
    parts.append("\n".join(_verdict(calibration)))
    return "\n\n".join(parts)


def _head(calibration: Calibration) -> str:
    prompt = "" if calibration.prompt is None else f"; {calibration.prompt:.0f} input tokens a call"
    return f"{calibration.target}: {_calls(calibration.calls)} in {calibration.seconds:.1f} s{prompt}"


def _curve(calibration: Calibration, levels: list[Level], blocks: bool) -> str:
    """A line for each number of calls in flight; its bar ends at the median, the lighter part at the upper quartile."""
    full, light, mark = ("█", "░", "◀") if blocks else ("#", "-", "<")
    tokens = any(level.tokens for level in levels)
    streams = any(level.ttft for level in levels)
    highest = max(level.rate.high for level in levels) or 1.0
    pace = calibration.pace
    unit = "tokens/s" if tokens else "calls/s"
    head = f"{'in flight':>9} {unit:>9} {'quartiles':>13}  {'':<{_WIDTH}}"
    head += f" {'calls/s':>8}" if tokens else ""
    head += f" {'first p50 / p90':>16} {'gap p50 / p90':>16}" if streams else f" {'call p50 / p90':>16}"
    lines = [head]
    for level in levels:
        rate = level.rate
        solid = round(_WIDTH * rate.median / highest)
        bar = full * solid + light * (round(_WIDTH * rate.high / highest) - solid)
        shown = (_number(rate.median), f"{_number(rate.low)}-{_number(rate.high)}") if rate.high > 0 else ("-", "-")
        line = f"{level.n:>9} {shown[0]:>9} {shown[1]:>13}  {bar:<{_WIDTH}}"
        if tokens:
            calls = Spread.of(level.calls)
            line += f" {'-' if calls is None else _number(calls.median):>8}"
        line += "".join(f" {_pair(level, v):>16}" for v in ((level.ttft, level.itl) if streams else (level.seconds,)))
        end = f" {mark}" if pace is not None and level.n == pace.n else "" if level.whole else " cut short"
        lines.append(line + end)
    return "\n".join(lines)


def _verdict(calibration: Calibration) -> list[str]:
    pace, stop = calibration.pace, calibration.stop
    lines = []
    if pace is None:
        lines.append("Natural pace: not found.")
    else:
        rates = [f"{_spread(Spread.of(pace.tokens))} tokens/s"] if pace.tokens else []
        rates += [f"{_spread(Spread.of(pace.calls))} calls/s"] if pace.calls else []
        lines.append(f"Natural pace: {pace.n} in flight, {', '.join(rates)}.")
        shown = (("first output", pace.ttft), ("gap", pace.itl), ("whole call", pace.seconds))
        seen = [
            f"{name} {_time(pace.share(values, 0.5))} (p90 {_time(pace.share(values, 0.9))})"
            for name, values in shown
            if values
        ]
        lines.append(f"There: {', '.join(seen)}." if seen else "")
        once = "one visit: its spread is that of a moment, so measure again" if pace.visits == 1 else ""
        lines.append(f"In brackets the quartiles of {once or f'{pace.visits} visits'}.")
    drifted = drift(calibration.visits)
    if drifted is not None and drifted[1] > _DRIFT:
        more = f"Visits of {drifted[0]} in flight differ by {100 * (drifted[1] - 1):.0f} %"
        lines.append(f"{more}: something else changes here; smaller differences mean nothing.")
    if stop is None:
        lines.append("Interrupted: all calls were ended, and this is what was measured until then.")
    else:
        more = _MORE.get(stop.reason, "")
        if stop.reason == "at_most" and pace is not None and pace.n < calibration.bounds.at_most:
            more = ""
        lines.append(f"Stopped: {stop.said}. {more}".rstrip())
    failed = troubles(calibration)
    if failed:
        lines.append(f"Failed: {_calls(failed.total())}.")
        lines += [f"  {count:>5} x {trouble}" for trouble, count in failed.most_common(8)]
    return [line for line in lines if line]


def troubles(calibration: Calibration) -> Counter[Trouble]:
    """All calls that failed, counted by how."""
    counted: Counter[Trouble] = Counter()
    for visit in calibration.visits:
        counted.update(dict(visit.troubles))
    probe = calibration.probe
    if probe is not None and probe.trouble is not None:
        counted[probe.trouble] += 1
    return counted


def as_json(calibration: Calibration, python: str | None = None) -> dict[str, Any]:
    """Everything the text says and more, in JSON's types; times in seconds, None where there is none."""
    bounds, stop, pace = calibration.bounds, calibration.stop, calibration.pace
    drifted = drift(calibration.visits)
    return {
        "target": calibration.target,
        "calls": calibration.calls,
        "seconds": calibration.seconds,
        "input_tokens": calibration.prompt,
        "bounds": {name: getattr(bounds, name) for name in bounds.__slots__},
        "stop": None if stop is None else {"reason": stop.reason, "said": stop.said},
        "pace": None if pace is None else _level(pace),
        "levels": [_level(level) for level in calibration.levels],
        "visits": [_level(visit) for visit in calibration.visits],
        "drift": None if drifted is None else {"in_flight": drifted[0], "ratio": drifted[1]},
        "troubles": [
            {"kind": trouble.kind, "said": trouble.said, "effect": trouble.effect.value, "calls": count}
            for trouble, count in troubles(calibration).most_common()
        ],
        "python": python,
    }


def _level(level: Level) -> dict[str, Any]:
    def quartiles(values: tuple[float, ...]) -> dict[str, float] | None:
        spread = Spread.of(values)
        return None if spread is None else {"q1": spread.low, "median": spread.median, "q3": spread.high}

    def tail(values: tuple[float, ...]) -> dict[str, float | None] | None:
        return {"p50": level.share(values, 0.5), "p90": level.share(values, 0.9)} if values else None

    return {
        "in_flight": level.n,
        "visits": level.visits,
        "ended": level.ended,
        "failed": level.failed,
        "tokens_per_second": quartiles(level.tokens),
        "calls_per_second": quartiles(level.calls),
        "ttft": tail(level.ttft),
        "itl": tail(level.itl),
        "e2e": tail(level.seconds),
    }


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{_number(spread.median)} ({_number(spread.low)} to {_number(spread.high)})"


def _pair(level: Level, values: tuple[float, ...]) -> str:
    return f"{_time(level.share(values, 0.5))} / {_time(level.share(values, 0.9))}" if values else "-"


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
