"""``crossline lake alerts``: the alerts of a lake, of any age."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from crossline.cli.alerts.command import Key, OfKind, OfSeverity, Rule, alert_filter
from crossline.cli.alerts.store_options import Since, Until
from crossline.cli.alerts.text import list_table
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_history
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import show
from crossline.evaluate.alerts.alert_json import json_bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="alerts", help="List alerts of the lake, of any age, the latest first.")(alerts)


def alerts(
    *,
    pipeline: PipelineFile = PIPELINE,
    rule: Rule = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    kind: OfKind = None,
    severity: OfSeverity = None,
    limit: Annotated[int, typer.Option(min=1, help="The most alerts to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List alerts and corrections, also those that no store has any more; ``status`` is their last word."""
    which = alert_filter(rule=rule, key=key, since=since, until=until, kind=kind, severity=severity)
    rows = open_history(pipeline).alerts(which)
    if as_json:
        write_lines(map(json_bytes, itertools.islice(rows, limit)))
        return
    from crossline.lake.lookup.history import STANDING

    found = list(itertools.islice(rows, limit + 1))
    became = {each["alert_id"]: each["status"] for each in found if each["status"] != STANDING}
    show(list_table(found[:limit], became))
    if not found:
        note("no alert of the lake matches")
    elif len(found) > limit:
        note(f"the latest {limit:,}; there are more: --limit lists more")
