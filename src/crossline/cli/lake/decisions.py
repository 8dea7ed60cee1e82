"""``crossline lake decisions``: the decisions of a lake, of any age."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from crossline.cli.alerts.store_options import Since, Until, since_until
from crossline.cli.decisions import DecisionKind
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_history
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.protocol import DecisionFilter


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="decisions", help="List decisions of the lake, of any age, the latest first.")(decisions)


def decisions(
    *,
    pipeline: PipelineFile = PIPELINE,
    decision_id: Annotated[str | None, typer.Option("--id", help="Only this decision, and its revisions.")] = None,
    decision: Annotated[DecisionKind | None, typer.Option(help="Only this decision.")] = None,
    record: Annotated[str | None, typer.Option(help="Only decisions on this record.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only decisions on records of this stream.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="The most decisions to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List decisions and their revisions, also those that no store has any more."""
    since_ms, until_ms = since_until(since, until)
    which = DecisionFilter(decision.value if decision else None, stream, record, since_ms, until_ms)
    rows = open_history(pipeline).decisions(which, decision_id)
    if as_json:
        write_lines(map(json_bytes, itertools.islice(rows, limit)))
        return
    found = list(itertools.islice(rows, limit + 1))
    table = Listing("id", "happened", "decision", "score", "record")
    for each in found[:limit]:
        of = f"{each['record_id']} of {each['stream']}"
        table.add(each["decision_id"], each["event_time"], each["decision"], str(each["score"]), of)
    show(table)
    if not found:
        note("no decision of the lake matches")
    elif len(found) > limit:
        note(f"the latest {limit:,}; there are more: --limit lists more")
