"""Notices when files in a folder change: by name, time and size first, by content to be sure."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from crossline.basics.errors import RetryableError
from crossline.rule_registry.content import FileContent, content_in_folder
from crossline.rule_registry.events import RuleEvent

# A file written twice within one tick of the file system's clock keeps its time: one this young is read again.
_YOUNG_NS = 100_000_000

_Stamps = dict[str, tuple[int, int, int, int]]

Files = Mapping[str, FileContent]


class Folder:
    """The files in ``path`` with one of ``suffixes``; no hidden ones, nothing in subfolders. A missing folder is empty.

    What bears such a name and is no file of at most ``bytes_max`` that can be read has its reason as its content.
    ``only``: the file of this name alone. ``other``: ends of names of files that are something else.
    """

    def __init__(
        self,
        path: Path,
        suffixes: tuple[str, ...],
        bytes_max: int,
        only: str | None = None,
        *,
        other: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self._only = only
        self._other = other
        self._suffixes = suffixes
        self._bytes_max = bytes_max
        self._stamps: _Stamps | None = None
        self._loaded: dict[str, str] | None = None  # digests: contents may be large

    def changed(self) -> Files | None:
        """All files, where any differs from those last given to ``take``; else None. Cheap while nothing is touched.

        Raises RetryableError where the folder itself cannot be read.
        """
        stamps = self._stat()
        if stamps == self._stamps:
            return None
        files = self._read(stamps)
        if _digests(files) == self._loaded:
            self._trust(stamps)
            return None
        return files

    def take(self, files: Files) -> None:
        """Note that ``files``, as given by ``changed``, were dealt with."""
        self._loaded = _digests(files)
        self._stamps = None

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """A folder has all that it had."""

    @property
    def more(self) -> bool:
        """Never: what is there is given at once."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _trust(self, stamps: _Stamps) -> None:
        now_ns = time.time_ns()
        if all(now_ns - changed_ns > _YOUNG_NS for changed_ns, *_ in stamps.values()):
            self._stamps = stamps

    def _stat(self) -> _Stamps:
        try:
            with os.scandir(self.path) as entries:
                found = [e for e in entries if self._is_meant(e.name)]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RetryableError(f"the folder {self.path} cannot be read: {error.strerror}") from error
        stamps = ((entry.name, _stamp(entry)) for entry in sorted(found, key=lambda entry: entry.name))
        return {name: stamp for name, stamp in stamps if stamp is not None}

    def _is_meant(self, name: str) -> bool:
        if self._only is not None:
            return name == self._only
        return name.endswith(self._suffixes) and not name.startswith(".") and not name.endswith(self._other)

    def _read(self, stamps: _Stamps) -> Files:
        files = {}
        for name in stamps:
            content = content_in_folder(self.path / name, self._bytes_max)
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if content is not None:
                # No log could hold the name of such a file.
                files[shown] = content if shown == name else FileContent(b"", "a name that is not UTF-8")
        return files


def _digests(files: Files) -> dict[str, str]:
    return {name: content.digest for name, content in files.items()}


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int, int] | None:
    """What changes with the file, or with a link that leads nowhere; None where it is gone."""
    for follow in (True, False):
        try:
            stat = entry.stat(follow_symlinks=follow)
        except OSError:
            continue
        # The time of change beside that of modification, which copying tools set back.
        return stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino
    return None
