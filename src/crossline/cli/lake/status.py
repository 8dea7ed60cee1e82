"""``crossline lake status``: what the tables hold, and how far the writer is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson
import typer

from crossline.basics.errors import RetryableError
from crossline.basics.times import format_instant
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.io.objects.location import is_uri

if TYPE_CHECKING:
    from crossline.lake.writing.backlog import PendingLog
    from crossline.settings.config import PipelineConfig


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
    if reader.config.engine.checkpoint and not is_uri(reader.config.engine.checkpoint):
        _show_backlog(reader.config)


def _show_backlog(config: PipelineConfig) -> None:
    """The batches that the lake does not have, and until when the topics keep their records."""
    from crossline.lake.writing.backlog import backlog
    from crossline.lake.writing.writer_setup import spool_and_reader

    spool, source = spool_and_reader(config, None)
    try:
        found = backlog(spool, source)
    except RetryableError as error:
        note(f"behind; until when the topics keep the records is not known: {error}")
        return
    finally:
        source.close()
    if found is None:
        return
    batches = f"{found.batches:,} batch{'' if found.batches == 1 else 'es'}"
    note(f"behind: {batches}, the oldest delivered {format_instant(found.delivered_ms)}")
    for log in found.logs:
        note(f"{log.log} from offset {log.offset}: {_kept(log)}")


def _kept(log: PendingLog) -> str:
    if log.record_ms is None:
        return "the topic has deleted it; the lake will not have it"
    kept = []
    if log.until_ms is not None:
        kept.append(f"until {format_instant(log.until_ms)}")
    if log.retention.bytes is not None:
        kept.append(f"as long as the partition has at most {log.retention.bytes:,} bytes")
    if log.retention.compacted:
        kept.append("until its key has a newer record")
    return f"the topic keeps it {' and '.join(kept) or 'for ever'}"
