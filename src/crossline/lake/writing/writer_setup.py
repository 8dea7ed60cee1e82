"""A lake writer from a pipeline's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crossline.basics.errors import UsageError
from crossline.io.objects.file_stores import file_store
from crossline.io.objects.location import is_uri, under
from crossline.io.outbox.batch_spool import BatchSpool
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.tables.table_layouts import records_table
from crossline.lake.writing.source_reader import SourceReader
from crossline.lake.writing.writer import LakeWriter
from crossline.runtime.snapshot.checkpoint import LAKE
from crossline.settings.config import PipelineConfig


@contextmanager
def writer_of(
    config: PipelineConfig, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Iterator[LakeWriter]:
    """The writer of a pipeline, whose paths are absolute or relative to the working directory.

    Args:
        config: The pipeline.
        folder: The folder of its checkpoint on this machine; needed where the checkpoint is on an object store.
        environment: Has the passwords that settings name.

    Raises:
        UsageError: The pipeline has no lake, or two of its streams would share a table.
    """
    _check_names(config)
    spool, reader = spool_and_reader(config, folder, environment)
    lake = open_lake(config, environment)
    assert config.lake is not None  # noqa: S101 - it was opened
    writer = LakeWriter(lake, spool, reader, config.lake.commit_bytes)
    try:
        writer.make_tables()
        yield writer
    finally:
        reader.close()
        lake.close()


def spool_and_reader(
    config: PipelineConfig, folder: Path | None, environment: Mapping[str, str] = os.environ
) -> tuple[BatchSpool, SourceReader]:
    """What batches gave, and what reads their records again. Arguments and errors as ``writer_of``."""
    checkpoint = config.engine.checkpoint
    if folder is None and is_uri(checkpoint):
        raise UsageError(
            f"{checkpoint}: a writer of its own needs --checkpoint-folder, the folder in which the run works in it"
        )
    reader = SourceReader(config, folder or Path(checkpoint).absolute(), environment)
    return BatchSpool(file_store(under(checkpoint, LAKE) if is_uri(checkpoint) else str(reader.folder / LAKE))), reader


def _check_names(config: PipelineConfig) -> None:
    known: dict[str, str] = {}
    for stream in config.streams:
        other = known.setdefault(records_table(stream).lower(), stream)
        if other != stream:
            table = records_table(stream)
            raise UsageError(f"streams {other} and {stream} would share table {table} of the lake; rename one of them")
