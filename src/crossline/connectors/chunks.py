"""Logs of chunks: what a source of files, or the generator, has to offer, cut into numbered pieces.

A chunk is a range that one task decodes. Chunk numbers are the order of the log and never change: the list is on disk
before a number is given out, so a batch that is run again reads the same bytes. Guarantee: replayable, every record
once, in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from crossline.core.errors import SourceError

READY = "ready"


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Chunk ``sequence`` of a log: bytes (or records, or row groups) [start, end) of ``path``."""

    sequence: int
    path: str
    start: int
    end: int


class ChunkLog(Protocol):
    """What the engine needs of a source that is cut into chunks."""

    def poll(self) -> int:
        """Look for what is new; the number of chunks there are now."""
        ...

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1."""
        ...


class FileChunks:
    """The files that match patterns, in name order as they appear, as one log.

    Files may grow; a line counts once it is ended.

    ``complete``: take a last line without an end too (nothing more will be written to it). ``folder`` holds the list
    of chunks.
    """

    def __init__(
        self, patterns: Sequence[str], folder: str, chunk_bytes: int, *, whole_files: bool, complete: bool
    ) -> None:
        self._patterns = patterns
        self._list = _list_in(folder)
        self._chunk_bytes = chunk_bytes
        self._whole_files = whole_files
        self._complete = complete
        self._known: list[ChunkRef] = []
        self._taken: dict[str, int] = {}
        self._load()

    def _load(self) -> None:
        if not self._list.exists():
            self._list.parent.mkdir(parents=True, exist_ok=True)
            return
        chunks, size = _parsed(self._list.read_bytes())
        if size < self._list.stat().st_size:  # a line cut off by a kill: it was never given out
            os.truncate(self._list, size)
        for chunk in chunks:
            self._add(chunk)

    def _add(self, chunk: ChunkRef) -> None:
        self._known.append(chunk)
        self._taken[chunk.path] = max(self._taken.get(chunk.path, 0), chunk.end)

    def poll(self) -> int:
        """Cut what is new in the files into chunks; a directory stands for all files in it."""
        fresh: list[ChunkRef] = []
        for path in matching_files(self._patterns):
            taken = self._taken.get(path, 0)
            with suppress(FileNotFoundError):  # a file may go while we look
                size = Path(path).stat().st_size
                if size > taken:
                    fresh.extend(self._cut(path, taken, size, len(self._known) + len(fresh)))
        if fresh:
            with self._list.open("ab") as file:
                file.write(b"".join(json.dumps(asdict(c)).encode() + b"\n" for c in fresh))
                file.flush()
                os.fsync(file.fileno())
            for chunk in fresh:
                self._add(chunk)
        return len(self._known)

    def _cut(self, path: str, start: int, size: int, sequence: int) -> Iterable[ChunkRef]:
        if self._whole_files:
            return [ChunkRef(sequence, path, 0, size)] if start == 0 else []
        chunks: list[ChunkRef] = []
        with Path(path).open("rb") as file:
            while start < size:
                end = _line_end(file, min(start + self._chunk_bytes, size), size, complete=self._complete)
                if end <= start:
                    break
                chunks.append(ChunkRef(sequence + len(chunks), path, start, end))
                start = end
        return chunks

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1."""
        return self._known[start:end]


def listed_chunks(folder: str) -> list[ChunkRef]:
    """The chunks that a FileChunks of ``folder`` has listed so far.

    Nothing is touched, so it may be at work meanwhile.
    """
    path = _list_in(folder)
    return _parsed(path.read_bytes())[0] if path.exists() else []


def _list_in(folder: str) -> Path:
    return Path(folder) / "chunks.jsonl"


def _parsed(raw: bytes) -> tuple[list[ChunkRef], int]:
    """The chunks in the whole lines of a list, and where those end."""
    size = raw.rfind(b"\n") + 1
    return [ChunkRef(**json.loads(line)) for line in raw[:size].splitlines()], size


