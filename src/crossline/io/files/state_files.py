"""Small state files of a run: written atomically and synced, and read with one-line errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from crossline.basics.errors import StateError
from crossline.io.files.sync import sync_path

T = TypeVar("T")


def put(path: Path, raw: bytes) -> None:
    """Write ``path`` anew, at once or not at all; when this returns it also survives a power failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_path(path.parent)


def read(path: Path, raw: bytes, reader: Callable[[bytes], T], to_do: str) -> T:
    """What ``reader`` makes of the bytes ``raw`` of ``path``.

    Raises StateError with the file, what was found and what ``to_do`` where it cannot read them.
    """
    try:
        return reader(raw)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise damaged(path, _found(raw, error), to_do) from None


def damaged(path: Path, found: str, to_do: str) -> StateError:
    """The error of a file ``path`` with unexpected content."""
    return StateError(f"{path} is damaged: found {found}; {to_do}")


def _found(raw: bytes, error: Exception) -> str:
    if not raw.strip(b"\0 \n"):
        return "nothing in it" if not raw else f"{len(raw)} bytes of nothing"
    text = " ".join(str(error).split())
    return f"what cannot be read ({type(error).__name__}: {text[:160]})"
