"""A Spark streaming source of chunk references: what there is to read, not the bytes; tasks read those themselves.

Spark's own file source takes whole files only and knows no lines; this one cuts a growing directory, or generated
traffic, into bounded batches whose content never changes once given out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter, time_ns
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from crossline.io.chunks import ChunkLog, ChunkRef, GeneratorChunks, ReadLimit
from crossline.io.files import state_files
from crossline.io.files.listing import LIST, TO_DO, ChunkList
from crossline.io.files.log import FileChunks
from crossline.io.recordlog.sync import synced_size
from crossline.logs import configure_helper
from crossline.runtime.sources.batch_size import FIRST_BYTES, BatchSize
from crossline.runtime.sources.references import CHUNK_SCHEMA, CHUNKS_MAX, chunk_rows, deal_chunks

# Looking takes at most one part in so many of the time, and what is known is given out meanwhile.
LOOK_PART = 10
LOOK_PAUSE_S = 1.0
LEFT = "left.json"
GIVEN = "given.json"
_TO_DO = (
    'restore it from a copy, or write {"chunk": N} into it, where N is the number that the last file of spark/offsets '
    "in the checkpoint has for this stream"
)


def _given_in(raw: bytes) -> int:
    number = json.loads(raw)["chunk"]
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"chunk {number!r} instead of a number of chunks")
    return number


@dataclass
class _ChunkPartition(InputPartition):
    chunks: list[ChunkRef]


class ChunkSource(DataSource):
    """``spark.readStream.format("crossline-chunks")``; options as ``open_log`` reads them."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "crossline-chunks"

    def schema(self) -> str:
        """The columns of a reference."""
        return CHUNK_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """The reader that Spark drives."""
        return _Reader(dict(self.options))


def open_log(options: Mapping[str, str]) -> ChunkLog:
    """The chunk log that source options stand for."""
    if options["kind"] == "generator":
        records = int(options["records"])
        return GeneratorChunks(
            options["name"],
            options["folder"],
            records if records >= 0 else None,
            int(options["chunkrecords"]),
            float(options["rate"]) or None,
        )
    return FileChunks(
        json.loads(options["patterns"]),
        options["folder"],
        int(options["chunkbytes"]),
        whole_files=options["wholefiles"] == "true",
        unended=options["unended"],  # type: ignore[arg-type]
        **({"size_of": synced_size} if options.get("synced") == "true" else {}),
    )


def chunks_between(options: Mapping[str, str], start: int, end: int) -> list[ChunkRef]:
    """Chunks that the source with these options gave out before; it may be running, so nothing is written."""
    if options["kind"] == "generator":
        return open_log(options).chunks(start, end)
    known = ChunkList(options["folder"])
    known.refresh()
    return known.chunks(start, end)


def pending_text(folder: str) -> list[str]:
    """What the source that keeps its list in ``folder`` had not given out when it looked last, as texts."""
    path = Path(folder) / LEFT
    return list(json.loads(path.read_text())) if path.exists() else []


def planned_end(folder: str, end: int) -> int | None:
    """Up to which chunk the batch goes that follows the one that ends at ``end``; None where that is still open."""
    try:
        given = json.loads((Path(folder) / GIVEN).read_bytes())
    except (FileNotFoundError, ValueError):  # the reader reports one that is damaged as it opens
        return None
    return given.get("next") if given["chunk"] == end else None


class _Reader(DataSourceStreamReader):
    """Offsets are chunk numbers; the last one given out is kept on disk, so that a restart never goes behind it.

    Where more is known than two batches take, the end of the next one is fixed with this one's and kept beside it:
    its records can be taken in ahead (``read_ahead``). Where less is known it stays open: the next batch has all that
    has come until it begins.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._log: ChunkLog | None = None
        self._given = 0
        self._next: int | None = None  # the end of the next batch, where it is fixed
        self._sizes = [0, 0]  # of the batch that was given out last, and of the one whose end is fixed
        self._full_s: float | None = None  # since when the last batch is out, where there was more than it took
        most = int(options["batchsize"])
        self._size = BatchSize(FIRST_BYTES if options["kind"] == "files" else most, most)
        self._look_again_s = 0.0
        self._left: list[str] | None = None

    def _open(self) -> ChunkLog:
        if self._log is None:
            configure_helper()
            log = open_log(self._options)
            mark = self._folder / GIVEN
            self._given = state_files.read(mark, mark.read_bytes(), _given_in, _TO_DO) if mark.exists() else 0
            if self._given and not log.chunks(self._given - 1, self._given):
                found = f"not all of the chunks that were given out ({self._given:,})"
                raise state_files.damaged(self._folder / LIST, found, TO_DO)
            self._log = log
        return self._log

    @property
    def _folder(self) -> Path:
        return Path(self._options["folder"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"chunk": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        log = self._open()
        self._look(log)
        now_s = perf_counter()
        if self._full_s is not None:
            self._size.took(self._sizes[0], now_s - self._full_s)
        limit = ReadLimit(self._size.now, CHUNKS_MAX)
        size = self._size.now if self._next is None else self._sizes[1]
        target = self._next or log.reach(self._given, limit)
        if target > self._given:
            end = log.reach(target, limit)
            self._next = end if log.reach(end, limit) > end > target else None
            self._full_s = now_s if end > target else None
            self._sizes = [size, limit.size]
            self._write(GIVEN, {"chunk": target, "next": self._next})
            self._given = target
        return {"chunk": self._given}

    def _look(self, log: ChunkLog) -> None:
        """Look for what is new, unless that took long and was done just now."""
        began_s = monotonic()
        if began_s < self._look_again_s:
            return
        log.poll(time_ns() // 1_000_000)
        ended_s = monotonic()
        self._look_again_s = ended_s + min(LOOK_PAUSE_S, (ended_s - began_s) * (LOOK_PART - 1))
        left = log.left()
        if left != self._left and (left or (self._folder / LEFT).exists()):
            self._write(LEFT, left)
        self._left = left

    def _write(self, name: str, value: Any) -> None:
        state_files.put(self._folder / name, json.dumps(value).encode())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Chunks dealt out in runs of about the same size, one run a task."""
        chunks = self._open().chunks(start["chunk"], end["chunk"])
        return [_ChunkPartition(run) for run in deal_chunks(chunks, int(self._options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _ChunkPartition)  # noqa: S101 - what partitions() made
        yield chunk_rows(partition.chunks)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: the list of chunks stays."""

    def stop(self) -> None:
        """The query has ended: Spark closed the connection on which it asks, which PySpark would tell as an error."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)
