"""The classes of a workload, and the lengths of their calls, from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from andante.errors import ConfigurationError
from andante.simulate.mixes import Lengths
from andante.simulate.workload import ClientClass

if TYPE_CHECKING:
    from os import PathLike

    from andante.simulate.mixes import Mix

USUAL = Lengths(1020, 0.9, 129, 1.0)
"""Lengths where a file tells none: medians of the Azure conversation trace of 2023."""

_OF_A_SCENARIO = {"profile", "load", "seed", "seconds", "load_one", "cap"}


def read_classes(path: str | PathLike[str]) -> Mix:
    """The `[[classes]]` of a TOML file, from the most urgent to the least.

    Each has the fields of `ClientClass` and, where calls are drawn, may have `prompt` and `output`: `[median, sigma]`
    of log-normal numbers of tokens. The other fields of the demo's scenario may stand there and are not read.

    Raises ConfigurationError, naming the file and the field, for whatever makes no sense.
    """
    try:
        data = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", path="classes") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}", path="classes") from error
    entries = data.pop("classes", None)
    unknown = sorted(set(data) - _OF_A_SCENARIO)
    if unknown:
        raise ConfigurationError(f"{path}: unknown field {unknown[0]!r}", path=unknown[0])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{path}: there must be at least one [[classes]]", path="classes")
    try:
        calls = tuple(_class(dict(entry)) for entry in entries)
    except (ConfigurationError, TypeError) as error:
        raise ConfigurationError(f"{path}: {error}", path=getattr(error, "path", None)) from error
    names = [client.name for client, _ in calls]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"{path}: classes need different names, not {names}", path="name")
    return calls


def _class(entry: dict[str, Any]) -> tuple[ClientClass, Lengths]:
    name = entry.get("name")
    prompt = _lengths(entry.pop("prompt", None), (USUAL.prompt, USUAL.prompt_sigma), f"class {name!r}: prompt")
    output = _lengths(entry.pop("output", None), (USUAL.output, USUAL.output_sigma), f"class {name!r}: output")
    known = {field.name for field in fields(ClientClass)}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ConfigurationError(f"class {name!r}: unknown field {unknown[0]!r}", path=unknown[0])
    for needed in ("name", "share"):
        if needed not in entry:
            raise ConfigurationError(f"class {name!r}: no field {needed!r}", path=needed)
    return ClientClass(**entry), Lengths(*prompt, *output)


def _lengths(value: Any, usual: tuple[float, float], what: str) -> tuple[float, float]:
    if value is None:
        return usual
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigurationError(f"{what} must be [median, sigma], not {value!r}", path="classes")
    return value[0], value[1]
