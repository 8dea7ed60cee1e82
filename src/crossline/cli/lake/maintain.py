"""``crossline lake maintain``: maintenance of the tables."""

from __future__ import annotations

import time
from dataclasses import asdict

import orjson
import typer

from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.terminal import Listing, show, write_lines


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="maintain", help="Merge small files, expire snapshots and old rows, delete orphaned files.")(
        maintain
    )


def maintain(pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """Maintain the tables of the pipeline's lake, as its section lake says. Writers and readers go on meanwhile."""
    reader = open_reader(pipeline)
    settings = reader.config.lake
    assert settings is not None  # noqa: S101 - it was opened
    from crossline.lake.maintenance.schedule import maintain as run

    done = list(run(reader, settings, time.time_ns() // 1_000_000))
    if as_json:
        write_lines([orjson.dumps(asdict(each)) for each in done])
        return
    table = Listing("table", "files merged", "into", "snapshots expired", "files deleted", "orphans deleted")
    for each in done:
        merged, expired = each.compacted, each.expired
        counts = (merged.before, merged.after, expired.snapshots, expired.files, each.orphans)
        table.add(each.table, *(f"{count:,}" for count in counts))
    show(table)
