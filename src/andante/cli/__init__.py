"""The `andante` command. Each subcommand is one file here, with `add(subparsers)` and `run(arguments) -> int`."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NoReturn

from andante.errors import AndanteError

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Usage(Exception):
    """The arguments make no sense."""


class _Parser(argparse.ArgumentParser):
    """One line instead of the whole usage when an argument is wrong."""

    def error(self, message: str) -> NoReturn:
        raise _Usage(f"{self.prog}: {message} ({self.prog} --help explains)")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `andante` with `argv` (default: the command line) and returns its exit status.

    0: done. 1: something failed. 2: the arguments make no sense, said in one line on stderr. 130: interrupted.
    """
    from andante.cli import calibrate, demo, simulate

    parser = _Parser(prog="andante", description="Keeps every model call at the pace its backend can sustain.")
    parser.add_argument("--version", action="version", version=f"andante {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo.add(commands)
    calibrate.add(commands)
    simulate.add(commands)
    try:
        arguments = parser.parse_args(argv)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as done:  # --help and --version
        return done.code if isinstance(done.code, int) else 0
    except _Usage as error:
        print(error, file=sys.stderr)
        return 2
    except AndanteError as error:
        print(f"andante: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("andante: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has left; Python would complain once more when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _version() -> str:
    try:
        return version("andante")
    except PackageNotFoundError:
        return "(not installed)"
