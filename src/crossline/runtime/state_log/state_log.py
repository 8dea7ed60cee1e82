"""The state of a shard as a log of segments on disk.

One file a batch, merged in tiers, dropped when older than every window.

A segment file is named by the batches it holds, ``FIRST-LAST.seg``, and is a row of wire blobs, one per batch, each
behind its length. A merge only puts blobs of several files into one, so a worker whose cache stands anywhere can
catch up from there. Every blob has the first batch of the log at the time of its write, so that a missing file
is found, not guessed away.

Guarantee: a file appears whole or not at all (written under a temporary name, then renamed; object stores publish on
close). A batch written again replaces its own file with the same content. It survives the death of any process; it is
not fsynced against loss of power, no more than Spark's own local checkpoints are.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from crossline.basics import wire
from crossline.basics.errors import StateError
from crossline.io.net.deadline import SerialCalls
from crossline.io.objects.file_stores import ASIDE, in_time, retry_until_available, serial_calls_of, store_error_of
from crossline.io.objects.location import is_uri, location_of

_LENGTH = struct.Struct("<Q")
SHARD = "shard-"
T = TypeVar("T")
Blob: TypeAlias = bytes | pa.Buffer | list[bytes | memoryview]
JOINED_BYTES_MAX = 1 << 20  # of a blob in pieces, up to which one write is cheaper than one a piece
MERGE_AT = 128  # files of one tier, at which the older half becomes one file of the next
MERGE_COUNT = 64
# A batch waits for the merging that it does: files that are large already are left as they are.
MERGE_BYTES = 16 << 20  # of a merged file
MERGE_BUDGET_BYTES = 32 << 20  # of one call


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A file holding batches ``first`` to ``last``."""

    first: int
    last: int
    bytes: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.first:012d}-{self.last:012d}.seg"


