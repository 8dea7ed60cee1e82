"""Where in the code a process was when the system ended it, as by a fault in compiled code. Its parent reads this."""

from __future__ import annotations

import faulthandler
from pathlib import Path

CALLS_MAX = 12  # those nearest to the fault
_CALL = "  File "


def note_crashes(path: Path) -> None:
    """From now on, and as long as this process lives, what it is in when it crashes is written to ``path``."""
    file = path.open("wb", buffering=0)
    faulthandler.enable(file)  # which keeps the file open


def take_crash(path: Path) -> str:
    """The calls that a process was in when it crashed, the innermost first, a line each; none where it did not.

    The file goes.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:  # it ended before it could note anything
        return ""
    path.unlink()
    return "\n".join([line for line in lines if line.startswith(_CALL)][:CALLS_MAX])
