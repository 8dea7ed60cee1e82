"""Output files of commands, written atomically; devices and pipes are written directly."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from crossline.basics.errors import PermanentError, UsageError

STATE_SUFFIX = ".state"  # what lies beside a file of lines that are each there once: whose it is
INDEX_SUFFIX = ".ids"  # and the ids of its lines
# What is wrong with a name, and not with the disk.
_WRONG_NAME = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
_DATABASE = b"SQLite format 3\0"
_OWNERSHIP = b'{"pipeline"'
_LOGS = ("-wal", "-shm")  # what a database has beside it
_DRAFT = re.compile(r"\.crossline-[0-9a-f]{12}\.part", re.ASCII)
_OF_LINES = ("", INDEX_SUFFIX, *(INDEX_SUFFIX + log for log in _LOGS))


@contextmanager
def draft_file(path: Path, *, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """A temporary file beside ``path`` that replaces it when the block ends without an error.

    A link is followed: the file that it leads to is replaced, and keeps its permissions. What is written for a device
    or a pipe is copied into it. A ``path`` that is such a temporary file is given as it is: who made it puts it in its
    place, or removes it. Raises UsageError where ``path`` is a folder, one of ``inputs``, the file of a sink, or no
    name that can be written; PermanentError where the disk does not take it, also where an OSError of the block names
    the temporary file.
    """
    if _DRAFT.fullmatch(path.name):
        yield path
        return
    with _translated_errors(path):
        target = _regular(path, inputs)
    if target is None:
        with tempfile.TemporaryDirectory(prefix="crossline-") as folder:
            draft = Path(folder) / "draft"
            yield draft
            with _translated_errors(path), draft.open("rb") as source, _directly(path) as out:
                shutil.copyfileobj(source, out)
        return
    draft = target.with_name(f".crossline-{secrets.token_hex(6)}.part")
    try:
        yield draft
        with _translated_errors(path):
            _keep_permissions(draft, target)
            draft.replace(target)
    except OSError as error:
        if error.filename != str(draft):
            raise
        raise _unwritable(path, error) from error  # nobody knows the draft's name
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def written(path: Path, *, inputs: Iterable[Path] = ()) -> Iterator[BinaryIO]:
    """An open file that appears at ``path`` once it is complete; errors and exceptions as ``draft_file``."""
    with _translated_errors(path):
        direct = _regular(path, inputs) is None
    if direct:
        with _translated_errors(path), _directly(path) as file:
            yield file
        return
    with draft_file(path) as draft, _translated_errors(path), draft.open("xb") as file:
        yield file


@contextmanager
def growing_file(path: Path) -> Iterator[BinaryIO]:
    """An open file that readers can follow from its first byte; replaces an older file. Errors as ``draft_file``."""
    with _translated_errors(path):
        target = _regular(path)
        file = _directly(path) if target is None else target.open("wb")
    with _translated_errors(path), file:
        yield file


def make_folder(path: Path) -> None:
    """Create the parent folder of ``path``. Raises PermanentError where that fails."""
    with _translated_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)


def is_standard_output(path: Path) -> bool:
    """Whether ``path`` leads to where this process's standard output goes."""
    return _standard_stream(path) == 1


def _standard_stream(path: Path) -> int | None:
    """1 or 2 where ``path`` leads to where that stream goes; None for what swallows all, and elsewhere."""
    with suppress(OSError, ValueError):
        status = path.stat()
        if not os.path.samestat(status, Path(os.devnull).stat()):
            for number in (1, 2):
                with suppress(OSError):
                    if os.path.samestat(status, os.fstat(number)):
                        return number
    return None


def _regular(path: Path, inputs: Iterable[Path] = ()) -> Path | None:
    """The file that ``path`` leads to, there or not; None for a device, a pipe, or where this process prints."""
    try:
        status = path.stat()
    except FileNotFoundError:
        # A link may lead to a file that is not there yet.
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise UsageError(f"{str(path)!r} cannot be the name of a file: {error}") from error
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path} is a folder; expected the name of a file to write")
    if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode) or _standard_stream(path) is not None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is a socket or a disk; expected a file, a pipe or a device such as /dev/null")
    target = Path(os.path.realpath(path))
    _spare(path, target, status, inputs)
    return target


def _spare(path: Path, target: Path, status: os.stat_result, inputs: Iterable[Path]) -> None:
    """Refuse what must not be written over."""
    for each in inputs:
        with suppress(OSError):
            if os.path.samestat(status, each.stat()):
                raise UsageError(f"{path} is what is read; name another file to write")
    for suffix in _OF_LINES:
        state = target.with_name(target.name.removesuffix(suffix) + STATE_SUFFIX)
        if target.name.endswith(suffix) and state.exists():
            raise UsageError(f"{path} is the file of a pipeline's sink ({state.name} is beside it); name another")
    if target.suffix == STATE_SUFFIX and _begins(target, _OWNERSHIP):
        raise UsageError(f"{path} is the file of a pipeline's sink: it records who owns the lines; name another")
    if not os.access(target, os.W_OK):
        raise UsageError(f"{path} cannot be written: its permissions do not allow it")
    if any(_begins(target.with_name(target.name.removesuffix(log)), _DATABASE) for log in ("", *_LOGS)):
        raise UsageError(f"{path} is a database, such as the store of a pipeline; name another file to write")


def _begins(path: Path, head: bytes) -> bool:
    if not path.is_file():
        return False
    with suppress(PermissionError), path.open("rb") as file:
        return file.read(len(head)) == head
    return False


def _keep_permissions(draft: Path, target: Path) -> None:
    try:
        status = target.stat()
    except FileNotFoundError:
        return
    # Only an administrator may give a file away.
    with suppress(PermissionError):
        os.chown(draft, status.st_uid, status.st_gid)
    draft.chmod(stat.S_IMODE(status.st_mode))


def _directly(path: Path) -> BinaryIO:
    """A device or a pipe, open; the process's own output as it is, since a second opening would write over it."""
    number = _standard_stream(path)
    if number is None:
        return os.fdopen(os.open(path, os.O_WRONLY), "wb")
    sys.stdout.flush()
    return os.fdopen(os.dup(number), "wb")


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> PermanentError:
    kind = UsageError if error.errno in _WRONG_NAME else PermanentError
    return kind(f"{path} cannot be written: {error.strerror or error}")
