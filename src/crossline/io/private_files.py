"""Checks that a file is private to its owner."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from crossline.basics.errors import StateError


def check_private(path: Path) -> None:
    """Raise StateError where others than its owner may read or write ``path``, or another user owns it.

    Who can write it can give himself a key. Raises OSError where it is not there.
    """
    there = path.stat()
    if not stat.S_ISREG(there.st_mode):
        raise StateError(f"{path}: found what is no file; expected the file of keys")
    mode = stat.S_IMODE(there.st_mode)
    if mode & 0o077:
        raise StateError(
            f"{path}: found rights {mode:04o}, so that other users can read the keys; expected 0600: chmod 600 {path}"
        )
    if there.st_uid not in {os.geteuid(), 0}:
        raise StateError(f"{path}: found a file of user {there.st_uid}; expected one of user {os.geteuid()}: chown it")
