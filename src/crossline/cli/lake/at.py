"""``crossline lake at``: what was known at an instant."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, json_line, open_reader
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show

if TYPE_CHECKING:
    from crossline.lake.time_travel import LakeAt


class Shown(StrEnum):
    """What is listed."""

    SUMMARY = "summary"
    RECORDS = "records"
    ALERTS = "alerts"
    DECISIONS = "decisions"
    RULES = "rules"
    LABELS = "labels"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="at", help="Show what was known at an instant: records, alerts, decisions, rules, labels.")(at)


def at(
    instant: Annotated[str, typer.Argument(help="An instant, such as 2026-01-05T09:00:00Z.")],
    what: Annotated[Shown, typer.Argument(help="What to list.")] = Shown.SUMMARY,
    pipeline: PipelineFile = PIPELINE,
    stream: Annotated[str | None, typer.Option(help="The stream whose records are listed.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most rows to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the rows of batches that were delivered by ``instant``; alerts and decisions as they stood then."""
    try:
        at_ms = parse_instant_ms(instant)
    except ValueError as error:
        raise UsageError(f"INSTANT: {error}") from None
    reader = open_reader(pipeline)
    from crossline.lake.time_travel import LakeAt

    view = LakeAt(reader, at_ms)
    if as_json:
        write_lines(json_line(row) for row in _rows(view, what, stream, limit))
        return
    rows = list(_rows(view, what, stream, limit + 1))
    columns = _COLUMNS[what] or [name for name in (rows[0] if rows else {}) if name not in _HIDDEN]
    table = Listing(*columns)
    for row in rows[-limit:]:
        table.add(*(_cell(row.get(name)) for name in columns))
    show(table)
    more = f"; the last {limit:,}, there are more: --limit lists more" if len(rows) > limit else ""
    note(f"as known at {instant}{more}")


_HIDDEN = ("_batch", "_checkpoint", "_delivered_at", "_duplicate", "_log", "_position")
_COLUMNS: dict[Shown, list[str]] = {
    Shown.SUMMARY: ["table", "rows"],
    Shown.RECORDS: [],
    Shown.ALERTS: ["event_time", "rule_id", "rule_version", "kind", "record_id", "message"],
    Shown.DECISIONS: ["event_time", "decision", "score", "record_id"],
    Shown.LABELS: ["at", "stream", "record_id", "is_fraud", "known_at", "who", "reason"],
    Shown.RULES: ["rule_id", "version", "status", "effective_from", "who"],
}


def _rows(view: LakeAt, what: Shown, stream: str | None, last: int) -> Iterator[dict[str, Any]]:
    """The last rows, in order of time. Records, alerts and decisions are read as they are taken."""
    from crossline.lake.time_travel import KnownRows

    if what == Shown.SUMMARY:
        return iter([{"table": name, "rows": count} for name, count in view.counts().items()][-last:])
    if what == Shown.LABELS:
        return iter(_labels(view, last))
    if what == Shown.RULES:
        return iter(view.rules()[-last:])
    of = _stream(stream, list(view.reader.config.streams)) if what == Shown.RECORDS else None
    return view.listed(KnownRows(what.value), of, last)


def _labels(view: LakeAt, limit: int) -> list[dict[str, Any]]:
    """The label in force of each record: the last ``limit`` in the order in which they were given."""
    from crossline.lake.training.label_versions import last_labels
    from crossline.runtime.machine.temporary_folders import own_folder_for

    order = [("at", "ascending"), ("_batch", "ascending")]
    newest = None
    with own_folder_for("labels") as folder:
        for part in last_labels(view.reader, view.at_ms, folder):
            both = part if newest is None else pa.concat_tables([newest, part])
            newest = both.sort_by(order).slice(max(0, len(both) - limit)).combine_chunks()
    rows: list[dict[str, Any]] = [] if newest is None else newest.to_pylist()
    return rows


def _stream(given: str | None, streams: list[str]) -> str:
    if given is None and len(streams) == 1:
        return streams[0]
    if given not in streams:
        raise UsageError(f"--stream: found {given or 'none'}, expected one of {', '.join(streams)}")
    return given


def _cell(value: Any) -> str:
    return (
        "" if value is None else value if isinstance(value, str) else json_line({"": value})[4:-1].decode().strip('"')
    )
