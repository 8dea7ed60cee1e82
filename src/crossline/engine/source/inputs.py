"""Sources of chunks as parts of a pipeline: files and generated traffic."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crossline.connectors.chunks import matching_files
from crossline.core.errors import UsageError
from crossline.engine.source.chunk_source import CHUNK_SCHEMA, ChunkSource, chunks_given
from crossline.engine.source.fetch import fetch_file, fetch_generated
from crossline.engine.source.intake import ChunkIntake
from crossline.engine.source.plan_source import SourcePlan
from crossline.generate.source import GeneratorSource

CHUNK_BYTES_MAX = 16 * 1024 * 1024
SLICE_BYTES = 32 * 1024 * 1024  # of a past that is read at once
GENERATED_CHUNK_RECORDS_MAX = 50_000
PACED_CHUNKS_PER_S = 20  # a paced source gives out what is due in pieces this small


@dataclass(frozen=True, slots=True)
class FileInput:
    """Files of one stream: patterns, folders or names, and their format."""

    stream: str
    patterns: tuple[str, ...]
    form: str


def file_source(files: FileInput, checkpoint: str, cores: int, batch_bytes: int, *, complete: bool) -> SourcePlan:
    """The files of one stream as a source.

    ``complete``: files are finished, so a last line without an end counts, and a pattern without files is an error.
    """
    patterns = [os.path.abspath(p) for p in files.patterns]  # noqa: PTH100 - a link in the name must stay
    if complete:
        empty = [p for p in patterns if not matching_files([p])]
        if empty:
            raise UsageError(f"no file matches {', '.join(empty)}; expected files of stream {files.stream}")
    chunk = max(1, min(CHUNK_BYTES_MAX, batch_bytes // cores))
    settings = {
        "kind": "files",
        "patterns": json.dumps(patterns),
        "folder": f"{checkpoint}/sources/{files.stream}",
        "chunkbytes": str(chunk),
        "batchchunks": str(max(1, batch_bytes // chunk)),
        "tasks": str(cores),
        "wholefiles": "true" if files.form == "parquet" else "false",
        "complete": "true" if complete else "false",
    }
    return SourcePlan(
        files.stream,
        lambda spark: _chunks(spark, settings),
        ChunkIntake(files.stream),
        lambda partition, offset: fetch_file(files.form, partition, offset),
        lambda spark, start, end: _past(spark, settings, start, end),
        slice_max=max(1, SLICE_BYTES // chunk),
    )


def generated_source(
    stream: str, source: GeneratorSource, checkpoint: str, cores: int, batch_records: int
) -> SourcePlan:
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
        "batchchunks": str(max(1, batch_records // chunk)),
        "tasks": str(cores),
    }
    return SourcePlan(
        stream,
        lambda spark: _chunks(spark, settings),
        ChunkIntake(stream, source),
        lambda _, offset: fetch_generated(source, offset),
        lambda spark, start, end: _past(spark, settings, start, end),
        slice_max=max(1, 100_000 // chunk),
    )


def _chunks(spark: SparkSession, settings: dict[str, str]) -> DataFrame:
    spark.dataSource.register(ChunkSource)
    return spark.readStream.format("crossline-chunks").options(**settings).load()


def _past(
    spark: SparkSession, settings: dict[str, str], start: dict[str, Any] | None, end: dict[str, Any]
) -> DataFrame:
    """The chunks between two offsets, as a static DataFrame."""
    chunks = chunks_given(settings, start["chunk"] if start else 0, end["chunk"])
    return spark.createDataFrame([(c.sequence, c.path, c.start, c.end) for c in chunks], CHUNK_SCHEMA)
