"""Rows of a file as messages of a table's topic, and the present rows of the topic."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from crossline.basics.errors import UsageError
from crossline.ingest.enrich.messages import messages_of
from crossline.ingest.enrich.rows import SUFFIXES, TableFile, format_of, read_table, rows_as_written
from crossline.rule_registry.content import content_of
from crossline.rule_registry.rows.reader import messages_to_the_end
from crossline.rule_registry.rows.row_log import Declared
from crossline.rule_registry.rows.tables import declared_of
from crossline.rule_registry.table_log import TABLE_BYTES_MAX
from crossline.runtime.changes.publications import row_reader
from crossline.settings.config import PipelineConfig
from crossline.settings.tables import TableOfTopic

Rows = dict[bytes, bytes | None]


def of_topic(config: PipelineConfig, table: str, pipeline: Path) -> tuple[TableOfTopic, Declared]:
    """How a table is declared. Raises UsageError if it is none of a topic."""
    settings = config.tables.get(table)
    if settings is None:
        there = ", ".join(config.tables) or "none"
        raise UsageError(f"{pipeline}: found no table {table}; expected one of those under enrich: {there}")
    if not isinstance(settings, TableOfTopic):
        raise UsageError(f"{pipeline}: table {table} is of files; put the rows into {settings.path}")
    return settings, declared_of(config)[table]


def rows_in(declared: Declared, file: Path, *, delete: bool) -> Rows:
    """The messages of the rows of a file. Raises UsageError, or RefusedError with all that is wrong in it."""
    if not file.name.endswith(SUFFIXES):
        raise UsageError(f"found file {file.name}; expected a name that ends in {', '.join(SUFFIXES)}")
    content = content_of(file, TABLE_BYTES_MAX)
    if content.error is not None:
        raise UsageError(f"{file}: found {content.error}; expected a file that can be read")
    parquet = pq.read_table(str(file)) if format_of(file.name) == "parquet" else None
    read = TableFile(str(file), content.data, parquet)
    found = messages_of(declared.form, declared.keyed, rows_as_written(declared.form, read, keys_alone=delete))
    if delete:
        return dict.fromkeys(key for key, _ in found)
    read_table(declared.form, [read])  # a key that comes twice is refused
    return dict(found)


def latest_by_key(settings: TableOfTopic) -> dict[bytes, bytes]:
    """The last message of each key in the topic."""
    reader = row_reader(settings)
    found: dict[bytes, bytes] = {}
    try:
        for message in messages_to_the_end(reader):
            if message.key is not None and message.value is not None:
                found[message.key] = message.value
            elif message.key is not None:
                found.pop(message.key, None)
    finally:
        reader.close()
    return found