def _line_end(file: BinaryIO, position: int, size: int, *, complete: bool) -> int:
    """The end of the line that the byte before ``position`` belongs to.

    Where that is a last line without an end: its start, or with ``complete`` the end of the file.
    """
    block = 1 << 16
    at = position - 1
    while at < size:
        file.seek(at)
        data = file.read(min(block, size - at))
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(data) or block
    return size if complete else _last_line_start(file, position, size)


def _last_line_start(file: BinaryIO, position: int, size: int) -> int:
    block = 1 << 16
    at = min(position, size)
    while at > 0:
        begin = max(0, at - block)
        file.seek(begin)
        found = file.read(at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def matching_files(patterns: Iterable[str]) -> list[str]:
    """Files that ``patterns`` stand for, each a file, a folder or a glob, in name order.

    Hidden and unfinished (.tmp) ones are left out.
    """
    found = {path for each in patterns for path in _matches(each)}
    return sorted(str(p) for p in found if not p.name.startswith((".", "_")) and p.suffix != ".tmp")


def _matches(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return [p for p in path.iterdir() if p.is_file()]
    if path.is_file():
        return [path]
    base, rest = _glob_base(pattern)
    return [p for p in base.glob(rest) if p.is_file()] if rest else []


def _glob_base(pattern: str) -> tuple[Path, str]:
    parts = Path(pattern).parts
    for number, part in enumerate(parts):
        if any(c in part for c in "*?["):
            return Path(*parts[:number]) if number else Path(), str(Path(*parts[number:]))
    return Path(pattern), ""


class GeneratorChunks:
    """The generator's traffic: ``records`` records (None: without end), at ``rate_per_s`` or as fast as possible.

    Chunks are of ``chunk_records``, or what they were at the first start, which ``folder`` remembers: a chunk's
    number says which records are in it, also after a restart on a larger machine. Paced traffic begins when
    the file READY stands beside ``folder``: when the pipeline has been through a first batch, without records.
    """

    def __init__(
        self, name: str, folder: str, records: int | None, chunk_records: int, rate_per_s: float | None, now_ms: int
    ) -> None:
        self._name = name
        self._records = records
        self._rate = rate_per_s
        self._now_ms = now_ms
        self._chunk = chunk_records
        self._started_ms: int | None = None
        self._start = Path(folder) / "started.json"
        self._ready = Path(folder).parent / READY
        if self._start.exists():
            first = json.loads(self._start.read_text())
            self._started_ms = int(first["started_ms"])
            self._chunk = int(first["chunk_records"])

    def _begin(self) -> int:
        self._start.parent.mkdir(parents=True, exist_ok=True)
        aside = self._start.with_suffix(".tmp")
        aside.write_text(json.dumps({"started_ms": self._now_ms, "chunk_records": self._chunk}))
        aside.replace(self._start)
        self._started_ms = self._now_ms
        return self._now_ms

    def at(self, now_ms: int) -> GeneratorChunks:
        """Time is passed in: what is due is due by ``now_ms``."""
        self._now_ms = now_ms
        return self

    def poll(self) -> int:
        """How many chunks are due."""
        if self._started_ms is None and self._rate is not None and not self._ready.exists():
            return 0
        started_ms = self._begin() if self._started_ms is None else self._started_ms
        last = -(-self._records // self._chunk) if self._records is not None else 1 << 40
        if self._rate is None:
            return last
        due = int((self._now_ms - started_ms) / 1000 * self._rate)
        return min(last, due // self._chunk)

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1."""
        limit = self._records if self._records is not None else 1 << 60
        return [ChunkRef(n, self._name, n * self._chunk, min((n + 1) * self._chunk, limit)) for n in range(start, end)]


def read_range(path: str, start: int, end: int) -> bytes:
    """Bytes [start, end) of a file.

    Raises:
        SourceError: the file is gone or shorter than it was.
    """
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
    except OSError as error:
        raise SourceError(
            f"{path}: cannot read bytes {start}-{end}: {error.strerror}; put the file back, the run goes on from there"
        ) from error
    if len(data) < end - start:
        raise SourceError(
            f"{path}: {start + len(data)} bytes, expected at least {end}; the file was cut short after it was taken in"
        )
    return data
