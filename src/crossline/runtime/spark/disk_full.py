"""A full disk: how the failure of a query shows it, and how long to wait until the query begins again."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

# Of a disk that is full, of a user who has used up his share of one, of one that can only be read; of a file's bound.
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
# In Python's words and in Java's, which are the system's.
_NO_SPACE = re.compile(
    "|".join(
        [*(rf"\[Errno {code}\]" for code in DISK_FULL_ERRNOS), *(re.escape(os.strerror(c)) for c in DISK_FULL_ERRNOS)]
    )
)
_OF_FILE = re.compile(rf"^.*(?:{_NO_SPACE.pattern}).*$", re.MULTILINE)


def disk_full_line(failure: Exception) -> str | None:
    """The line of ``failure`` about a full disk; None where something else ended the query."""
    found = _OF_FILE.findall(str(failure))
    return found[-1].strip().removeprefix("Caused by: ") if found else None


def retry_pauses_s() -> Iterator[float]:
    """How long to wait before each attempt: doubled each time, without an end."""
    pause_s = PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
