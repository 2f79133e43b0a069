"""What commands accept as a number: read when the command line is, so that the mistake is told with its option."""

from __future__ import annotations

import argparse
from math import inf


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"must be a finite number above 0, not {text!r}")
    return value
