"""Whose folder ``serve.path`` is: what was answered is of one pipeline, and no other one gives it out as its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from crossline.core.basics.errors import UsageError

OWNER = "pipeline.json"


def check_owner(folder: Path, pipeline: str) -> None:
    """Raise UsageError where the folder is another pipeline's than ``pipeline``; one that nobody noted is anybody's."""
    found = _owner(folder)
    if found not in {None, pipeline}:
        raise UsageError(
            f"serve.path: {folder} has what was answered for pipeline {found}; expected that of {pipeline}: name a "
            f"folder of its own, or, if the pipeline was renamed, delete {folder / OWNER}"
        )


def note_owner(folder: Path, pipeline: str) -> None:
    """Note it at the first start. Raises UsageError as ``check_owner``, OSError where the folder takes nothing."""
    check_owner(folder, pipeline)
    if _owner(folder) is None:
        aside = folder / f".{OWNER}.tmp"
        aside.write_bytes(orjson.dumps({"pipeline": pipeline}))
        aside.replace(folder / OWNER)


def _owner(folder: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(orjson.loads((folder / OWNER).read_bytes())["pipeline"])
    return None
