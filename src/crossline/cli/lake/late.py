"""``crossline lake late``: what records beyond the allowed lateness would have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossline.cli.backtest import log_of, rules_as_of_log, setting_of, with_tables
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, json_line, open_reader
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.replay import instant_of, replay_spec
from crossline.cli.signals import Stopping, stoppable
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestSpec
    from crossline.cli.backtest import Setting
    from crossline.lake.late.recompute import LateChange, LateRecords
    from crossline.lake.reading import LakeReader
    from crossline.lake.replays.replay_input import LakeInput
    from crossline.rules.ruleset import RuleSet


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Show what records beyond the allowed lateness would have changed."
    app.command(name="late", help=text)(late)


def late(
    pipeline: PipelineFile = PIPELINE,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="Late records that were delivered from then on.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="Late records that were delivered before.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge the records of their keys with and without them, by rules without a bound on lateness; list what differs.

    The changes are appended to the table late_changes, each once. Nothing is corrected or delivered.
    """
    reader = open_reader(pipeline)
    from crossline.lake.late.recompute import keep_changes, late_records

    found = late_records(reader, instant_of("--from", from_), instant_of("--to", to))
    setting = setting_of(None, None, None, str(pipeline), None, as_of_log=True)
    log = log_of(setting.rules, setting.name)
    rules = rules_as_of_log(log, setting.streams)
    changes: list[LateChange] = []
    left_out: dict[str, str] = {}
    with stoppable() as stopping:
        for each in found:
            mine, others = _recomputed(reader, setting, log, rules, each, stopping)
            changes += mine
            left_out |= others
    kept = keep_changes(reader.lake, changes)
    if as_json:
        write_lines(json_line({"outcome": each.outcome, "before": each.before, **each.alert}) for each in changes)
        return
    if changes:
        table = Listing("outcome", "rule", "record", "event time", "before", "value", "message")
        for change in changes:
            row = (change.outcome, change.alert["rule_id"], change.alert["record_id"], change.alert["event_time"])
            before = "" if change.before is None else str(change.before)
            table.add(*row, before, str(change.alert["value"]), change.alert["message"])
        show(table)
    count = sum(len(each.ids) for each in found)
    note(f"{count:,} late records would have changed {len(changes):,} alerts; {kept:,} of these changes are new")
    for rule_id, why in sorted(left_out.items()):
        note(f"not recomputed: {rule_id}: {why}")


def _recomputed(
    reader: LakeReader, setting: Setting, log: Path, rules: RuleSet, late: LateRecords, stopping: Stopping
) -> tuple[list[LateChange], dict[str, str]]:
    """What the late records of a stream would have changed, and the rules that are left out."""
    from crossline.lake.late.patient_rules import patient_rules
    from crossline.lake.late.recompute import changes, inputs_of
    from crossline.lake.replays.replay import IngestSpan
    from crossline.runtime.machine.temporary_folders import own_folder_for

    groups, left_out = patient_rules(rules, setting.defaults, late.lateness_ms)
    found: list[LateChange] = []
    for group in groups:
        if group.stream != late.stream:
            continue
        with own_folder_for("late") as folder:
            spec = replay_spec(group.rules, setting, reader, IngestSpan(), log)
            (judged,) = with_tables([spec], setting.config, log, folder)
            inputs = inputs_of(reader, judged, group, late)
            if inputs is None:
                continue
            without, with_them = (_alerts(judged, each, folder, stopping) for each in inputs)
            found += changes(without, with_them)
    return found, left_out


def _alerts(judged: BacktestSpec, given: LakeInput, folder: Path, stopping: Stopping) -> list[dict[str, Any]]:
    from crossline.backtest import in_process
    from crossline.backtest.compare import read_alerts

    tell_compiling()
    output = folder / "alerts.jsonl"
    in_process.backtest(replace(judged, stored=given), output, on_start=stopping.stops)
    return list(read_alerts(output))
