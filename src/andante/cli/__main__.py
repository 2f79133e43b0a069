"""`python -m andante.cli`: the `andante` command where the script is not on the path."""

from __future__ import annotations

import sys

from andante.cli import main

if __name__ == "__main__":
    sys.exit(main())
