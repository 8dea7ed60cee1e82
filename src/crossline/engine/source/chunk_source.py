"""A Spark streaming source of chunk references: what there is to read, not the bytes; tasks read those themselves.

Spark's own file source takes whole files only and knows no lines; this one cuts a growing directory, or generated
traffic, into bounded batches whose content never changes once given out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from crossline.connectors.chunks import ChunkLog, ChunkRef, FileChunks, GeneratorChunks, listed_chunks

CHUNK_SCHEMA = "sequence long, path string, start long, end long"
_ARROW = pa.schema([("sequence", pa.int64()), ("path", pa.string()), ("start", pa.int64()), ("end", pa.int64())])


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


def open_log(options: dict[str, str]) -> ChunkLog:
    """The chunk log that source options stand for."""
    if options["kind"] == "generator":
        records = int(options["records"])
        return GeneratorChunks(
            options["name"],
            options["folder"],
            records if records >= 0 else None,
            int(options["chunkrecords"]),
            float(options["rate"]) or None,
            time.time_ns() // 1_000_000,
        )
    return FileChunks(
        json.loads(options["patterns"]),
        options["folder"],
        int(options["chunkbytes"]),
        whole_files=options["wholefiles"] == "true",
        complete=options["complete"] == "true",
    )


def chunks_given(options: dict[str, str], start: int, end: int) -> list[ChunkRef]:
    """Chunks that the source with these options gave out before; it may be running, so nothing is written."""
    if options["kind"] == "generator":
        return open_log(options).chunks(start, end)
    return listed_chunks(options["folder"])[start:end]


class _Reader(DataSourceStreamReader):
    """Offsets are chunk numbers; the last one given out is kept on disk, so that a restart never goes behind it."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._log: ChunkLog | None = None
        self._given: int | None = None

    def _open(self) -> ChunkLog:
        if self._log is None:
            self._log = open_log(self._options)
        return self._log

    @property
    def _mark(self) -> Path:
        return Path(self._options["folder"]) / "given.json"

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"chunk": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        log = self._open()
        if self._given is None:
            self._given = json.loads(self._mark.read_text())["chunk"] if self._mark.exists() else 0
        if isinstance(log, GeneratorChunks):
            log.at(time.time_ns() // 1_000_000)
        target = min(log.poll(), self._given + int(self._options["batchchunks"]))
        if target > self._given:
            self._given = target
            aside = self._mark.with_suffix(".tmp")
            aside.write_text(json.dumps({"chunk": target}))
            aside.replace(self._mark)
        return {"chunk": self._given}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Chunks dealt out in runs, one run a task."""
        log = self._open()
        log.poll()
        chunks = log.chunks(start["chunk"], end["chunk"])
        tasks = min(len(chunks), int(self._options["tasks"]))
        size = -(-len(chunks) // tasks) if tasks else 1
        return [_ChunkPartition(chunks[i : i + size]) for i in range(0, len(chunks), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _ChunkPartition)  # noqa: S101 - what partitions() made
        for chunk in partition.chunks:
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([chunk.sequence], pa.int64()),
                    pa.array([chunk.path], pa.string()),
                    pa.array([chunk.start], pa.int64()),
                    pa.array([chunk.end], pa.int64()),
                ],
                schema=_ARROW,
            )

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: the list of chunks stays."""

    def stop(self) -> None:
        """The query has ended: Spark closed the connection on which it asks, which PySpark would tell as an error."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)
