"""What is written stays, also if the power fails."""

from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Sync a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