class StateLog:
    """The segments of one shard under ``root`` (a path or a URI that pyarrow knows)."""

    def __init__(self, root: str, shard: int) -> None:
        place = location_of(root)
        self._fs, self._whole = place.fs, place.whole
        self._dir = f"{place.base}/{SHARD}{shard:05d}"
        self._local = isinstance(place.fs, pafs.LocalFileSystem)
        self._made = False
        self._turns = serial_calls_of(f"{root}/{shard}")

    def write(self, batch_id: int, blob: Blob) -> None:
        """Make ``blob``, which may be given in pieces, the segment of ``batch_id``."""
        self._put_as(Segment(batch_id, batch_id).name, [blob], framed=False)

    def write_all(self, first: int, blobs: list[bytes]) -> None:
        """Make ``blobs`` one segment: that of batch ``first``, and of those that follow it."""
        self._put_as(Segment(first, first + len(blobs) - 1).name, blobs, framed=False)

    def replace(self, segment: Segment, blobs: list[bytes]) -> None:
        """Make ``blobs``, one a batch, the content of ``segment``; no process may judge meanwhile."""
        self._put_as(segment.name, blobs, framed=False)

    def remove_leftovers(self) -> int:
        """Remove what a killed process left: inputs of a merge, and files without a final name; how many."""
        whole = {each.name for each in self.segments()}
        selector = pafs.FileSelector(self._dir, allow_not_found=True)
        found = [each.base_name for each in self._tried(lambda: self._fs.get_file_info(selector))]
        left = [name for name in found if name.endswith(ASIDE) or (name.endswith(".seg") and name not in whole)]
        for name in left:
            with suppress(FileNotFoundError):
                self._tried(partial(self._fs.delete_file, f"{self._dir}/{name}"), 0, self._turns)
        return len(left)

    def content(self, segment: Segment) -> Iterator[tuple[dict[str, Any], wire.Arrays]]:
        """All blobs of ``segment``, oldest first. Raises StateError where it is damaged."""
        yield from self._decoded(segment.name)

    def segments(self) -> list[Segment]:
        """The files there are, oldest first; where a merge left its inputs behind, only the merged file."""
        found = []
        for name, size in self._files():
            stem, _, suffix = name.partition(".")
            if suffix == "seg":
                first, _, last = stem.partition("-")
                found.append(Segment(int(first), int(last), size))
        found.sort(key=lambda s: (s.first, -s.last))
        whole: list[Segment] = []
        for segment in found:
            if not whole or segment.last > whole[-1].last:
                whole.append(segment)
        return whole

    def _files(self) -> list[tuple[str, int]]:
        """The names and bytes of what is there."""
        if self._local:
            try:
                found = list(os.scandir(self._dir))
            except FileNotFoundError:
                return []
            sizes = []
            for each in found:
                with suppress(FileNotFoundError):  # one that has its final name by now, or is merged
                    sizes.append((each.name, each.stat().st_size))
            return sizes
        selector = pafs.FileSelector(self._dir, allow_not_found=True)
        return [(info.base_name, info.size or 0) for info in self._tried(lambda: self._fs.get_file_info(selector))]

    def blobs(self, after: int, until: int) -> Iterator[tuple[dict[str, Any], wire.Arrays]]:
        """The decoded blobs of batches ``after`` < b <= ``until``, oldest first; ``after`` = -1 gives all that is kept.

        Raises:
            StateError: a batch in between is missing.
        """
        if after >= until:
            return
        if after == until - 1 and until >= 0:
            yield from self._read(Segment(until, until), after, until)
            return
        kept = [s for s in self.segments() if s.last > after and s.first <= until]
        expected = after + 1 if after >= 0 else self._kept_from(kept, until)
        for segment in kept:
            if segment.last < expected:
                continue
            if segment.first > expected:
                break
            yield from self._read(segment, after, until)
            expected = segment.last + 1
        if expected <= until:
            raise StateError(
                f"{self._dir}: state of batch {expected} is missing (batch {until} needs it). "
                "Restore the file, or start from a new checkpoint and replay"
            )

    def check_whole(self, until: int) -> None:
        """Raise StateError where a segment is missing that the state of batch ``until`` needs."""
        kept = [s for s in self.segments() if s.first <= until]
        expected = self._kept_from(kept, until)
        for segment in kept:
            if segment.first <= expected <= segment.last:
                expected = segment.last + 1
        if expected <= until:
            raise StateError(f"{self._dir}: state of batch {expected} is missing (batch {until} needs it)")

    def _kept_from(self, kept: list[Segment], until: int) -> int:
        last = next((s for s in reversed(kept) if s.first <= until <= s.last), None)
        if last is None:
            return kept[0].first if kept else until
        metas = [meta for meta, _ in self._read(last, until - 1, until)]
        return int(metas[-1]["kept_from"]) if metas else last.first

    def merge(self, before: int) -> None:
        """Put the older files of a full tier, all before batch ``before``, into one file, or a few."""
        files = [s for s in self.segments() if s.last < before]
        tiers: dict[int, list[Segment]] = {}
        for segment in files:
            width = segment.last - segment.first + 1
            tiers.setdefault(0 if width == 1 else 1 if width <= MERGE_COUNT else 2, []).append(segment)
        budget = MERGE_BUDGET_BYTES
        for tier in (0, 1):
            members = tiers.get(tier, [])
            while len(members) >= MERGE_AT and budget > 0:
                chosen = _fitting(members)
                members = members[len(chosen) :]
                if len(chosen) > 1:
                    self._join(chosen)
                    budget -= sum(s.bytes for s in chosen)

    def drop(self, segments: list[Segment]) -> None:
        """Remove files whose records are in no window any more."""
        self._delete(segments)

    def metas(self, segment: Segment) -> list[dict[str, Any]]:
        """The metas of all blobs in ``segment``; only their headers are read."""
        return self._tried(lambda: self._metas(segment))

    def _metas(self, segment: Segment) -> list[dict[str, Any]]:
        where = f"{self._dir}/{segment.name}"
        found, position = [], 0
        with self._open(segment.name) as file:
            size = file.size()
            while position < size:
                start = file.read_at(_LENGTH.size + wire.HEAD_BYTES, position)
                if len(start) < _LENGTH.size:
                    raise StateError(f"{where}: cut short at byte {position}; restore the file")
                header = wire.header_bytes(start[_LENGTH.size :], where)
                found.append(wire.decode_meta(file.read_at(header, position + len(start)), where))
                position += _LENGTH.size + _LENGTH.unpack_from(start)[0]
        return found

    def _join(self, segments: list[Segment]) -> None:
        """One file in place of ``segments``, which stand side by side."""
        joined = Segment(segments[0].first, segments[-1].last)
        if not self._local:
            self._put_as(joined.name, [self._bytes(s.name) for s in segments], framed=True)
        else:
            path = f"{self._dir}/{joined.name}"
            temporary = f"{path}.{os.getpid()}.tmp"
            with Path(temporary).open("wb") as out:
                for segment in segments:
                    with Path(f"{self._dir}/{segment.name}").open("rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
            self._fs.move(temporary, path)
        self._delete(segments)

    def _read(self, segment: Segment, after: int, until: int) -> Iterator[tuple[dict[str, Any], wire.Arrays]]:
        found = 0
        for meta, arrays in self._decoded(segment.name):
            found += 1
            if after < meta["batch"] <= until:
                yield meta, arrays
        if found <= segment.last - segment.first:
            raise StateError(f"{self._dir}/{segment.name}: cut short after {found} batches; restore the file")

    def _decoded(self, name: str) -> Iterator[tuple[dict[str, Any], wire.Arrays]]:
        raw = memoryview(self._bytes(name))
        position = 0
        while position < len(raw):
            if position + _LENGTH.size > len(raw):
                raise StateError(f"{self._dir}/{name}: cut short at byte {position}; restore the file")
            (length,) = _LENGTH.unpack_from(raw, position)
            position += _LENGTH.size
            if position + length > len(raw):
                raise StateError(f"{self._dir}/{name}: {len(raw)} bytes of {position + length}; restore the file")
            meta, arrays = wire.decode(raw[position : position + length], f"{self._dir}/{name}")
            position += length
            yield meta, arrays

    def _bytes(self, name: str) -> pa.Buffer:
        def read() -> pa.Buffer:
            with self._open(name) as file:
                return file.read_buffer()

        return self._tried(read, MERGE_BUDGET_BYTES)

    def _open(self, name: str) -> pa.NativeFile:
        try:
            return self._fs.open_input_file(f"{self._dir}/{name}")
        except FileNotFoundError as error:
            raise StateError(f"{self._dir}/{name}: missing; restore it or start from a new checkpoint") from error

    def _put_as(self, name: str, blobs: Sequence[Blob], *, framed: bool) -> None:
        path = f"{self._dir}/{name}"
        # A name of its own: a task that Spark gave up may still be writing while another attempt of it writes too.
        own = os.getpid() if self._local else uuid.uuid4().hex
        temporary = path if self._whole else f"{path}.{own}{ASIDE}"
        pieces_of = [_pieces(blob) for blob in blobs]
        sizes = [sum(map(len, pieces)) for pieces in pieces_of]

        def write() -> None:
            if not self._made and not self._whole:
                self._fs.create_dir(self._dir, recursive=True)
                self._made = True
            try:
                with self._fs.open_output_stream(temporary) as out:
                    for pieces, size in zip(pieces_of, sizes, strict=True):
                        if not framed:
                            out.write(_LENGTH.pack(size))
                        for piece in pieces:
                            out.write(piece)
                if not self._whole:
                    self._fs.move(temporary, path)
            except OSError:
                if self._local:  # a full disk has no room for what is of no use
                    Path(temporary).unlink(missing_ok=True)
                raise

        self._tried(write, sum(sizes), self._turns)

    def _delete(self, segments: list[Segment]) -> None:
        for segment in segments:
            with suppress(FileNotFoundError):
                self._tried(partial(self._fs.delete_file, f"{self._dir}/{segment.name}"), 0, self._turns)

    def _tried(self, call: Callable[[], T], size: int = 0, turns: SerialCalls | None = None) -> T:
        """On this machine as it is; a store that is away is waited for, as a task has nothing better to do."""
        if self._local:
            return call()
        return retry_until_available(partial(_report_state_error, partial(in_time, call, size, turns), self._dir))


def _pieces(blob: Blob) -> Sequence[bytes | memoryview | pa.Buffer]:
    """What to write of ``blob``, call by call: small pieces in one, large ones without a copy."""
    if not isinstance(blob, list):
        return [blob]
    return blob if sum(map(len, blob)) >= JOINED_BYTES_MAX else [b"".join(blob)]


def _fitting(segments: list[Segment]) -> list[Segment]:
    """The first of ``segments``, at least one, that fit into one file and hold batches without a gap."""
    chosen, size = segments[:1], segments[0].bytes
    for segment in segments[1:MERGE_COUNT]:
        size += segment.bytes
        if size > MERGE_BYTES or segment.first != chosen[-1].last + 1:
            break
        chosen.append(segment)
    return chosen


def shards_in(root: str) -> int:
    """How many shards have a log under ``root``."""
    place = location_of(root)
    selector = pafs.FileSelector(place.base, allow_not_found=True)
    return sum(info.base_name.startswith(SHARD) for info in _looked(root, place.fs, selector))


def logs_in(root: str) -> dict[str, list[int]]:
    """The folders under ``root`` that have a log for each shard, below it, each with the numbers of its shards."""
    place = location_of(root)
    base = place.base.rstrip("/")
    found: dict[str, set[int]] = {}
    for info in _looked(root, place.fs, pafs.FileSelector(base, allow_not_found=True, recursive=True)):
        *above, _ = parts = info.path.removeprefix(f"{base}/").split("/")
        within = parts if info.type == pafs.FileType.Directory else above
        if within and within[-1].startswith(SHARD):
            found.setdefault("/".join(within[:-1]), set()).add(int(within[-1].removeprefix(SHARD)))
    return {folder: sorted(numbers) for folder, numbers in sorted(found.items())}


def _looked(root: str, fs: pafs.FileSystem, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
    def look() -> list[pafs.FileInfo]:
        return list(fs.get_file_info(selector))

    return retry_until_available(partial(_report_state_error, partial(in_time, look), root)) if is_uri(root) else look()


def _report_state_error(call: Callable[[], T], where: str) -> T:
    try:
        return call()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise store_error_of(error, where) from error
