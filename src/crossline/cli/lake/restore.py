"""``crossline lake restore``: a checkpoint from a snapshot of the state in the lake."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show

if TYPE_CHECKING:
    from crossline.lake.state.state_snapshots import StateSnapshot


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Make a lost checkpoint from a snapshot of the state in the lake; --list lists them."
    app.command(name="restore", help=text)(restore)


def restore(
    pipeline: PipelineFile = PIPELINE,
    at: Annotated[
        str | None, typer.Option("--at", help="The newest snapshot of a batch delivered by this instant.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the snapshots, and restore nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore the state after the batch of a snapshot; the next run goes on with the records behind it.

    There must be no checkpoint: move a damaged one away. The rule files come with the pipeline file.
    """
    try:
        at_ms = None if at is None else parse_instant_ms(at)
    except ValueError as error:
        raise UsageError(f"--at: {error}") from None
    reader = open_reader(pipeline)
    from crossline.io.objects.location import is_uri
    from crossline.lake.state.restore import StateRestore
    from crossline.lake.state.state_snapshots import StateSnapshots, newest_by
    from crossline.rule_registry.directory import log_path

    snapshots = StateSnapshots(reader.lake)
    if listing:
        _list(snapshots.all(), as_json=as_json)
        return
    config = reader.config
    chosen = newest_by(snapshots.all(), at_ms)
    place = config.engine.checkpoint
    place = place if is_uri(place) else str(Path(place).absolute())
    log_file = log_path(config.rules.path, config.name)
    done = StateRestore(config.name, place, log_file, snapshots, time.time_ns() // 1_000_000).restore(chosen)
    if as_json:
        body = {"checkpoint": done.place, "id": done.checkpoint, "again": done.again, **_body(chosen)}
        write_lines([orjson.dumps(body)])
        return
    note(f"{done.place}: state after batch {chosen.batch}, delivered {format_instant(chosen.delivered_ms)}")
    note(f"{chosen.files:,} files, {chosen.size:,} bytes; the next run goes on with the records behind that batch")


def _body(snapshot: StateSnapshot) -> dict[str, Any]:
    times = {name: format_instant(getattr(snapshot, f"{name}_ms")) for name in ("delivered", "taken")}
    kept = {name: value for name, value in asdict(snapshot).items() if not name.endswith("_ms")}
    kept["of"] = kept.pop("checkpoint")
    return {**kept, **{f"{name}_at": text for name, text in times.items()}}


def _list(snapshots: list[StateSnapshot], *, as_json: bool) -> None:
    if as_json:
        write_lines(orjson.dumps(_body(each)) for each in snapshots)
        return
    table = Listing("batch", "delivered", "taken", "files", "bytes", "checkpoint")
    for each in snapshots:
        times = (format_instant(each.delivered_ms), format_instant(each.taken_ms))
        table.add(str(each.batch), *times, f"{each.files:,}", f"{each.size:,}", each.checkpoint)
    show(table)
    if not snapshots:
        note("the lake has no snapshot of the state")
