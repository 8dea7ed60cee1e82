"""The files that match patterns, as one log of chunks: what is new in them, wherever they are moved."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef, ReadLimit
from crossline.io.files.compression import PackedError, PackedText, packed_cuts, packing_of
from crossline.io.files.folder_watch import FolderChanges, FolderWatch
from crossline.io.files.identity import has, head_at, tail_at
from crossline.io.files.lines import Unended, cuts, is_whole
from crossline.io.files.listing import ChunkList, ListedFile, Mark
from crossline.io.files.parquet_rows import table_size
from crossline.io.files.relocation import LostFiles, copies, moved
from crossline.logs import get_logger

log = get_logger(__name__)


def _all_of_it(_path: str) -> int | None:
    """None: most files count as far as they reach."""
    return None


class FileChunks:
    """The files that match patterns, in name order as they appear, as one log.

    Files may grow; a line counts once it is ended, a last one without an end is treated as ``unended`` sets. A file is
    known by its content and inode. A renamed file is read on, also under a name that no pattern matches. A different or
    truncated file under the same name is a new file. ``folder`` holds the list of chunks; a chunk is on disk before its
    number is used. ``whole_files``: a file counts once it is whole, and its chunks are rows (Parquet). One that is
    compressed does, too; its chunks are pieces of its text. ``size_of``: how many bytes of a path count by now.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        folder: str,
        chunk_bytes: int,
        *,
        whole_files: bool = False,
        unended: Unended = "waits",
        size_of: Callable[[str], int | None] = _all_of_it,
    ) -> None:
        self._patterns = patterns
        self._folder = folder
        self._chunk_bytes = chunk_bytes
        self._whole_files = whole_files
        self._unended: Unended = unended
        self._size_of = size_of
        self._open()

    def _open(self) -> None:
        """As the list on disk has it; no file was looked at yet."""
        self._list = ChunkList(self._folder)
        self._list.take_over()
        files = self._list.files
        self._watch = FolderWatch(self._patterns)
        self._sums: list[int] = [0]
        self._at: dict[str, ListedFile] = {}
        self._loose = list(files)
        self._lost = LostFiles(files)
        self._by_inode = {(f.device, f.inode): f for f in files if f.inode is not None}
        self._by_path = {f.path: f for f in files}

    def poll(self, now_ms: int) -> int:
        """Cut what is new in the files into chunks; a directory stands for all files in it.

        Raises:
            SourceError: bytes that were seen, and were no whole line yet, are gone; or, where files are finished, one
                cannot be read. Told once: the next process goes on without those bytes.
        """
        try:
            gone = self._poll(now_ms)
        except BaseException:
            self._open()  # what is in memory may not be on disk
            raise
        if gone:
            raise SourceError("; ".join(gone))
        return len(self._list)

    def _poll(self, now_ms: int) -> list[str]:
        look = self._watch.look(now_ms)
        for path in look.ended:
            self._end(path)
        self._loose += [self._at.pop(path) for path in (*look.gone, *look.changed) if path in self._at]
        for file in self._loose:
            self._lost.add(file)
        known = self._find(look, now_ms)
        lines: list[dict[str, Any]] = []
        for path in sorted(known, key=lambda path: _age(self._at[path])):
            lines += self._take(path, self._at[path], look.changed[path], now_ms)
        for path in sorted(look.changed.keys() - known):
            if not self._other_name(path, look.changed[path]):
                lines += self._take(path, ListedFile(path), look.changed[path], now_ms)
        gone = [_gone(file) for file in self._loose if not self._placed(file) and file.size > file.read_to]
        self._loose = []
        if lines:
            self._list.write(lines)
        return gone + (self.left() if self._unended == "counts" else [])

    def _placed(self, file: ListedFile) -> bool:
        return self._at.get(file.path) is file

    def _place(self, path: str, file: ListedFile, stat: os.stat_result) -> None:
        self._lost.discard(file)
        file.path, file.device, file.inode = path, stat.st_dev, stat.st_ino
        self._at[path] = self._by_path[path] = self._by_inode[stat.st_dev, stat.st_ino] = file

    def _find(self, look: FolderChanges, now_ms: int) -> set[str]:
        """Put files that are known where they are now; which of ``look.changed`` those paths are.

        First by number, under names that match and then under others: two files may begin alike, and a rest under the
        old one's new name must not be missed for that. Then by content, in the same order.
        """
        known: set[str] = set()
        for path, stat in list(look.changed.items()):
            if self._other_name(path, stat):
                del look.changed[path]
            else:
                before = self._by_inode.get((stat.st_dev, stat.st_ino))
                # An empty one has nothing but its number, unless the list has a name for it.
                empty = before is not None and not before.mark[0] and before.number is None
                if not empty and self._is(path, before, stat):
                    known.add(path)
        for path, file in moved(self._free(), look.there, self._watch.cannot):
            known |= self._follow(path, file, look, now_ms)
        for path in look.changed.keys() - known:
            before = self._by_path.get(path)
            if before is not None and before.mark[0] and self._is(path, before, look.changed[path], before.mark):
                known.add(path)
        if self._lost:
            for path in sorted(look.changed.keys() - known):
                if self._is(path, self._as_copy(path), look.changed[path]):
                    known.add(path)
            for path in copies(self._free(), look.there, self._watch.cannot):
                known |= self._follow(path, self._as_copy(path), look, now_ms)
        return known

    def _free(self) -> list[ListedFile]:
        return [file for file in self._loose if not self._placed(file)]

    def _other_name(self, path: str, stat: os.stat_result) -> bool:
        """Whether it is a file that has another name already; under two names it is read once."""
        number = (stat.st_dev, stat.st_ino)
        file = self._by_inode.get(number)
        if file is None or file.path == path or not self._placed(file) or (file.device, file.inode) != number:
            return False
        self._watch.forget(path)
        return True

    def _is(self, path: str, file: ListedFile | None, stat: os.stat_result, mark: Mark | None = None) -> bool:
        """Whether ``path`` is ``file``, which is nowhere else; then it is placed there."""
        if file is None or self._placed(file):
            return False
        if mark is None:  # the writer may still change an incomplete line
            mark = file.mark if path != file.path else (file.read_to, file.head, file.tail)
        try:
            with Path(path).open("rb") as handle:
                same = has(handle, *mark)
        except FileNotFoundError:
            return False
        except OSError:
            same = True  # as far as one can see; it will be tried again
        if self._whole_files and file.read_to not in (0, stat.st_size):
            same = False  # written anew in place
        if same:
            self._place(path, file, stat)
        return same

    def _as_copy(self, path: str) -> ListedFile | None:
        """The missing file that this file continues, because it begins with all of its bytes; else None."""
        try:
            with Path(path).open("rb") as handle:
                lost = self._lost.in_file(handle)
        except OSError:
            return None
        if lost is None:
            return None
        log.info("a file goes on where another was read to", file=path, other=lost.path, byte=lost.read_to)
        self._lost.discard(lost)
        lost.size = lost.read_to
        copy = ListedFile(path, read_to=lost.read_to, head=lost.head, tail=lost.tail)
        copy.text, copy.whole = lost.text, lost.whole
        return copy

    def _follow(self, path: str, file: ListedFile | None, look: FolderChanges, now_ms: int) -> set[str]:
        """Read on a file under a name that no pattern matches."""
        try:
            stat = Path(path).stat()
        except OSError:
            return set()
        if not self._is(path, file, stat):
            return set()
        self._watch.follow(path, stat, now_ms)
        look.changed[path] = stat
        return {path}

    def _end(self, path: str) -> None:
        file = self._at.pop(path)
        self._lost.add(file)
        if file.size > file.read_to:
            log.warning("the last line of a file that was renamed has no end: left out", file=path, byte=file.read_to)

    def _take(self, path: str, file: ListedFile, stat: os.stat_result, now_ms: int) -> list[dict[str, Any]]:
        """Cut what is new in one file; the lines of the list that say so."""
        try:
            with Path(path).open("rb") as handle:
                now = os.fstat(handle.fileno())
                if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino):
                    self._watch.forget(path)  # it was replaced since it was looked at
                    return []
                self._place(path, file, stat)
                most = self._size_of(path)
                file.size = now.st_size if most is None else min(most, now.st_size)
                if file.size < now.st_size:
                    self._watch.forget(path)  # the rest counts soon, without a change of the file
                if self._whole_files:
                    return self._take_table(handle, file, now_ms)
                if file.text or packing_of(handle) is not None:
                    return self._take_packed(handle, file, now_ms)
                ends = cuts(handle, file.read_to, file.size, self._chunk_bytes, self._unended)
                marks = [(end, head_at(handle, end), tail_at(handle, end)) for end in ends]
                if not marks and not file.read_to and file.size:
                    file.glimpse = (file.size, head_at(handle, file.size), tail_at(handle, file.size))
        except FileNotFoundError:
            return []
        except OSError as error:
            self._watch.cannot(path, error)
            self._watch.forget(path)
            return []
        lines = self._list.place_lines(file) if marks else []
        return lines + [self._list.chunk_line(file, end, (head, tail), now_ms) for end, head, tail in marks]

    def _take_packed(self, handle: BinaryIO, file: ListedFile, now_ms: int) -> list[dict[str, Any]]:
        """Cut the text of a compressed file, once the file is whole. A damaged file is one chunk."""
        if file.whole and file.read_to == file.size:
            return []
        marks = head_at(handle, file.size), tail_at(handle, file.size)
        ends, fault = list[int](), None
        text = PackedText(os.fdopen(os.dup(handle.fileno()), "rb"))
        try:
            ends = list(packed_cuts(text, file.text, self._chunk_bytes))
        except PackedError as error:
            if error.short and self._unended != "counts":
                file.glimpse, file.whole = None if file.read_to else (file.size, *marks), False
                return []
            ends, fault = [file.text + file.size], str(error)
        finally:
            text.close()
        if not ends:
            file.read_to, file.whole, (file.head, file.tail) = file.size, True, marks
            return []
        given = partial(self._list.packed_line, file, marks=marks, listed_ms=now_ms, fault=fault)
        return self._list.place_lines(file) + [given(end, more=end != ends[-1]) for end in ends]

    def _take_table(self, handle: BinaryIO, file: ListedFile, now_ms: int) -> list[dict[str, Any]]:
        """Cut the rows of a Parquet file; one without rows, or that is no table, is one chunk of all its bytes."""
        if (file.read_to and file.whole) or not file.size:
            return []
        marks = head_at(handle, file.size), tail_at(handle, file.size)
        if self._unended != "counts" and not is_whole(handle, file.size):
            file.glimpse = (file.size, *marks)
            return []
        rows, each = table_size(handle)
        lines = self._list.place_lines(file)
        if not rows:
            return [*lines, self._list.chunk_line(file, file.size, marks, now_ms)]
        step, last = max(1, self._chunk_bytes // each) * each, rows * each
        for start in range(file.text, last, step):
            end = min(start + step, last)
            lines.append(self._list.packed_line(file, end, marks, now_ms, more=end < last, row_bytes=each))
        return lines

    def reach(self, start: int, most: ReadLimit) -> int:
        """The first chunk, and those after it as far as there is room."""
        if start >= len(self._list):
            return start
        fresh = self._list.chunks(len(self._sums) - 1, len(self._list))
        self._sums += list(accumulate((self._size(chunk) for chunk in fresh), initial=self._sums[-1]))[1:]
        last = bisect_right(self._sums, self._sums[start] + most.size) - 1
        return min(max(last, start + 1), start + most.chunks)

    def _size(self, chunk: ChunkRef) -> int:
        size = chunk.end - chunk.start
        whole = self._whole_files and chunk.row_bytes is None
        return size if whole else min(size, self._chunk_bytes)  # what a line's end adds is not counted

    def _unit(self, file: ListedFile) -> str:
        return "file" if self._whole_files else "line" if file.whole else "archive"

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1, each with where its file is now."""
        return self._list.chunks(start, end)

    def left(self) -> list[str]:
        """Last lines without an end, and files that cannot be read."""
        rest = sorted((f for f in self._at.values() if f.size > f.read_to), key=lambda f: f.path)
        texts = [f"{f.path}: bytes {f.read_to}-{f.size} are no whole {self._unit(f)} yet" for f in rest]
        return texts + [self._watch.trouble[path] for path in sorted(self._watch.trouble)]


def _age(file: ListedFile) -> tuple[bool, int, str]:
    """Files in the order in which they came to the list, then those that are new to it."""
    return (file.number is None, file.number or 0, file.path)


def _gone(file: ListedFile) -> str:
    what = "line" if file.whole else "archive"
    return (
        f"{file.path}: bytes {file.read_to}-{file.size}, no whole {what} when they were last seen, are gone: the file "
        "was cut short or removed; put it back under any name in its folder, or start again: the run goes on without "
        "them"
    )
