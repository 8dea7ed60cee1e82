"""Sources of chunks as parts of a pipeline: files and generated traffic."""

from __future__ import annotations

import glob
import itertools
import json
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crossline.generate.source import Generator
from crossline.io.chunks import ChunkRef
from crossline.io.files.lines import Unended
from crossline.io.files.listing import ChunkList
from crossline.io.recordlog.sync import SUFFIX as LOG_SUFFIX
from crossline.runtime.sources.chunk_source import ChunkSource, chunks_between, pending_text, planned_end
from crossline.runtime.sources.fetch import FileFetch, fetch_generated
from crossline.runtime.sources.files import FileInput, chunk_bytes, patterns_of, unended_of
from crossline.runtime.sources.intake import ChunkIntake
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.sources.references import CHUNK_SCHEMA, chunk_rows

SLICE_BYTES = 32 * 1024 * 1024  # of a past that is read at once
GENERATED_CHUNK_RECORDS_MAX = 50_000
PACED_CHUNKS_PER_S = 20  # a paced source gives out what is due in pieces this small


def file_source(
    files: FileInput, checkpoint: str, cores: int, batch_bytes: int, *, complete: bool = False, drain: bool = False
) -> SourcePlan:
    """The files of one stream as a source.

    ``complete``: files are finished, so a last line without an end counts, and all files must be readable. ``drain``:
    read the current content. A last line without an end counts if it is a whole JSON document; others are left and
    reported (``SourcePlan.left``). With either, a pattern without files is an error.
    """
    patterns = patterns_of(files, there=complete or drain)
    return _of_files(
        files, patterns, checkpoint, cores, batch_bytes, unended_of(files.form, complete=complete, drain=drain)
    )


def api_source(stream: str, path: str, checkpoint: str, cores: int, batch_bytes: int) -> SourcePlan:
    """The log in the folder ``path``, which the decision API writes; its files are read in order, while they grow.

    A last line without an end was not acknowledged: the API ends it, or cuts it off. The folder may be made later.
    """
    files = FileInput(stream, (f"{glob.escape(path)}/*{LOG_SUFFIX}",), "json")
    plan = _of_files(files, patterns_of(files, there=False), checkpoint, cores, batch_bytes, "waits", synced=True)
    return replace(plan, listed=f"{checkpoint}/sources/{stream}", planned=None, chunks=None)


def _of_files(
    files: FileInput,
    patterns: list[str],
    checkpoint: str,
    cores: int,
    batch_bytes: int,
    unended: Unended,
    *,
    synced: bool = False,
) -> SourcePlan:
    """``synced``: they are a log of the API, of which what is synced counts."""
    folder = f"{checkpoint}/sources/{files.stream}"
    settings = {
        "kind": "files",
        "patterns": json.dumps(patterns),
        "folder": folder,
        "chunkbytes": str(chunk_bytes(batch_bytes, cores)),
        "batchsize": str(batch_bytes),
        "tasks": str(cores),
        "wholefiles": "true" if files.whole else "false",
        "unended": unended,
        "synced": "true" if synced else "false",
    }
    return SourcePlan(
        files.stream,
        lambda spark: _chunks(spark, settings),
        ChunkIntake(files.stream),
        FileFetch(files.form, folder),
        lambda spark, start, end: _backfill(spark, settings, start, end),
        amount=_Bytes(settings),
        slice_max=SLICE_BYTES,
        left=lambda: pending_text(folder),
        waiting=Listed(folder),
        unit="bytes",
        planned=_Planned(folder),
        chunks=_ListedChunks(folder),
    )


def generated_source(stream: str, source: Generator, checkpoint: str, cores: int, batch_records: int) -> SourcePlan:
    """Traffic that the tasks make themselves; at most ``batch_records`` a batch."""
    chunk = max(1, min(GENERATED_CHUNK_RECORDS_MAX, batch_records // cores))
    if source.pace_per_s is not None:
        chunk = max(1, min(chunk, source.pace_per_s // PACED_CHUNKS_PER_S))
    settings = {
        "kind": "generator",
        "name": stream,
        "folder": f"{checkpoint}/sources/{stream}",
        "records": str(source.records if source.records is not None else -1),
        "rate": str(source.pace_per_s or 0),
        "chunkrecords": str(chunk),
        "batchsize": str(batch_records),
        "tasks": str(cores),
    }
    return SourcePlan(
        stream,
        lambda spark: _chunks(spark, settings),
        ChunkIntake(stream, source),
        lambda _, offsets, __: fetch_generated(source, offsets),
        lambda spark, start, end: _backfill(spark, settings, start, end),
        amount=lambda offsets: offsets["chunk"] * chunk if offsets else 0,
        planned=_Planned(settings["folder"]),
        chunks=lambda first, last: chunks_between(settings, first, last),
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """Where the batch after one ends, as the source with this folder has fixed it."""

    folder: str

    def __call__(self, offsets: dict[str, Any]) -> dict[str, Any] | None:
        end = planned_end(self.folder, offsets["chunk"])
        return None if end is None else {"chunk": end}


class _ListedChunks:
    """Chunks of the list in a folder by number, asked for in their order."""

    def __init__(self, folder: str) -> None:
        self._list = ChunkList(folder)

    def __call__(self, first: int, last: int) -> list[ChunkRef]:
        """Those from number ``first`` to ``last`` - 1; not those of long ago, nor what is not in the list."""
        self._list.refresh()
        found = self._list.chunks(first, last)
        self._list.forget(first)
        return found


class _Bytes:
    """How many bytes lie before an offset of a log of files."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._before = [0]

    def __call__(self, offsets: dict[str, Any] | None) -> int:
        chunks = int(offsets["chunk"]) if offsets else 0
        if chunks >= len(self._before):
            given = chunks_between(self._settings, 0, chunks)
            self._before = [0, *itertools.accumulate(each.end - each.start for each in given)]
        return self._before[chunks]


class Listed:
    """How many bytes of the files' list in ``folder`` lie behind an offset; what was not listed yet is not known."""

    def __init__(self, folder: str) -> None:
        self._list = ChunkList(folder)
        self._sums = [0]

    def __call__(self, offsets: dict[str, Any] | None) -> int:
        """Behind ``offsets``; None: all of it."""
        self._list.refresh()
        for each in self._list.chunks(len(self._sums) - 1, len(self._list)):
            self._sums.append(self._sums[-1] + each.end - each.start)
        done = min(int(offsets["chunk"]), len(self._list)) if offsets else 0
        return self._sums[-1] - self._sums[done]


def _chunks(spark: SparkSession, settings: dict[str, str]) -> DataFrame:
    spark.dataSource.register(ChunkSource)
    return spark.readStream.format("crossline-chunks").options(**settings).load()


def _backfill(
    spark: SparkSession, settings: dict[str, str], start: dict[str, Any] | None, end: dict[str, Any]
) -> DataFrame:
    """The chunks between two offsets, as a static DataFrame."""
    chunks = chunks_between(settings, start["chunk"] if start else 0, end["chunk"])
    return spark.createDataFrame(chunk_rows(chunks).to_pylist(), CHUNK_SCHEMA)
