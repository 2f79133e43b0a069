"""`andante calibrate`: what an endpoint or a function can sustain, measured by a bounded climb."""

from __future__ import annotations

import inspect
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio

from andante.cli.progress import Progress
from andante.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from andante.calibrate.climb import Bounds, Visit
    from andante.calibrate.drive import Calibration
    from andante.calibrate.endpoint import EndpointTarget
    from andante.calibrate.estimate import Estimate
    from andante.calibrate.sample import Sample
    from andante.calibrate.snippet import EndpointUse, FunctionUse
    from andante.calibrate.target import FunctionTarget, Target

_NAME = "andante calibrate"
_LONG = 1_000_000  # tokens: no prompt and no answer is longer
_ASK = 10.0
"""A climb that may take longer than this is asked for; seconds."""


def add(commands: Any) -> None:
    """Adds the command to the subparsers of `andante`."""
    parser = commands.add_parser(
        "calibrate",
        help="measure what an endpoint can sustain",
        description="Sends calls to what is named here and to nothing else: first one, then more and more at once, "
        "until more bring nothing, an objective is missed, the backend says no, or a bound is reached. Prints the "
        "curve, the natural pace with its spread, and the Python that uses it. A hosted endpoint bills the calls.",
    )
    parser.add_argument(
        "target", metavar="URL", help="such as http://host:8000/v1 (OpenAI-compatible), or module:function"
    )
    parser.add_argument("--at-most", type=int, default=64, metavar="N", help="calls in flight (default 64)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long in all (default 60)")
    parser.add_argument(
        "--ttft", type=float, metavar="S", help="stop where more than 1 call in 10 waits longer for output"
    )
    parser.add_argument("--itl", type=float, metavar="S", help="stop where more than 1 call in 10 has longer gaps")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often the knee is measured (default 3)")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="without output: overload (default 60)"
    )
    parser.add_argument("--prompt-tokens", type=int, default=128, metavar="N", help="words in a prompt (default 128)")
    parser.add_argument("--yes", action="store_true", help="do not ask before a long climb")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, and nothing else, on stdout")
    group = parser.add_argument_group("endpoints")
    group.add_argument("--model", metavar="NAME", help="default: the one that the server lists")
    group.add_argument("--max-tokens", type=int, default=64, metavar="N", help="the longest answer (default 64)")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable that holds the key (default: no key)"
    )
    group.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a further header")
    group.add_argument(
        "--body", action="append", default=[], metavar="NAME=JSON", help="a further field; null removes one"
    )
    group.add_argument("--no-stream", action="store_true", help="ask for whole answers; only their ends are measured")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command. 0: measured. 1: no pace was found, or nobody wanted the climb. 130: interrupted."""
    from andante.calibrate.climb import Bounds
    from andante.calibrate.drive import Calibration
    from andante.calibrate.estimate import estimate
    from andante.calibrate.report import as_json, as_text
    from andante.calibrate.snippet import snippet

    bounds = Bounds(
        arguments.at_most, arguments.seconds, arguments.ttft, arguments.itl, arguments.rounds, arguments.timeout
    )
    target = _target(arguments)
    long = bounds.seconds > _ASK and not arguments.yes
    if long and not sys.stdin.isatty():
        raise ConfigurationError(f"a climb of up to {bounds.seconds:g} s needs a yes: add --yes, or --seconds {_ASK:g}")
    calibration = Calibration(target.name, bounds)
    interrupted = False
    try:
        anyio.run(_probe, target, calibration)
        if calibration.stop is None:
            assert calibration.probe is not None
            cost = estimate(calibration.probe, bounds)
            _say(_told(calibration.probe, bounds, cost))
            if long and not _agreed():
                _say("nothing more was sent")
                return 1
            anyio.run(_climb, target, calibration)
    except KeyboardInterrupt:
        interrupted = True
    python = snippet(calibration, _use(arguments, target))
    if arguments.json:
        print(json.dumps(as_json(calibration, python), indent=2, allow_nan=False))
    else:
        print(as_text(calibration, blocks=_knows_blocks()))
        if python is not None:
            print(f"\nThe Python that uses it:\n\n{python}")
    if interrupted:
        return 130
    return 0 if calibration.pace is not None else 1


async def _probe(target: Target, calibration: Calibration) -> None:
    from andante.calibrate.climb import Stop
    from andante.calibrate.drive import first_call

    try:
        probe = await first_call(target, calibration)
    finally:
        await _closed(target)
    if probe.trouble is not None:
        calibration.stop = Stop("fatal", f"the first call failed: {probe.trouble}")


async def _climb(target: Target, calibration: Calibration) -> None:
    from andante.calibrate.climb import MOST
    from andante.calibrate.drive import calibrate

    with Progress(MOST, _NAME) as progress:

        def watch(visit: Visit, share: float) -> None:
            before = sum(each.n == visit.n for each in calibration.visits)
            progress(f"{visit.n} in flight{f', visit {before + 1}' if before else ''}", share)

        try:
            await calibrate(target, calibration, watch=watch)
        finally:
            await _closed(target)


async def _closed(target: Target) -> None:
    with anyio.CancelScope(shield=True):
        await target.close()


def _told(probe: Sample, bounds: Bounds, cost: Estimate) -> str:
    """What the first call showed, and the most that the climb sends."""
    assert probe.ended is not None
    first = "" if probe.first is None else f" (first output after {probe.first - probe.started:.2g} s)"
    tokens = "" if cost.tokens is None else f" and {cost.tokens:,} output tokens"
    return (
        f"one call took {probe.ended - probe.started:.2g} s{first}; the climb takes at most {bounds.seconds:g} s and "
        f"{bounds.at_most} in flight, which is at most {cost.calls:,} calls{tokens}"
    )


def _agreed() -> bool:
    sys.stderr.write(f"{_NAME}: go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _say(text: str) -> None:
    print(f"{_NAME}: {text}", file=sys.stderr, flush=True)


def _knows_blocks() -> bool:
    try:
        "█░◀".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# What the arguments name. ---------------------------------------------------------------------------------------------


def _target(arguments: argparse.Namespace) -> EndpointTarget | FunctionTarget:
    for name in ("prompt_tokens", "max_tokens"):
        if not 1 <= getattr(arguments, name) <= _LONG:
            option = "--" + name.replace("_", "-")
            raise ConfigurationError(f"{option} must be from 1 to {_LONG:,}, not {getattr(arguments, name)}", path=name)
    if "://" in arguments.target:
        return _endpoint(arguments)
    from andante.calibrate.target import function_target

    for name in ("model", "api_key_env", "header", "body", "no_stream"):
        if getattr(arguments, name):
            option = "--" + name.replace("_", "-")
            raise ConfigurationError(f"{option} is for URLs; {arguments.target} is a function", path=name)
    return function_target(arguments.target, words=arguments.prompt_tokens)


def _endpoint(arguments: argparse.Namespace) -> EndpointTarget:
    try:
        from andante.calibrate.endpoint import EndpointTarget
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        raise ConfigurationError("calibrating a URL needs httpx: install andante[calibrate]", path="target") from None
    key = None
    if arguments.api_key_env is not None:
        key = os.environ.get(arguments.api_key_env)
        if not key:
            message = f"--api-key-env: the environment has no {arguments.api_key_env}, or an empty one"
            raise ConfigurationError(message, path="api_key_env")
    return EndpointTarget(
        arguments.target,
        model=arguments.model,
        words=arguments.prompt_tokens,
        max_tokens=arguments.max_tokens,
        key=key,
        headers=dict(_header(text) for text in arguments.header),
        body=dict(_field(text) for text in arguments.body),
        stream=not arguments.no_stream,
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ConfigurationError(f"--header must be NAME:VALUE, not {text!r}", path="header")
    return name.strip(), value.strip()


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        if not equals or not name:
            raise ValueError(text)
        return name, json.loads(value)
    except ValueError:
        raise ConfigurationError(
            f"--body must be NAME=JSON, such as ignore_eos=true, not {text!r}", path="body"
        ) from None


def _use(arguments: argparse.Namespace, target: EndpointTarget | FunctionTarget) -> EndpointUse | FunctionUse:
    from andante.calibrate.snippet import EndpointUse, FunctionUse
    from andante.calibrate.target import FunctionTarget

    if not isinstance(target, FunctionTarget):
        return EndpointUse(target.base, target.model or "MODEL", arguments.max_tokens, arguments.api_key_env)
    module, _, path = arguments.target.partition(":")
    given = {None: "", "prompt": '"What is a pace?"'}.get(target.takes, "0")
    return FunctionUse(module, path, given, inspect.isasyncgenfunction(target.function))
