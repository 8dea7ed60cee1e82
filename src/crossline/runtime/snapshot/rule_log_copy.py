"""The rule log of a pipeline whose checkpoint is on a store: with it there, so that a driver elsewhere has it too.

The log is a file that the driver appends to, in the folder of its rules, where people and commands look for it. The
checkpoint's folder has a copy that follows, of whole lines, and goes to the store with all else that the driver keeps:
what a batch is judged by is there before it is judged. What the log speaks of (lists, tables) lies beside it by its
digest; each of those is an object of its own, put before the note whose log names it, and fetched when it is needed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore, StoreUnavailableError, retry_until_available
from crossline.logs import get_logger
from crossline.rule_registry.log_file import parse_events, staged_file
from crossline.runtime.snapshot.append_files import append, complete_lines, continues
from crossline.runtime.snapshot.row_copies import RowCopies

FOLDER, KEPT, ROWS = "rulelog", "kept", "rows"
_AWAY_S_MAX = 60.0

log = get_logger(__name__)


class RuleLogCopy:
    """Has the copy of the log at ``path`` in ``folder`` follow it; what lies beside the log goes to ``store``."""

    def __init__(self, path: Path, folder: Path, store: FileStore, shown: str) -> None:
        self._path = path
        self._copy = folder / FOLDER / path.name
        self._store = store
        self._shown = shown
        self._size = 0
        self._tables = RowCopies(path, folder / FOLDER / ROWS, store, f"{KEPT}/{ROWS}")
        self._there: dict[str, set[str]] = {}

    def restore(self, epoch: int) -> None:
        """Replace the log by the copy, where it is behind the copy or a different log. A different one is backed up.

        Raises StateError where another process holds it.
        """
        staged_file(self._path.parent, self._bring)
        if not self._copy.exists():
            return
        noted = self._copy.read_bytes()
        self._size = len(noted)
        was_here = self._restored(noted, epoch)
        self._tables.restore(epoch, _replace, anew=not was_here)

    def _restored(self, noted: bytes, epoch: int) -> bool:
        """Whether the log was here, with all that was noted of it."""
        if not self._path.exists():
            log.info("the rule log comes from the store", log=str(self._path), checkpoint=self._shown)
            self._write(noted)
            return False
        with self._path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"{self._path} is held by another run of this pipeline: stop that one first") from None
            found = file.read()
            if found.startswith(noted):
                return True  # what it has more was logged, and nothing was judged by it elsewhere
            if not noted.startswith(found):
                backup = self._path.with_name(f"{self._path.name}.before-{epoch}")
                log.warning(
                    "the rule log here is not the one that judged by this checkpoint; it was moved to a backup",
                    log=str(self._path),
                    backup=str(backup),
                    checkpoint=self._shown,
                )
                os.link(self._path, backup)
            self._write(noted)
        return False

    def follow(self) -> None:
        """Have the copy get what was appended since.

        Raises StoreUnavailableError where the store does not take the rest, StateError where what was noted is gone
        from it.
        """
        self._tables.follow()
        if not self._path.exists() or self._path.stat().st_size == self._size:
            return  # a deleted log is reported by the process that writes it
        with self._path.open("rb") as file:
            if not self._goes_on(file):
                self._size = 0
            more = complete_lines(file, self._size)
        if not more:
            return
        events, _ = parse_events(more, self._path)
        named = {digest for event in events for digest in (event.digest, *(event.files or {}).values()) if digest}
        self._put(named)
        self._size = append(self._copy, self._size, more)

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether the copy is how ``file`` begins; a first start that was cut off is begun anew."""
        if continues(file, self._copy, self._size):
            return True
        if any(event.event == "started" for event in parse_events(self._copy.read_bytes(), self._copy)[0]):
            raise StateError(
                f"the rule log {self._path}: does not go on from what it was when it judged; put it back "
                f"from a copy, or move it away: then it comes from {self._shown} at the next start"
            )
        return False

    def _put(self, digests: Iterable[str]) -> None:
        """The contents of these digests that lie beside the log."""
        wanted = set(digests)
        for beside in sorted(each for each in self._path.parent.iterdir() if each.is_dir()):
            for content in sorted(beside.iterdir()):
                if content.name.partition(".")[0] in wanted:
                    self._put_one(beside.name, content)

    def _put_one(self, kind: str, content: Path) -> None:
        folder = f"{KEPT}/{kind}"
        if kind not in self._there:
            self._there[kind] = set(self._store.names(folder))
        if content.name not in self._there[kind]:
            self._store.put(f"{folder}/{content.name}", content.read_bytes())
            self._there[kind].add(content.name)

    def _bring(self, path: Path) -> None:
        """Have a content that lies beside the log on this machine, where the store has it."""
        kind = ROWS if path.suffix == f".{ROWS}" else path.parent.name
        name = f"{KEPT}/{kind}/{path.name}"
        try:
            data = retry_until_available(lambda: self._store.get(name), within_s=_AWAY_S_MAX)
        except (FileNotFoundError, StoreUnavailableError) as error:
            log.warning("what the rule log speaks of is not to be had", content=name, error=str(error))
            return
        _replace(path, data)

    def _write(self, data: bytes) -> None:
        _replace(self._path, data)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
