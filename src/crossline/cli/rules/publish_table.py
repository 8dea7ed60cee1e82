"""``crossline rules publish-table``: rows of a file, sent to the topic of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import pyarrow.parquet as pq
import typer

from crossline.cli.rules.topic import PIPELINE, As, PipelineFile, publisher
from crossline.cli.screen import write_lines
from crossline.core.basics.errors import UsageError
from crossline.core.enrich.messages import messages_of
from crossline.core.enrich.rows import SUFFIXES, TableFile, format_of, read_table, rows_as_written
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.tables import TableOfTopic
from crossline.rulelog.content import content_of, read_pipeline_in_place
from crossline.rulelog.rows.rowlog import Declared
from crossline.rulelog.rows.tables import declared_of
from crossline.rulelog.sources.keys import HOST, WHO
from crossline.rulelog.tablelog import TABLE_BYTES_MAX

Rows = dict[bytes, bytes | None]


def publish_table(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table in the pipeline file.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows: .csv with a header, .jsonl, .parquet.")],
    *,
    pipeline: PipelineFile = PIPELINE,
    delete: Annotated[
        bool, typer.Option("--delete", help="Take the rows away; the file needs no columns but those of the key.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="The file is all of the table: rows of the topic that it lacks go.")
    ] = False,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one value a line.")] = False,
) -> None:
    """Send rows to the topic of a table, if all of them are right."""
    config = read_pipeline_in_place(pipeline)
    if delete and whole:
        raise UsageError("found --delete and --whole; expected one of them")
    settings, declared = _of_topic(config, table, pipeline)
    rows = _rows(declared, file, delete=delete)
    unchanged = 0
    if whole:
        there = _standing(settings)
        gone = {key: None for key in there if key not in rows}
        sent = {key: value for key, value in rows.items() if there.get(key) != value}
        unchanged = len(rows) - len(sent)
        rows = {**sent, **gone}
    from crossline.connectors.kafka.tables.writer import send_rows
    from crossline.engine.changes.control import client_of

    who, host = publisher(settings, as_)
    count = send_rows(client_of(settings), settings.topic, rows.items(), {WHO: who, HOST: host})
    taken = sum(value is None for value in rows.values())
    said: dict[str, Any] = {"table": table, "put": count - taken, "taken_away": taken, "unchanged": unchanged}
    if as_json:
        write_lines([orjson.dumps({**said, "topic": settings.topic, "who": who})])
        return
    text = f"table {table}: {count - taken:,} rows put, {taken:,} taken away"
    text += f", {unchanged:,} unchanged" if whole else ""
    sys.stdout.write(f"{text}; sent to topic {settings.topic} by {who}\n")


def _of_topic(config: PipelineConfig, table: str, pipeline: Path) -> tuple[TableOfTopic, Declared]:
    settings = config.tables.get(table)
    if settings is None:
        there = ", ".join(config.tables) or "none"
        raise UsageError(f"{pipeline}: found no table {table}; expected one of those under enrich: {there}")
    if not isinstance(settings, TableOfTopic):
        raise UsageError(f"{pipeline}: table {table} is of files; put the rows into {settings.path}")
    return settings, declared_of(config)[table]


def _rows(declared: Declared, file: Path, *, delete: bool) -> Rows:
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


def _standing(settings: TableOfTopic) -> dict[bytes, bytes]:
    """The last message of each key."""
    from crossline.engine.changes.control import row_reader
    from crossline.rulelog.rows.reader import messages_to_the_end

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
