"""`python -m benchmarks`: every row of the table, next to its peer and its bound."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks import contention, decisions, imports, memory, overhead, pacing, streams
from benchmarks.harness import Size, versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness import Result

GROUPS = (overhead.GROUP, streams.GROUP, decisions.GROUP, contention.GROUP, memory.GROUP, pacing.GROUP, imports.GROUP)

HEADINGS = ("row", "what", "andante", "next to", "value", "quartiles", "of least", "bound", "")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        for group in GROUPS:
            print(group.name)
            for row, about in group.rows.items():
                print(f"  {row:14} {about}")
        return 0
    size = Size(options.quick, options.rounds)
    machine = versions()
    print(_machine_line(machine), end="\n\n", flush=True)
    start = monotonic()
    results = _measure(size, options.only)
    print(_table(results))
    for note in size.notes:
        print(f"left out: {note}")
    over = [result for result in results if result.mark == "over"]
    bounded = sum(result.bound is not None for result in results)
    print(f"\n{bounded - len(over)} of {bounded} bounds held, in {monotonic() - start:.0f} s. {_HOW}")
    if size.quick:
        print("A quick run: it shows that everything works, its figures mean little.")
    if options.json:
        options.json.write_text(json.dumps(_plain(machine, size, results), indent=1) + "\n", encoding="utf-8")
    return 1 if options.strict and over else 0


_HOW = (
    "Value: the median over interleaved rounds, which decides; quartiles over rounds; of least: the same from the "
    "least figure of each case, for a noisy machine. Figures of andante and its peers are medians; where only "
    "computing is timed, it is by CPU time."
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ROW", default=[], help="only these rows or groups")
    parser.add_argument("--list", action="store_true", help="say which rows there are")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds of every row (default: as it needs)")
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bound is not held")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def _measure(size: Size, only: Sequence[str]) -> list[Result]:
    known = {name for group in GROUPS for name in (group.name, *group.rows)}
    unknown = sorted(set(only) - known)
    if unknown:
        sys.exit(f"no such row: {', '.join(unknown)}; --list says which there are")
    results: list[Result] = []
    for group in GROUPS:
        wanted = {row for row in group.rows if not only or row in only or group.name in only}
        if wanted:
            print(f"measuring {group.name} ...", file=sys.stderr, flush=True)
            results += [one for one in group.measure(size, wanted.__contains__) if one.row in wanted]
    return results


def _machine_line(machine: dict[str, Any]) -> str:
    load = "" if machine["load"] is None else f", load {machine['load']:.1f}"
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return f"{machine['cpu']} x {machine['cpus']}{load}; {machine['system']}, {machine['python']}; {packages}"


def _table(results: Sequence[Result]) -> str:
    lines = [HEADINGS, *(_cells(result) for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _cells(result: Result) -> tuple[str, ...]:
    exact = result.bound is not None and result.bound.least > 0  # a band: what matters is the third decimal

    def say(value: float) -> str:
        if exact:
            return f"{value:.3f}"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.2f}"

    low, high = result.value.quartiles
    return (
        result.row,
        result.what,
        result.mine,
        result.peer,
        f"{say(result.value.median)} {result.unit}",
        f"{say(low)} to {say(high)}",
        "" if result.by_least is None else say(result.by_least),
        "" if result.bound is None else str(result.bound),
        result.mark,
    )


def _plain(machine: dict[str, Any], size: Size, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "machine": machine,
        "quick": size.quick,
        "left_out": size.notes,
        "results": [
            {
                "row": result.row,
                "what": result.what,
                "andante": result.mine,
                "peer": result.peer,
                "unit": result.unit,
                "value": result.value.median,
                "quartiles": result.value.quartiles,
                "rounds": len(result.value.values),
                "by_least": result.by_least,
                "bound": None if result.bound is None else str(result.bound),
                "mark": result.mark,
            }
            for result in results
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
