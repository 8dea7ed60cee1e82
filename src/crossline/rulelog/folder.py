"""Notices when files in a folder change: by name, time and size first, by content to be sure."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A file written twice within one tick of the file system's clock keeps its time: one this young is read again.
_YOUNG_NS = 100_000_000

_Stamps = dict[str, tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was read: its bytes, or why it could not be read."""

    data: bytes
    error: str | None = None

    @property
    def digest(self) -> str:
        """Of the content."""
        return digest_of(self.data if self.error is None else self.error.encode())


Files = Mapping[str, FileContent]


def digest_of(data: bytes) -> str:
    """128 bits of BLAKE2b, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Folder:
    """The files in ``path`` with one of ``suffixes``; no hidden ones, no subfolders. A missing folder is empty."""

    def __init__(self, path: Path, suffixes: tuple[str, ...]) -> None:
        self.path = path
        self._suffixes = suffixes
        self._stamps: _Stamps | None = None
        self._taken: Files | None = None

    def changed(self) -> Files | None:
        """All files, where any differs from those last given to ``take``; else None. Cheap while nothing is touched."""
        stamps = self._stat()
        if stamps == self._stamps:
            return None
        files = self._read(stamps)
        if files == self._taken:
            self._trust(stamps)
            return None
        return files

    def take(self, files: Files) -> None:
        """Note that ``files``, as given by ``changed``, were dealt with."""
        self._taken = files
        self._stamps = None

    def _trust(self, stamps: _Stamps) -> None:
        now_ns = time.time_ns()
        if all(now_ns - changed_ns > _YOUNG_NS for changed_ns, *_ in stamps.values()):
            self._stamps = stamps

    def _stat(self) -> _Stamps:
        try:
            with os.scandir(self.path) as entries:
                found = [e for e in entries if e.name.endswith(self._suffixes) and not e.name.startswith(".")]
                return {e.name: _stamp(e) for e in sorted(found, key=lambda e: e.name) if e.is_file()}
        except FileNotFoundError:
            return {}

    def _read(self, stamps: _Stamps) -> Files:
        files = {}
        for name in stamps:
            try:
                files[name] = FileContent((self.path / name).read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                files[name] = FileContent(b"", error.strerror or str(error))
        return files


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int, int]:
    stat = entry.stat()
    # The time of change beside that of modification, which copying tools set back.
    return stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino
