"""``crossline slo``: whether a pipeline's objectives are kept, and what is left of their error budgets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.formatting import (
    budget_text,
    burn_rate_text,
    percentile_text,
    share_text,
    unknown_text,
    value_text,
)
from crossline.observe.objectives.prometheus import rules_of
from crossline.observe.objectives.report import report
from crossline.rule_registry.content import read_pipeline_in_place

PIPELINE = Path("pipeline.yaml")
_STYLES = {True: "", False: "red", None: "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Say whether a pipeline keeps its objectives, and what is left of their error budgets."
    app.command(name="slo", help=text)(slo)


def slo(
    pipeline: Annotated[
        Path, typer.Argument(help="The pipeline file, with a section slo.", exists=True, dir_okay=False)
    ] = PIPELINE,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one value.")] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print rules for Prometheus instead: rates by window, and alerts.")
    ] = False,
) -> None:
    """Show the objectives of the pipeline over 1 h, 24 h and 30 d."""
    config = read_pipeline_in_place(pipeline)
    if config.slo is None:
        raise UsageError(f"{pipeline}: found no section slo; expected one, for example slo: {{lag: {{under: 5s}}}}")
    if prometheus:
        typer.echo(rules_of(config.name, objectives_of(config.slo)), nl=False)
        return
    found = report(config, time.time_ns() // 1_000_000)
    if as_json:
        write_lines([orjson.dumps(found)])
        return
    table = Listing("objective", "1 h", "24 h", "30 d", "budget left", "unknown of 30 d", "pace")
    for each in found["objectives"]:
        windows = [_window(each, window) for window in each["windows"].values()]
        period = each["windows"]["30d"]
        left = Text(budget_text(period), _STYLES[None if period["budget_left"] is None else period["budget_left"] > 0])
        table.add(each["promise"], *windows, left, unknown_text(period), burn_rate_text(each))
    show(table)
    note(f"as of {found['as_of']}; 30 d decides of the budget; red: not kept, yellow: not known")


def _window(objective: Mapping[str, Any], window: Mapping[str, Any]) -> Text:
    value = value_text(objective, window)
    text = f"{percentile_text(objective)} {value}; {share_text(window)}" if value else share_text(window)
    return Text(text, _STYLES[window["kept"]])
