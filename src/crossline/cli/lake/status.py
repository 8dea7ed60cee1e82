"""``crossline lake status``: what the tables hold, and how far the writer is."""

from __future__ import annotations

from dataclasses import asdict

import orjson
import typer

from crossline.basics.times import format_instant
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.terminal import Listing, note, show, write_lines


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Show the tables: rows, files, bytes, snapshots, and how far the writer is."
    app.command(name="status", help=text)(status)


def status(pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """List the tables of the pipeline's lake."""
    reader = open_reader(pipeline)
    found = reader.status()
    mark = reader.watermark()
    if as_json:
        write_lines([orjson.dumps({"table": each.name, **asdict(each)}) for each in found])
        return
    table = Listing("table", "rows", "files", "bytes", "snapshots")
    for each in found:
        table.add(each.name, f"{each.rows:,}", f"{each.files:,}", f"{each.size:,}", f"{each.snapshots:,}")
    show(table)
    if mark is None:
        note("nothing was written yet")
    else:
        note(f"whole up to batch {mark.batch}, delivered {format_instant(mark.delivered_ms)}")
