"""`andante demo`: a real trace at a multiple of an engine's capacity, through five ways of controlling it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from andante.cli import demo_report
from andante.cli.arguments import positive
from andante.cli.progress import Progress

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Adds the command to the subparsers of `andante`."""
    parser = commands.add_parser(
        "demo",
        help="a real trace, replayed against an engine model in virtual time",
        description="Replays the first 600 s of arrivals of a real trace, sped up to a multiple of what the engine "
        "model can serve, with no control, a semaphore, aiolimiter, and andante. Nothing is downloaded; about 10 s.",
    )
    parser.add_argument(
        "--load", type=positive, metavar="X", help="calls offered / calls the engine can serve (default 2.0)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the assignment of calls to classes (default 1)")
    parser.add_argument(
        "--trace", metavar="FILE", help="CSV or CSV.gz with arrival_s,prompt_tokens,output_tokens (default: packaged)"
    )
    parser.add_argument("--profile", metavar="NAME", help="engine profile, such as a100-8b (default) or h100-8b")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, and nothing else, on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from andante.simulate.comparison import compare
    from andante.simulate.profiles import profile
    from andante.simulate.scenario import demo_scenario
    from andante.simulate.traces import read_trace

    if arguments.profile is not None:
        profile(arguments.profile)
    scenario = demo_scenario().changed(profile=arguments.profile, load=arguments.load, seed=arguments.seed)
    trace = None if arguments.trace is None else read_trace(arguments.trace)
    with Progress(demo_report.TASKS, "andante demo") as progress:
        comparison = compare(scenario, trace=trace, watch=progress)
    if arguments.json:
        print(json.dumps(demo_report.as_json(comparison), indent=2, allow_nan=False))
    else:
        print(demo_report.as_text(comparison, colour=demo_report.wants_colour(sys.stdout)))
    return 0
