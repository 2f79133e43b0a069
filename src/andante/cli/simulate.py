"""`andante simulate`: policies side by side on the same calls, against an engine model in virtual time."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from andante.cli import simulate_report
from andante.cli.arguments import positive
from andante.cli.demo_report import wants_colour
from andante.cli.progress import Progress
from andante.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from andante.simulate.campaign import Campaign

LOADS = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0)
POLICIES = ("none", "natural-pace", "aimd", "vegas", "gradient2")
SECONDS = 60.0


def add(commands: Any) -> None:
    """Adds the command to the subparsers of `andante`."""
    from andante.simulate.arrivals import SHAPES

    parser = commands.add_parser(
        "simulate",
        help="your own policies and the usual ones, on your trace or a drawn one",
        description="Sends the same calls through every policy to a model of an engine, in virtual time, and says how "
        "much was served within objectives. Built-in policies: none, semaphore:N, static:N (N at once, in the order of "
        "the classes), codel-lifo:N, aiolimiter:RATE (calls/s), natural-pace, aimd, vegas, gradient2. Your own: "
        "module:function, a function of the list of client classes that returns gates.",
    )
    parser.add_argument(
        "--compare", nargs="+", metavar="POLICY", default=list(POLICIES), help=f"(default: {' '.join(POLICIES)})"
    )
    parser.add_argument(
        "--load", nargs="+", type=positive, metavar="X",
        help="calls offered / calls the engine can serve (default: a trace at its own speed, drawn calls at "
        f"{' '.join(f'{load:g}' for load in LOADS)})",
    )  # fmt: skip
    parser.add_argument("--trace", metavar="FILE", help="CSV or CSV.gz with arrival_s,prompt_tokens,output_tokens")
    parser.add_argument("--shape", choices=SHAPES, help="how drawn calls arrive (default poisson)")
    parser.add_argument(
        "--seconds", type=positive, metavar="N",
        help=f"how long drawn calls arrive (default {SECONDS:g}); of a trace, so much from its beginning (default all)",
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", default=[1, 2, 3], help="(default 1 2 3)")
    classes = parser.add_mutually_exclusive_group()
    classes.add_argument("--classes", metavar="FILE", help="TOML with [[classes]]: objectives, values, shares, lengths")
    classes.add_argument("--mix", metavar="NAME", help="a built-in set of classes, such as chat (default) or code")
    parser.add_argument("--profile", default="a100-8b", metavar="NAME", help="engine profile (default a100-8b)")
    parser.add_argument(
        "--ends-only",
        action="store_true",
        help="policies hear of the ends of calls alone, as where nothing is streamed",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with plots, which needs nothing else to be read")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, and nothing else, on stdout")
    parser.add_argument(
        "--jobs", type=_whole, metavar="N", default=os.cpu_count() or 1, help="processes (default: as many as cores)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from andante.cli import _version
    from andante.simulate import campaign, report

    html = None if arguments.html is None else _writable(Path(arguments.html))
    with _from_here():
        asked = _campaign(arguments)
        tasks = 1 + len(asked.policies) * max(1, len(asked.loads)) * len(asked.seeds)
        with Progress(tasks, "andante simulate") as progress:
            findings = campaign.run(asked, jobs=arguments.jobs, watch=progress)
        version = _version()
        if html is not None:
            page = report.page(findings, command=_command(arguments), version=version)
            html.write_text(page, encoding="utf-8")
        if arguments.json:
            print(json.dumps(simulate_report.as_json(findings, version), indent=2, allow_nan=False))
        else:
            print(simulate_report.as_text(findings, html=arguments.html, colour=wants_colour(sys.stdout)))
    return 0


def _campaign(arguments: argparse.Namespace) -> Campaign:
    from andante.simulate.arrivals import Arrivals, Drawn, OfTrace
    from andante.simulate.campaign import Campaign
    from andante.simulate.classes_file import read_classes
    from andante.simulate.mixes import mix
    from andante.simulate.traces import read_trace

    calls = mix(arguments.mix or "chat") if arguments.classes is None else read_classes(arguments.classes)
    loads = tuple(arguments.load or ())
    arrivals: Arrivals
    if arguments.trace is None:
        arrivals = Drawn(calls, arguments.seconds or SECONDS, arguments.shape or SHAPE)
        loads = loads or LOADS
    else:
        if arguments.shape is not None:
            raise ConfigurationError("a trace has a shape of its own: leave out --shape, or --trace", path="shape")
        trace = read_trace(arguments.trace)
        trace = trace if arguments.seconds is None else trace.first(arguments.seconds)
        arrivals = OfTrace(trace, tuple(client for client, _ in calls))
    return Campaign(
        tuple(arguments.compare),
        arrivals,
        profile=arguments.profile,
        loads=loads,
        seeds=tuple(arguments.seeds),
        tells="ends" if arguments.ends_only else "streams",
    )


SHAPE = "poisson"


def _command(arguments: argparse.Namespace) -> str:
    """What was typed, with the defaults that were taken."""
    words = ["andante", "simulate", "--profile", arguments.profile]
    if arguments.trace is not None:
        words += ["--trace", arguments.trace]
    else:
        words += ["--shape", arguments.shape or SHAPE]
    if arguments.trace is None or arguments.seconds is not None:
        words += ["--seconds", f"{arguments.seconds or SECONDS:g}"]
    if arguments.load or arguments.trace is None:
        words += ["--load", *(f"{load:g}" for load in arguments.load or LOADS)]
    words += ["--seeds", *(str(seed) for seed in arguments.seeds)]
    words += ["--mix", arguments.mix or "chat"] if arguments.classes is None else ["--classes", arguments.classes]
    words += ["--ends-only"] if arguments.ends_only else []
    return shlex.join([*words, "--compare", *arguments.compare])


@contextmanager
def _from_here() -> Iterator[None]:
    """Modules are found in the current directory too; an installed command does not look there by itself."""
    here = str(Path.cwd())
    if here in sys.path:
        yield
        return
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _writable(path: Path) -> Path:
    """Says at the beginning, not after an hour, that a page cannot be written."""
    if path.is_dir():
        raise ConfigurationError(f"--html: {path} is a directory; name a file in it", path="html")
    folder = path.parent
    if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(f"--html: cannot write {path}", path="html")
    return path


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)
