"""The name of a process in process lists: forks would all be called as what they were forked from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def set_process_title(name: str) -> None:
    """Be ``name``, of which 15 characters show; only Linux has that."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="utf-8")
