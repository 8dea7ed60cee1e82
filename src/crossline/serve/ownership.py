"""Whose folder ``serve.path`` is: what was answered is of one pipeline, and one process at a time answers from it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from crossline.basics.errors import StateError, UsageError
from crossline.serve.ledger.slots import process_text

OWNER = "pipeline.json"
LOCK = "serve.lock"


def check_owner(folder: Path, pipeline: str) -> None:
    """Raise UsageError if the folder is another pipeline's than ``pipeline``; one without a note is any pipeline's."""
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
        draft = folder / f".{OWNER}.tmp"
        draft.write_bytes(orjson.dumps({"pipeline": pipeline}))
        draft.replace(folder / OWNER)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The folder is this process's for as long as the context is open: two would send, compare and push each other's.

    The kernel gives it back when the process ends, however it ends; who is started meanwhile does not hold it.
    Raises StateError if another process has it, OSError where the folder takes nothing.
    """
    path = folder / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise StateError(
                f"serve.path: {folder} is in use by another API ({who or 'it did not say which'}); expected one API a "
                "folder: end that one, or give this one a serve.path of its own, and a shared ledger (serve.ledger)"
            ) from None
        with suppress(OSError):  # a full disk: it is for people alone
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{process_text()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _owner(folder: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(orjson.loads((folder / OWNER).read_bytes())["pipeline"])
    return None
