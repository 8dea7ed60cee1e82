"""What new files of this process are closed to."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_UMASK = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)


def umask() -> int:
    """The mask of this process. Where the system does not tell, it can only be set, and is set back at once."""
    with suppress(OSError):
        match = _UMASK.search(Path("/proc/self/status").read_text(encoding="ascii", errors="replace"))
        if match is not None:
            return int(match.group(1), 8)
    found = os.umask(0o077)
    os.umask(found)
    return found
