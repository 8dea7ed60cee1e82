"""``crossline lake gaps``: which hours of the lake the rules have not judged; ``--fill`` judges them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant
from crossline.cli.backtest import log_of, rules_as_of_log, setting_of, with_tables
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.replay import replay_spec
from crossline.cli.signals import Stopping, stoppable
from crossline.cli.summary import ProgressLine
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show

if TYPE_CHECKING:
    from crossline.cli.backtest import Setting
    from crossline.lake.gaps.report import MissingRecords, RuleGap
    from crossline.lake.reading import LakeReader
    from crossline.rules.ruleset import RuleSet


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="gaps", help="Show which hours of the lake a live rule has not judged; --fill judges them.")(gaps)


def gaps(
    pipeline: PipelineFile = PIPELINE,
    rule: Annotated[list[str] | None, typer.Option(help="A rule; repeat it for several. Default: all.")] = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="Judge the gaps now; the alerts go to the table filled_alerts.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the gaps of the live rules, by the rule log of the pipeline, and the records that the lake does not have."""
    reader = open_reader(pipeline)
    from crossline.lake.gaps.report import missing_records, rule_gaps

    setting = setting_of(None, None, None, str(pipeline), None, as_of_log=True)
    log = log_of(setting.rules, setting.name)
    rules = rules_as_of_log(log, setting.streams)
    found = _of_rules(rule_gaps(reader, rules), rules, rule)
    if fill and found:
        with stoppable() as stopping:
            _fill(reader, setting, log, rules, found, stopping)
        return
    _show(found, missing_records(reader), as_json=as_json)


def _of_rules(found: Sequence[RuleGap], rules: RuleSet, wanted: Sequence[str] | None) -> list[RuleGap]:
    live = {each.rule.rule_id for each in rules.versions if each.endless}
    for name in wanted or ():
        if name not in live:
            expected = ", ".join(sorted(live)) or "there is none"
            raise UsageError(f"--rule: found {name}, expected a live rule: {expected}")
    return [gap for gap in found if not wanted or gap.rule_id in wanted]


def _show(found: Sequence[RuleGap], missing: Sequence[MissingRecords], *, as_json: bool) -> None:
    if as_json:
        rows = [{**asdict(gap), "from": format_instant(gap.from_ms), "to": format_instant(gap.to_ms)} for gap in found]
        write_lines(orjson.dumps({k: v for k, v in row.items() if k not in {"from_ms", "to_ms"}}) for row in rows)
        write_lines(orjson.dumps({"missing": asdict(each)}) for each in missing)
        return
    table = Listing("rule", "version", "stream", "from", "to", "records")
    for gap in found:
        span = (format_instant(gap.from_ms), format_instant(gap.to_ms))
        table.add(gap.rule_id, str(gap.version), gap.stream, *span, f"{gap.records:,}")
    if found:
        show(table)
    else:
        note("every live rule has judged all records of the lake")
    for each in missing:
        note(f"not in the lake: {each.stream}, {each.log}, offsets {each.first:,} to {each.end - 1:,}")


def _fill(
    reader: LakeReader, setting: Setting, log: Path, rules: RuleSet, found: Sequence[RuleGap], stopping: Stopping
) -> None:
    """Judge ``found`` by the live versions, and keep what they give."""
    from crossline.backtest import in_process
    from crossline.backtest.compare import read_alerts
    from crossline.lake.gaps.fill import keep_fills, rules_to_fill
    from crossline.lake.replays.replay import IngestSpan
    from crossline.runtime.machine.temporary_folders import own_folder_for

    span = IngestSpan(min(gap.from_ms for gap in found), max(gap.to_ms for gap in found))
    tell_compiling()
    progress = ProgressLine(sys.stderr)
    with own_folder_for("fill") as folder:
        spec = replay_spec(rules_to_fill(rules), setting, reader, span, log)
        (judged,) = with_tables([spec], setting.config, log, folder)
        try:
            in_process.backtest(judged, folder / "alerts.jsonl", on_batch=progress.batch, on_start=stopping.stops)
        finally:
            progress.done()
        stopping.check()
        done = keep_fills(reader.lake, found, read_alerts(folder / "alerts.jsonl"))
    table = Listing("rule", "version", "from", "to", "records", "alerts")
    for each in done:
        gap = each.gap
        times = (format_instant(gap.from_ms), format_instant(gap.to_ms))
        table.add(gap.rule_id, str(gap.version), *times, f"{gap.records:,}", f"{each.alerts:,}")
    show(table)
