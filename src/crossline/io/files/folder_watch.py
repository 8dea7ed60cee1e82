"""Finds changes among the files of patterns, at a cost that grows with the changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from crossline.io.files.patterns import Found, find_files
from crossline.logs import get_logger

HOT_MS = 10_000  # files that changed so lately are looked at each time
LOOKS = 512  # of the others, about so many are looked at each time, in turns
FOLLOW_MS = 600_000  # how long a file whose name matches no more is read on, once it stands still

log = get_logger(__name__)


@dataclass(slots=True)
class _Seen:
    """A path at its last stat."""

    number: int
    stat: os.stat_result
    changed_ms: int


@dataclass(slots=True)
class FolderChanges:
    """Paths that exist, paths that are new or changed in size or file, and paths that are gone.

    ``ended``: no longer followed.
    """

    there: Found
    changed: dict[str, os.stat_result] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


class FolderWatch:
    """Watches the files of ``patterns``, and those passed to ``follow``."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._seen: dict[str, _Seen] = {}
        self._followed: set[str] = set()
        self._turn = 0
        self._logged: dict[str, str] = {}
        self.trouble: dict[str, str] = {}

    def look(self, now_ms: int) -> FolderChanges:
        """The changes at ``now_ms``. A path that cannot be read is in ``trouble``, and stops no other."""
        self._logged, self.trouble = self.trouble, {}
        look = FolderChanges(find_files(self._patterns, self.cannot))
        self._follow(look, now_ms)
        turns = 1 + len(look.there) // LOOKS
        self._turn += 1
        for place, (path, number) in enumerate(look.there.items(), self._turn):
            seen = self._seen.get(path)
            cold = seen is not None and now_ms - seen.changed_ms >= HOT_MS
            if seen is not None and cold and seen.number == number != 0 and place % turns:
                continue
            stat = self._stat(path)
            if stat is None or (seen is not None and _marks(seen.stat) == _marks(stat)):
                continue
            changed_ms = now_ms if seen is not None else min(now_ms, stat.st_mtime_ns // 1_000_000)
            self._seen[path] = _Seen(number, stat, changed_ms)
            look.changed[path] = stat
        missing = [path for path in self._seen.keys() - look.there.keys() if path not in look.ended]
        look.gone = [path for path in missing if not self._hidden(path)]
        for path in (*look.gone, *look.ended):
            self._seen.pop(path, None)
        return look

    def _follow(self, look: FolderChanges, now_ms: int) -> None:
        for path in list(self._followed):
            seen = self._seen.get(path)
            if path in look.there:
                self._followed.discard(path)
            elif seen is not None and now_ms - seen.changed_ms >= FOLLOW_MS:
                self._followed.discard(path)
                look.ended.append(path)
            elif os.path.lexists(path):
                look.there[path] = 0
            else:
                self._followed.discard(path)

    def follow(self, path: str, stat: os.stat_result, now_ms: int) -> None:
        """Watch a path outside the patterns, as long as it grows."""
        self._followed.add(path)
        self._seen[path] = _Seen(0, stat, now_ms)

    def forget(self, path: str) -> None:
        """Look at it next time as at a new one."""
        self._seen.pop(path, None)

    def _hidden(self, path: str) -> bool:
        """Whether a missing file may exist in a folder that cannot be read now."""
        if not self.trouble:
            return False
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return os.stat(path)  # noqa: PTH116 - half the time of Path.stat, ten thousand times
        except FileNotFoundError:  # a file may go while we look
            return None
        except OSError as error:
            self.cannot(path, error)
            return None

    def cannot(self, path: str, error: OSError) -> None:
        """A file cannot be read: log it once, and retry."""
        text = f"{path}: cannot be read: {error.strerror}"
        if path not in self.trouble and self._logged.get(path) != text:
            log.warning("a file of a source cannot be read, the others go on", file=path, error=text)
        self.trouble[path] = text


def _marks(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
