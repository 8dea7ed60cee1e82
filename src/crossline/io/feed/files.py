"""The files of a feed: one a batch, ``<batch>.jsonl``, each written whole or not at all.

The first line is about the batch: ``ends`` say, by stream and log, up to where its records are in this batch or before,
``begins`` where those of the batch before ended. Its ``lines`` say how many lines of each kind follow, in the order of
``SECTIONS``. Numbers of batches go on over restarts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.basics.streams.api_record import LogPosition

SCHEMA_VERSION = 1
SUFFIX = ".jsonl"
PARSED_MAX = 5_000  # decisions of a batch that are kept parsed, which takes some ten times their bytes
# Decisions and revisions, alerts and corrections, dead letters, late records.
SECTIONS = ("decisions", "alerts", "dead", "late")

# By stream, by log: a byte of a file, or an offset of a topic-partition.
Ends = Mapping[str, Mapping[str, int]]


def batch_path(folder: Path, batch: int) -> Path:
    """Where a batch's file is."""
    return folder / f"{batch}{SUFFIX}"


def batches_in(folder: Path) -> list[int]:
    """The batches that are there, ascending; none where there is no folder."""
    try:
        stems = [name.removesuffix(SUFFIX) for name in os.listdir(folder) if name.endswith(SUFFIX)]  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return []
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def write_batch(folder: Path, head: Mapping[str, Any], sections: Mapping[str, Sequence[bytes]]) -> int:
    """Write the file of batch ``head["batch"]`` anew; how many bytes it has. Raises OSError."""
    lines = {name: sections.get(name, ()) for name in SECTIONS}
    about = {"schema_version": SCHEMA_VERSION, **head, "lines": {name: len(each) for name, each in lines.items()}}
    whole = b"\n".join([orjson.dumps(about), *(line for each in lines.values() for line in each), b""])
    path = batch_path(folder, head["batch"])
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(whole)
        file.flush()
        os.fdatasync(file.fileno())
    temporary.replace(path)
    return len(whole)


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """What one batch gave. ``raw`` has the lines behind the first; ``starts`` where each section begins among them.

    ``missed``: how many requested batches before it are gone. ``anew``: the numbers
    began again, since the checkpoint is another.
    """

    head: Mapping[str, Any]
    lines: Sequence[bytes]
    missed: int = 0
    anew: bool = False
    _decided: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def decided(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """The batch's own decisions by stream and record id; those of a small batch are parsed once."""
        if self._decided:
            return self._decided
        lines = self.section("decisions")
        found = self._decided if len(lines) <= PARSED_MAX else {}
        for each in map(orjson.loads, lines):
            if each["kind"] == "decision":
                found[each["stream"], each["record_id"]] = each
        return found

    @property
    def number(self) -> int:
        """Of the batch."""
        return int(self.head["batch"])

    @property
    def planned_ms(self) -> int:
        """When it was planned, in epoch ms: the same each time that it is run, and another in another checkpoint."""
        return int(self.head.get("planned_ms") or 0)

    def section(self, name: str) -> Sequence[bytes]:
        """The lines of a section, each JSON."""
        at = 0
        for each in SECTIONS:
            count = self.head["lines"][each]
            if each == name:
                return self.lines[at : at + count]
            at += count
        raise ValueError(f"found {name!r}, expected one of {', '.join(SECTIONS)}")

    def covers(self, stream: str, place: LogPosition) -> bool:
        """Whether the record at ``place`` is in this batch, or in one before it."""
        ends = self.head["ends"].get(stream, {})
        end = ends.get(place.log)
        if end is not None:
            return bool(place.at < end)
        # Of a log of files only the last are named: they are numbered, and read in order.
        numbered = [log for log in ends if _number(log) is not None]
        mine = _number(place.log)
        return mine is not None and any(mine < (_number(log) or 0) for log in numbered)

    def has(self, stream: str, place: LogPosition) -> bool:
        """Whether the record at ``place`` is in this batch itself."""
        begin = self.head["begins"].get(stream, {}).get(place.log, 0)
        end = self.head["ends"].get(stream, {}).get(place.log, 0)
        return bool(begin <= place.at < end)


def read_batch(folder: Path, batch: int) -> FeedBatch:
    """The file of a batch. Raises FileNotFoundError where it is not there, StateError where it is damaged."""
    path = batch_path(folder, batch)
    lines = path.read_bytes().split(b"\n")
    head = _head(path, lines[0])
    found = FeedBatch(head, lines[1:-1])
    if len(found.lines) != sum(head["lines"].values()):
        raise _damaged(path, f"{len(found.lines)} lines instead of {sum(head['lines'].values())}")
    return found


def read_head(folder: Path, batch: int) -> FeedBatch:
    """The same without the lines, for who only asks where it ends."""
    path = batch_path(folder, batch)
    with path.open("rb") as file:
        return FeedBatch(_head(path, file.readline()), ())


def _head(path: Path, line: bytes) -> Mapping[str, Any]:
    try:
        head: Mapping[str, Any] = orjson.loads(line)
        body = {name: int(head["lines"][name]) for name in SECTIONS}
        if head["schema_version"] == SCHEMA_VERSION and body and isinstance(head["ends"], dict):
            return head
        found = f"schema_version {head['schema_version']}"
    except (ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__} in its first line"
    raise _damaged(path, found)


def _damaged(path: Path, found: str) -> StateError:
    return StateError(f"{path}: found {found}, expected what a batch gave; delete the file: its batch counts as missed")


def _number(log: str) -> int | None:
    stem = log.removesuffix(SUFFIX)
    return int(stem) if stem != log and stem.isascii() and stem.isdigit() else None


class FeedFolder:
    """The files of a feed, as many as are kept: the oldest go. ``sizes``: by batch, in order."""

    def __init__(self, folder: Path, batches_max: int, bytes_max: int) -> None:
        self._folder = folder
        self._batches_max = batches_max
        self._bytes_max = bytes_max
        self._sizes: dict[int, int] = {}
        self._total = 0

    def open(self) -> None:
        """See what is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sizes = {each: batch_path(self._folder, each).stat().st_size for each in batches_in(self._folder)}
        self._total = sum(self._sizes.values())

    def add(self, batch: int, size: int) -> None:
        """A file was written; others may go for it, but never the last."""
        self._total += size - self._sizes.pop(batch, 0)
        self._sizes[batch] = size
        while len(self._sizes) > 1 and (len(self._sizes) > self._batches_max or self._total > self._bytes_max):
            oldest = next(iter(self._sizes))
            self._total -= self._sizes.pop(oldest)
            batch_path(self._folder, oldest).unlink(missing_ok=True)
