"""The list of chunks on disk: the bytes of each chunk.

A line is a file or a chunk. The line of a file has its number in the list, the name in its positions, its path, device
and inode; a change of these adds a line. A list of an older version has chunks with paths and nothing else.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossline.io.chunks import ChunkRef
from crossline.io.files import state_files
from crossline.io.files.sync import sync_path

# How a file is known again: up to which byte, and the digests of its first bytes and of those before that one.
Mark = tuple[int, str | None, str | None]
LIST = "chunks.jsonl"
TO_DO = (
    "restore the list from a copy, or move the checkpoint away: what the source still has is then judged again, "
    "and its alerts have the same ids"
)
_FORGET_MIN = 10_000  # chunks that are forgotten at once


@dataclass(slots=True, eq=False)
class ListedFile:
    """A file that was read up to byte ``read_to``; ``head`` and ``tail`` are digests.

    ``size``: as last seen; what lies behind ``read_to`` is no whole line yet. ``number`` and ``name``: in the list,
    once it has a chunk there. ``glimpse``: the mark of its half line, while there is nothing else of it. ``text``: of a
    compressed file or a table, how far it is in chunks, and ``whole`` whether that is all that its bytes hold.
    """

    path: str
    device: int | None = None
    inode: int | None = None
    read_to: int = 0
    head: str | None = None
    tail: str | None = None
    size: int = 0
    number: int | None = None
    name: str = ""
    glimpse: Mark | None = None
    text: int = 0
    whole: bool = True

    @property
    def mark(self) -> Mark:
        """How it is known again."""
        read_to = (self.read_to, self.head, self.tail)
        return read_to if self.read_to or self.glimpse is None else self.glimpse


class ChunkList:
    """The list in ``folder``, with one writer and any number of readers."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / LIST
        self._read = 0
        self._names: dict[str, list[int]] = {}
        self._written: dict[int, tuple[Any, ...]] = {}
        self._of: list[ListedFile] = []
        self.files: list[ListedFile] = []
        self._chunks: list[ChunkRef] = []
        self._first = 0  # the chunk from which on they are in memory

    def __len__(self) -> int:
        return self._first + len(self._chunks)

    @property
    def first(self) -> int:
        """The number of the first chunk that was not forgotten."""
        return self._first

    def refresh(self) -> None:
        """Read new entries. Read-only, so the writer may run."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            raw = file.read()
        size = raw.rfind(b"\n") + 1
        for number, line in enumerate(raw[:size].splitlines(), 1):
            state_files.read(self._path, line, self._apply_line, f"that is line {number}{self._since()}; {TO_DO}")
        self._read += size

    def _since(self) -> str:
        return f" after the first {self._read} bytes" if self._read else ""

    def _apply_line(self, line: bytes) -> None:
        self._apply(json.loads(line))

    def take_over(self) -> None:
        """Become the writer: remove a line that a kill truncated, which no reader has used."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.refresh()
        if self._path.exists() and self._path.stat().st_size > self._read:
            os.truncate(self._path, self._read)

    def _apply(self, line: dict[str, Any]) -> None:
        if "file" not in line:
            self._add(self._of_old(line["path"]), line["start"], line["end"])
        elif "path" in line:
            self._place(line)
        else:
            file = self.files[line["file"]]
            file.head, file.tail = line.get("head", file.head), line["tail"]
            file.whole = not line.get("more", False)
            self._add(
                file,
                line["start"],
                line["end"],
                line["listed_ms"],
                packed=line.get("packed"),
                fault=line.get("fault"),
                row_bytes=line.get("row_bytes"),
            )

    def _of_old(self, path: str) -> ListedFile:
        known = self._names.get(path)
        return self.files[self._of[known[0]].number or 0] if known else self._register(ListedFile(path), path)

    def _place(self, line: dict[str, Any]) -> None:
        if line["file"] == len(self.files):
            self._register(ListedFile(line["path"]), line["name"])
        file = self.files[line["file"]]
        file.path, file.device, file.inode = line["path"], line["device"], line["inode"]
        self._written[line["file"]] = (file.path, file.device, file.inode)

    def _register(self, file: ListedFile, name: str) -> ListedFile:
        file.number, file.name = len(self.files), name
        self.files.append(file)
        self._names[name] = []
        return file

    def _add(
        self,
        file: ListedFile,
        start: int,
        end: int,
        listed_ms: int | None = None,
        packed: int | None = None,
        fault: str | None = None,
        row_bytes: int | None = None,
    ) -> None:
        self._names[file.name].append(len(self))
        chunk = ChunkRef(
            sequence=len(self),
            path=file.path,
            start=start,
            end=end,
            name=file.name,
            head=file.head,
            tail=file.tail,
            listed_ms=listed_ms,
            packed=packed,
            fault=fault,
            row_bytes=row_bytes,
        )
        self._chunks.append(chunk)
        self._of.append(file)
        file.read_to = end if packed is None else packed
        file.text = 0 if packed is None else end

    def place_lines(self, file: ListedFile) -> list[dict[str, Any]]:
        """The line with the path of ``file``, where the list does not have it yet."""
        if file.number is None:
            self._register(file, self._free_name(file.path))
        number = file.number
        place = (file.path, file.device, file.inode)
        if number is None or self._written.get(number) == place:
            return []
        self._written[number] = place
        path, device, inode = place
        return [{"file": number, "name": file.name, "path": path, "device": device, "inode": inode}]

    def _free_name(self, path: str) -> str:
        """The path, or for a later file of that path another name: a position must stand for one record."""
        first = path.encode(errors="backslashreplace").decode()  # a file's name need not be text
        name, count = first, 1
        while name in self._names:
            count += 1
            name = f"{first}#{count}"
        return name

    def chunk_line(self, file: ListedFile, end: int, marks: tuple[str, str], listed_ms: int) -> dict[str, Any]:
        """Add the chunk of ``file`` that goes on to ``end``; its line, for ``write``."""
        head, tail = marks
        line = {"sequence": len(self), "file": file.number, "start": file.read_to, "end": end}
        same = head == file.head
        file.head, file.tail = head, tail
        self._add(file, file.read_to, end, listed_ms)
        return {**line, **({} if same else {"head": head}), "tail": tail, "listed_ms": listed_ms}

    def packed_line(
        self,
        file: ListedFile,
        end: int,
        marks: tuple[str, str],
        listed_ms: int,
        *,
        more: bool,
        fault: str | None = None,
        row_bytes: int | None = None,
    ) -> dict[str, Any]:
        """The same for a piece of a compressed file's text, or of a table; ``more``: there are more of this file."""
        head, tail = file.head, file.tail = marks
        file.whole = not more
        line = {"sequence": len(self), "file": file.number, "start": file.text, "end": end, "packed": file.size}
        self._add(file, file.text, end, listed_ms, file.size, fault, row_bytes)
        given = {"more": more or None, "fault": fault, "row_bytes": row_bytes}
        known = {name: value for name, value in given.items() if value is not None}
        return {**line, "head": head, "tail": tail, "listed_ms": listed_ms, **known}

    def write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Put lines on disk, synced, and the name of the list with the first of them."""
        with self._path.open("ab") as file:
            begins = file.tell() == 0
            file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
            self._read = file.tell()
        if begins:
            sync_path(self._path.parent)

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1, each with where its file is now; not those that were forgotten."""
        low, high = max(0, start - self._first), max(0, end - self._first)
        pairs = zip(self._chunks[low:high], self._of[low:high], strict=True)
        return [chunk if chunk.path == file.path else replace(chunk, path=file.path) for chunk, file in pairs]

    def forget(self, before: int) -> None:
        """Let go of the chunks before number ``before``, for who asks for late ones alone; the list on disk has all."""
        count = min(before, len(self)) - self._first
        if count < _FORGET_MIN:
            return
        del self._chunks[:count], self._of[:count]
        self._first += count
        for numbers in self._names.values():
            del numbers[: bisect_left(numbers, self._first)]

    def find(self, name: str, offset: int) -> ChunkRef | None:
        """The chunk of the file of that name in which ``offset`` lies."""
        numbers = self._names.get(name, [])
        at = bisect_right(numbers, offset, key=lambda number: self._chunks[number - self._first].start) - 1
        if at < 0 or offset >= self._chunks[numbers[at] - self._first].end:
            return None
        return self.chunks(numbers[at], numbers[at] + 1)[0]
