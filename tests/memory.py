"""Folders of tests that commit by the thousand: in memory, where the machine has room there.

A disk takes milliseconds for each commit. What is kept is kept by the same calls; that a file outlives the machine's
power no test can see on a disk either.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it have names of their own and are closed to others
ROOM_BYTES = 2**30


@cache
def memory() -> str | None:
    """Where such folders may be made; None: where all others are."""
    is_there = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return str(MEMORY) if is_there else None
