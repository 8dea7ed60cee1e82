"""Writes into a folder of rule files: one command at a time, each file whole, and only over what that command read."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crossline.basics.errors import PermanentError, RetryableError
from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.rule_registry.content import FileContent, content_in_folder
from crossline.rule_registry.log_file import sync_folder

LOCK_WAIT_S = 30.0
_LOCK_POLL_S = 0.02
_DRAFT_PREFIX = ".crossline-aside-"


@contextmanager
def held(folder: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Keep other commands from writing into ``folder`` meanwhile.

    Raises RetryableError where another one does for longer than ``wait_s``, PermanentError where the folder cannot be
    written.
    """
    lock = folder / ".log" / "lock"
    try:
        lock.parent.mkdir(exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise PermanentError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        deadline_s = time.monotonic() + wait_s
        while not _locked(descriptor):
            if time.monotonic() > deadline_s:
                raise RetryableError(f"another crossline rules command has held {lock} for {wait_s:.0f} s: wait for it")
            time.sleep(_LOCK_POLL_S)
        for left in folder.glob(f"{_DRAFT_PREFIX}*"):
            left.unlink(missing_ok=True)  # of a command that was killed
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def replace_file(path: Path, data: bytes, before: FileContent | None) -> None:
    """Write ``data`` to ``path``, where ``before`` was read (None: nothing); a reader meets the old file or the new.

    A link stays one, and the file that it names is replaced. Raises RetryableError, with nothing written, where
    something else lies there by now, PermanentError where it is no file, or cannot be written.
    """
    draft: Path | None = None
    try:
        # Path.resolve ends in an error of its own where links form a ring.
        path = Path(os.path.realpath(path)) if path.is_symlink() else path
        draft = _written_draft(path, data)
        there = content_in_folder(path, SIZE_MAX)
        if there is not None and there.error is not None:
            raise PermanentError(f"{path} is not replaced: found {there.error}; expected a file, or nothing")
        if there != before:
            raise RetryableError(
                f"{path} was changed by someone else at this moment; nothing is written: look at it, and try again"
            )
        if there is not None:
            draft.chmod(path.stat().st_mode & 0o7777)
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise PermanentError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _written_draft(path: Path, data: bytes) -> Path:
    """A file beside ``path`` with a name that is only this process's."""
    draft = path.with_name(f"{_DRAFT_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
