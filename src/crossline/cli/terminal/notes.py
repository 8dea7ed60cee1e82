"""Sentences beside results, and JSON lines. Apart from tables, which need a library that takes long to load."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def note(text: str) -> None:
    """A sentence beside the results, to the standard error."""
    sys.stderr.write(f"{text}\n")


def write_lines(lines: Iterable[bytes]) -> None:
    """JSON values for programs, one a line."""
    for line in lines:
        sys.stdout.write(f"{line.decode()}\n")
