"""What tables from topics held, of a pipeline whose checkpoint is on a store: with it there, as its rule log is.

The files beside the rule log that grow (``rule_registry/rows/segments.py``) have copies in the checkpoint's folder, of
whole lines, which go to the store with all else that the driver keeps. The contents that they begin with are objects
of their own, put before the copy that names them, and fetched when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore
from crossline.rule_registry.rows.segments import ENDING, rows_folder, unread
from crossline.runtime.snapshot.append_files import append, complete_lines, continues

Replace = Callable[[Path, bytes], None]


@dataclass(slots=True)
class _Followed:
    """A table: the change of its folder that was looked at, its files and how much of each the copies have."""

    looked_ns: int = -1
    sizes: dict[str, int] = field(default_factory=dict)


class RowCopies:
    """Has copies in ``folder`` follow the tables beside the rule log at ``log``; contents go below ``kept``."""

    def __init__(self, log: Path, folder: Path, store: FileStore, kept: str) -> None:
        self._rows = rows_folder(log)
        self._copies = folder
        self._store = store
        self._kept = kept
        self._there: set[str] | None = None
        self._tables: dict[str, _Followed] = {}

    def restore(self, epoch: int, replace: Replace, *, anew: bool) -> None:
        """Have the files here be those of the copies; ``anew``: what they have more was not logged by this log."""
        copies = sorted(self._copies.glob(f"*/*{ENDING}")) if self._copies.exists() else []
        for copy in copies:
            table, name = copy.parent.name, copy.name
            data, path = copy.read_bytes(), self._rows / table / name
            self._tables.setdefault(table, _Followed()).sizes[name] = len(data)
            found = path.read_bytes() if path.exists() else b""
            if found != data and (anew or not found.startswith(data)):
                replace(path, data)
        if anew and self._rows.exists():
            mine = {(copy.parent.name, copy.name) for copy in copies}
            for path in self._rows.glob(f"*/*{ENDING}"):
                if (path.parent.name, path.name) not in mine:
                    path.rename(path.with_name(f"{path.name}.before-{epoch}"))
            for table in {copy.parent.name for copy in copies}:
                unread(self._rows / table)

    def follow(self) -> None:
        """Have the copies get what was appended since.

        Raises StoreUnavailableError, or StateError where a file is not what it was.
        """
        if self._rows.exists():
            for folder in sorted(each for each in self._rows.iterdir() if each.is_dir()):
                self._follow(folder, self._tables.setdefault(folder.name, _Followed()))

    def _follow(self, folder: Path, known: _Followed) -> None:
        changed_ns = folder.stat().st_mtime_ns
        if changed_ns != known.looked_ns:
            names = sorted(each.name for each in folder.glob(f"*{ENDING}"))
            known.sizes |= {name: 0 for name in names if name not in known.sizes}
            for name in names:
                self._grown(folder / name, known)
            known.looked_ns = changed_ns
        elif known.sizes:
            self._grown(folder / max(known.sizes), known)  # only the last one grows

    def _grown(self, path: Path, known: _Followed) -> None:
        size = known.sizes[path.name]
        if path.stat().st_size == size:
            return
        copy = self._copies / path.parent.name / path.name
        with path.open("rb") as file:
            if not continues(file, copy, size):
                raise StateError(
                    f"{path} does not go on from what it was when records were judged by it: put it back from a copy"
                )
            more = complete_lines(file, size)
        if not more:
            return
        if not size:
            self._put(path.parent, str(orjson.loads(more[: more.index(b"\n")])["base"]))
        known.sizes[path.name] = append(copy, size, more)

    def _put(self, folder: Path, base: str) -> None:
        """The content of this digest, before anything speaks of it."""
        if self._there is None:
            self._there = set(self._store.names(self._kept))
        name = f"{base}.rows"
        if name not in self._there:
            self._store.put(f"{self._kept}/{name}", (folder / name).read_bytes())
            self._there.add(name)
