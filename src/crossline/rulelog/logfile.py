"""The file of a rule log: events, appended whole, read back without what a kill cut off."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from crossline.core.errors import RetryableError, StateError
from crossline.rulelog.events import RuleEvent, event_from_line


class LogFile:
    """An open rule log, held by one process at a time. ``append`` returns once the events are on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._size = 0

    def open(self) -> list[RuleEvent]:
        """Take hold of the file, made where it is not there, and give its events; cuts off a last line that is torn.

        Raises StateError where another process holds it, or where it is damaged before its last line.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            events, self._size = parse_events(self.path.read_bytes(), self.path)
            if not any(event.event == "started" for event in events):
                # The first start ended before it was written down; it has no effect, and is done again.
                events, self._size = [], 0
            os.ftruncate(descriptor, self._size)
            os.fsync(descriptor)
            _sync_folder(self.path.parent)
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
        if self._descriptor is None:
            raise StateError(f"{self.path} is not open")
        data = b"".join(event.to_line() for event in events)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise RetryableError(f"the rule log {self.path} cannot be written: {error.strerror}") from error
        self._size += len(data)

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


def _sync_folder(folder: Path) -> None:
    """A new file is there after a power cut only once its folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader meets the old file or the new one, never a part."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        aside.chmod(path.stat().st_mode & 0o7777)
    aside.replace(path)
    _sync_folder(path.parent)
