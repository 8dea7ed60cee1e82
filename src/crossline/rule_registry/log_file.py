"""The file of a rule log: events, appended whole, read back without what a kill cut off; and what is kept beside it."""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from crossline.basics.errors import RetryableError, StateError
from crossline.rule_registry.content import digest_of
from crossline.rule_registry.events import RuleEvent, event_from_line

# Of what is kept beside a log: how hard it is compressed; from so many bytes on in less time.
LEVEL = 6
LARGE, QUICK_LEVEL = 8 * 2**20, 1
_BROUGHT: dict[Path, Callable[[Path], None]] = {}


class LogFile:
    """An open rule log, held by one process at a time. ``append`` returns once the events are on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._size = 0
        self._torn = False

    def open(self) -> list[RuleEvent]:
        """Take hold of the file, made where it is not there, and give its events; cuts off a last line that is torn.

        Raises StateError where another process holds it, where it is damaged before its last line, or cannot be
        opened.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise StateError(
                f"the rule log {self.path} cannot be opened: {error.strerror}; expected a file that can be written, in "
                "a folder that can"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _check_place(self.path, descriptor)
            events, self._size = parse_events(self.path.read_bytes(), self.path)
            if not any(event.event == "started" for event in events):
                # The first start ended before it was written down; it has no effect, and is done again.
                events, self._size = [], 0
            os.ftruncate(descriptor, self._size)
            os.fsync(descriptor)
            sync_folder(self.path.parent)
        except BlockingIOError:
            os.close(descriptor)
            raise StateError(f"{self.path} is held by another run of this pipeline: stop that one first") from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return events

    def append(self, events: Iterable[RuleEvent]) -> None:
        """Write ``events`` and wait for the disk. Raises RetryableError, with nothing appended, where it cannot."""
        descriptor = self._checked()
        data = b"".join(event.to_line() for event in events)
        if not data:
            return
        try:
            if self._torn:
                os.ftruncate(descriptor, self._size)
            self._torn = True
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
            os.fsync(descriptor)
            # What went to a file that was deleted meanwhile was not written down.
            _check_place(self.path, descriptor)
        except (OSError, RetryableError) as error:
            with suppress(OSError):
                os.ftruncate(descriptor, self._size)
                self._torn = False
            if isinstance(error, OSError):
                raise RetryableError(f"the rule log {self.path} cannot be written: {error.strerror}") from error
            raise
        self._torn = False
        self._size += len(data)

    def check(self) -> None:
        """Raise RetryableError where the file at ``path`` is not the one that is held: it was deleted or replaced."""
        self._checked()

    def _checked(self) -> int:
        if self._descriptor is None:
            raise StateError(f"{self.path} is not open")
        _check_place(self.path, self._descriptor)
        return self._descriptor

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_log(path: Path) -> list[RuleEvent]:
    """The events of a log that may be in use; none before its first start is whole. Raises StateError as ``open``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StateError(f"the rule log {path} cannot be read: {error.strerror}") from error
    events, _ = parse_events(data, path)
    return events if any(event.event == "started" for event in events) else []


def parse_events(data: bytes, path: Path) -> tuple[list[RuleEvent], int]:
    """The events in ``data``, and where the last whole line ends: a kill can cut off the last line, and only that."""
    *lines, torn = data.split(b"\n")
    end = len(data) - len(torn)
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(event_from_line(line))
        except (ValueError, TypeError) as error:
            if number == len(lines) and not torn:
                return events, end - len(line) - 1
            raise StateError(
                f"{path}:{number}: found {line[:60].decode(errors='replace')!r}; expected an event of a rule log "
                f"({error}). Put the file back from a copy; without it, what judged past records is not known"
            ) from None
    return events, end


def _check_place(path: Path, descriptor: int) -> None:
    held = os.fstat(descriptor)
    try:
        there = path.stat()
    except OSError as error:
        problem = f"is no longer there ({error.strerror})"
    else:
        if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino):
            return
        problem = "was replaced by another file"
    raise RetryableError(
        f"the rule log {path} {problem}: nothing is loaded while the log that this run holds is not in its place. "
        f"Move that very file back; or stop this run, put back a copy, and start again"
    )


def sync_folder(folder: Path) -> None:
    """A new file is there after a power cut only once its folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep(path: Path, data: bytes, what: str) -> None:
    """Write ``data`` to the disk, unless the file exists. Raises RetryableError where the disk fails."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(gzip.compress(data, LEVEL if len(data) < LARGE else QUICK_LEVEL, mtime=0))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise RetryableError(f"{what} cannot be kept in {path}: {error.strerror}") from error


def staged_file(folder: Path, bring: Callable[[Path], None]) -> None:
    """Have ``bring`` be asked for what is kept beside the logs in ``folder`` and is not on this machine."""
    _BROUGHT[folder.absolute()] = bring


def bring(path: Path, *, beside: Path) -> None:
    """Have a file that is kept beside the logs in ``beside`` on this machine, where it is kept elsewhere."""
    brings = _BROUGHT.get(beside.absolute())
    if brings is not None and not path.exists():
        brings(path)


def kept(path: Path, digest: str, bytes_max: int, what: str) -> bytes:
    """What was kept at ``path``. Raises StateError where it is not there, or is another content."""
    bring(path, beside=path.parent.parent)
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _lost(path, what, f"cannot be read: {reason}") from None
    if digest_of(data) != digest:
        raise _lost(path, what, "was changed")
    return data


def _lost(path: Path, what: str, problem: str) -> StateError:
    return StateError(
        f"{path}, {what}, {problem}. Put the file back from a copy; without it, what judged past records is not known"
    )
