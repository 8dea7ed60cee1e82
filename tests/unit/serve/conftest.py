"""What all tests of what serves have: a folder that need not wait for a disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it have names of their own and are closed to others
ROOM_BYTES = 2**30


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder, in memory where the machine has room there.

    These tests commit some forty times each, and a disk takes milliseconds for each of it. What is kept is kept by the
    same calls; that a file outlives the machine's power no test can see on a disk either.
    """
    is_there = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    with TemporaryDirectory(prefix="crossline-", dir=MEMORY if is_there else None) as folder:
        yield Path(folder)
