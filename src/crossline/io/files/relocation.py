"""Files that are not where they were: found again by their number or by their content, under whatever name."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from crossline.io.files.identity import PIECE, head_at, tail_at
from crossline.io.files.listing import ListedFile
from crossline.io.files.patterns import Found, Trouble, entries

ALIKE_MAX = 64  # files that begin alike, as CSV does with a long header, are remembered so far back


class LostFiles:
    """Files of the list whose path is unknown now, by their first bytes."""

    def __init__(self, files: Iterable[ListedFile]) -> None:
        self._by_head: defaultdict[tuple[int, str], dict[ListedFile, None]] = defaultdict(dict)
        self._sizes: Counter[int] = Counter()
        self._count = 0
        for file in files:
            self.add(file)

    def __bool__(self) -> bool:
        return bool(self._count)

    def add(self, file: ListedFile) -> None:
        """It is not where it was."""
        alike = self._by_head[_key(file)]
        if file.mark[1] is None or file in alike:
            return
        if len(alike) == ALIKE_MAX:
            self.discard(next(iter(alike)))
        alike[file] = None
        self._sizes[_key(file)[0]] += 1
        self._count += 1

    def discard(self, file: ListedFile) -> None:
        """It was found, or its content stands elsewhere."""
        if file in self._by_head.get(_key(file), ()):
            del self._by_head[_key(file)][file]
            self._sizes[_key(file)[0]] -= 1
            self._count -= 1

    def in_file(self, file: BinaryIO) -> ListedFile | None:
        """The lost file whose read content is a prefix of ``file``; of several the longest."""
        size = os.fstat(file.fileno()).st_size
        known = [
            lost
            for length in [n for n, count in self._sizes.items() if count and n <= size]
            for lost in self._by_head.get((length, head_at(file, length)), ())
        ]
        for lost in sorted(known, key=lambda each: -each.mark[0]):
            end, _, tail = lost.mark
            if end <= size and tail == tail_at(file, end):
                return lost
        return None


def _key(file: ListedFile) -> tuple[int, str]:
    end, head, _ = file.mark
    return min(PIECE, end), head or ""


def moved(files: Iterable[ListedFile], there: Found, trouble: Trouble) -> Iterator[tuple[str, ListedFile]]:
    """(path, file) of files that may have been renamed, in their folder, to a name that no pattern matches."""
    for names, mine in _by_folder(files, there, trouble):
        by_number = {file.inode: file for file in mine if file.inode is not None}
        yield from ((path, by_number[number]) for path, number in names if number in by_number)


def copies(files: Iterable[ListedFile], there: Found, trouble: Trouble) -> Iterator[str]:
    """Paths, in the folders of files, that begin like one of them and that no pattern matches: ``a.log.1``."""
    for names, mine in _by_folder(files, there, trouble):
        begin = tuple({file.path for file in mine})
        yield from (path for path, _ in names if path.startswith(begin))


def _by_folder(
    files: Iterable[ListedFile], there: Found, trouble: Trouble
) -> Iterator[tuple[list[tuple[str, int]], list[ListedFile]]]:
    folders: defaultdict[str, list[ListedFile]] = defaultdict(list)
    for file in files:
        folders[str(Path(file.path).parent)].append(file)
    for folder, mine in folders.items():
        names = [(path, number) for path, number in entries(folder, trouble) if path not in there]
        if names:
            yield names, mine
