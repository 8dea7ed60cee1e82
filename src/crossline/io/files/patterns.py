"""Which files there are: what patterns stand for, in name order."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from pathlib import Path

WILD = frozenset("*?[")
# (path, error): called for files and folders that cannot be read.
Trouble = Callable[[str, OSError], None]
# The inode in the folder entry; 0 where it needs a stat.
Found = dict[str, int]


def _no_matter(_path: str, _error: OSError) -> None:
    """Whoever only asks what there is."""


def matching_files(patterns: Iterable[str], trouble: Trouble = _no_matter) -> list[str]:
    """Files that ``patterns`` stand for, each a file, a folder or a glob, in name order.

    Hidden and unfinished (.tmp) ones are left out. What cannot be looked at is for ``trouble``, and stops no other.
    """
    return sorted(find_files(patterns, trouble))


def find_files(patterns: Iterable[str], trouble: Trouble) -> Found:
    """The same with each file's number in its folder, unsorted: one look at each folder, none at its files."""
    found: Found = {}
    for pattern in patterns:
        try:
            for path, number in _matches(pattern, trouble):
                name = path.rpartition("/")[2]
                if not name.startswith((".", "_")) and not name.endswith(".tmp"):
                    found[path] = number
        except OSError as error:  # a folder on the way that may not be entered
            trouble(pattern, error)
    return found


def _matches(pattern: str, trouble: Trouble) -> Iterator[tuple[str, int]]:
    mode = _mode(pattern)
    if stat.S_ISDIR(mode):
        yield from entries(pattern, trouble)
        return
    if stat.S_ISREG(mode):
        yield pattern, 0
        return
    parts = Path(pattern).parts
    first = next((number for number, part in enumerate(parts) if WILD & set(part)), None)
    if first is None:
        return
    base = str(Path(*parts[:first])) if first else "."
    if first == len(parts) - 1 and "**" not in parts[first]:
        fits = re.compile(translate(parts[first])).fullmatch
        yield from ((p, n) for p, n in entries(base, trouble) if fits(p.rpartition("/")[2]))
        return
    with suppress(FileNotFoundError):
        for path in Path(base).glob(str(Path(*parts[first:]))):
            try:
                if stat.S_ISREG(_mode(path)):
                    yield str(path), 0
            except OSError as error:
                trouble(str(path), error)


def _mode(path: str | Path) -> int:
    """What stands at ``path``, 0 where nothing does. Raises OSError where that cannot be seen."""
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def entries(folder: str, trouble: Trouble) -> Iterator[tuple[str, int]]:
    """The files of one folder, each with its number in it. Nothing where the folder is not there."""
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                try:
                    if entry.is_file():
                        yield entry.path, 0 if entry.is_symlink() else entry.inode()
                except OSError as error:  # a link that leads to itself
                    trouble(entry.path, error)
    except FileNotFoundError:
        return
    except OSError as error:
        trouble(folder, error)
