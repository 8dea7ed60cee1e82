"""``crossline rules publish-table``: rows of a file, sent to the topic of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.rules.topic import PIPELINE, As, PipelineFile, publisher
from crossline.cli.terminal.notes import write_lines
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.sources.keys import HOST, WHO


def publish_table(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table in the pipeline file.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows: .csv with a header, .jsonl, .parquet.")],
    *,
    pipeline: PipelineFile = PIPELINE,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the rows; the file needs the key columns alone.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="The file is the whole table: rows of the topic that it lacks are removed.")
    ] = False,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Send rows to the topic of a table, if all of them are right."""
    from crossline.cli.rules.table_rows import latest_by_key, of_topic, rows_in
    from crossline.io.kafka.tables.writer import send_rows
    from crossline.runtime.changes.publications import client_of

    config = read_pipeline_in_place(pipeline)
    if delete and whole:
        raise UsageError("found --delete and --whole; expected one of them")
    settings, declared = of_topic(config, table, pipeline)
    rows = rows_in(declared, file, delete=delete)
    unchanged = 0
    if whole:
        there = latest_by_key(settings)
        gone = {key: None for key in there if key not in rows}
        sent = {key: value for key, value in rows.items() if there.get(key) != value}
        unchanged = len(rows) - len(sent)
        rows = {**sent, **gone}
    who, host = publisher(settings, as_)
    count = send_rows(client_of(settings), settings.topic, rows.items(), {WHO: who, HOST: host})
    removed = sum(value is None for value in rows.values())
    body: dict[str, Any] = {"table": table, "put": count - removed, "taken_away": removed, "unchanged": unchanged}
    if as_json:
        write_lines([orjson.dumps({**body, "topic": settings.topic, "who": who})])
        return
    text = f"table {table}: {count - removed:,} rows put, {removed:,} removed"
    text += f", {unchanged:,} unchanged" if whole else ""
    sys.stdout.write(f"{text}; sent to topic {settings.topic} by {who}\n")
