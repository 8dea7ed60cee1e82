"""``crossline lake parity``: whether stream, API and a replay of the lake have the same figures."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.errors import StateError, UsageError
from crossline.basics.times import format_instant, parse_duration_ms, parse_instant_ms
from crossline.cli.backtest import log_of, rules_as_of_log, setting_of, with_tables
from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, open_reader
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.replay import replay_spec
from crossline.cli.signals import Stopping, stoppable
from crossline.cli.summary import ProgressLine
from crossline.cli.terminal.notes import note
from crossline.cli.terminal.tables import Listing, show
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestSpec
    from crossline.cli.backtest import Setting
    from crossline.lake.parity.report import DecisionParity, ParityReport
    from crossline.lake.parity.sampling import AlertSample
    from crossline.lake.reading import LakeReader
    from crossline.lake.replays.replay import IngestSpan
    from crossline.lake.watermark import Watermark
    from crossline.rules.policy.policy import Deciding

_SHOWN = 20
DECISIONS = "decisions.jsonl"
DIFFERS = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="parity", help="Compare alerts and decisions as stream, API and a replay of the lake have them.")(
        parity
    )


def parity(
    pipeline: PipelineFile = PIPELINE,
    sample: Annotated[
        int, typer.Option(min=1, max=100_000, help="The most alerts of a rule, or decisions of a kind.")
    ] = 200,
    last: Annotated[str, typer.Option(metavar="TIME", help="How much of the past is judged again.")] = "1h",
    to: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="End of the ingest times; by default the lake's end.")
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="Rule file or folder; by default the versions that were live, by the rule log.", exists=True),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge the records of the lake again, and compare samples of alerts and decisions.

    The report goes to serve.path, where the console shows it. Exit codes: 0 all are the same, 1 some differ.
    """
    from crossline.lake.parity.report import write_report

    reader = open_reader(pipeline)
    mark = reader.watermark()
    if mark is None:
        raise StateError("the lake has nothing yet; `crossline lake write` fills it")
    setting = setting_of(rules, None, None, str(pipeline), None, as_of_log=rules is None)
    span = _span(last, to, mark, setting.partition_lag_ms)
    report = _report(setting, reader, mark, span, sample, by_log=rules is None)
    serve = reader.config.serve
    if serve is not None:
        write_report(report, Path(serve.path))
    if as_json:
        sys.stdout.write(orjson.dumps(report.to_json()).decode() + "\n")
    else:
        _show(report)
        if serve is None:
            note("the pipeline has no section serve: the report is not kept for the console")
    raise typer.Exit(0 if report.same else DIFFERS)


def _span(last: str, to: str | None, mark: Watermark, lag_ms: int) -> IngestSpan:
    """Ingest times whose records the stream has judged. Where there are several logs, one may lag behind the others."""
    from crossline.lake.replays.replay import IngestSpan

    try:
        last_ms = parse_duration_ms(last)
    except ValueError as error:
        raise UsageError(f"--last: {error}") from None
    clocks = [*mark.clocks.values()]
    if to is None and not clocks:
        raise StateError("the lake has no records yet; nothing can be compared")
    try:
        end_ms = parse_instant_ms(to) if to is not None else max(min(clocks), max(clocks) - lag_ms) + 1
    except ValueError as error:
        raise UsageError(f"--to: {error}") from None
    return IngestSpan(end_ms - last_ms, end_ms)


def _report(
    setting: Setting, reader: LakeReader, mark: Watermark, span: IngestSpan, size: int, *, by_log: bool
) -> ParityReport:
    from crossline.lake.parity.comparison import answered_figures, compared, delivered_sample, sampled_records
    from crossline.lake.parity.report import ParityReport
    from crossline.runtime.machine.temporary_folders import own_folder_for

    log = log_of(setting.rules, setting.name) if by_log else None
    rules = (
        rules_as_of_log(log, setting.streams) if log else RuleSet.from_rules(read_rules(setting.rules, setting.known()))
    )
    delivered = delivered_sample(reader, mark, span, size)
    with stoppable() as stopping, own_folder_for("parity") as folder:
        spec = replace(replay_spec(rules, setting, reader, span, log), deciding=_deciding(setting, reader))
        (judged,) = with_tables([spec], setting.config, log, folder)
        records, again = _again(judged, span, folder, size, stopping)
        decisions = _decisions(judged, reader, mark, span, folder, size)
    answers = answered_figures(reader, sampled_records(delivered, again))
    ids = sorted({each.rule.rule_id for each in rules.versions} | delivered.rules() | again.rules())
    since, until = (format_instant(ms or 0) for ms in (span.from_ms, span.to_ms))
    return ParityReport(
        pipeline=reader.config.name,
        at=format_instant(time.time_ns() // 1_000_000),
        since=since,
        until=until,
        records=records,
        rules=tuple(compared(name, delivered, again, answers) for name in ids),
        decisions=decisions,
    )


def _deciding(setting: Setting, reader: LakeReader) -> Deciding | None:
    """By what is decided again: about the records whose decisions the lake has."""
    from crossline.lake.writing.side_logs import decision_folder
    from crossline.rules.policy.policy import Deciding

    return None if setting.policy is None else Deciding(setting.policy, decision_folder(reader.config) is not None)


def _decisions(
    judged: BacktestSpec, reader: LakeReader, mark: Watermark, span: IngestSpan, folder: Path, size: int
) -> tuple[DecisionParity, ...]:
    from crossline.lake.parity.decisions import DecisionParityInput, compared_decisions, decided_span

    if judged.deciding is None:
        return ()
    within = decided_span(reader, span) if judged.deciding.every else span
    version = judged.deciding.policy.version
    return compared_decisions(DecisionParityInput(reader, mark, within, folder / DECISIONS, size, version))


def _again(
    judged: BacktestSpec, span: IngestSpan, folder: Path, size: int, stopping: Stopping
) -> tuple[int, AlertSample]:
    """Judge again: how many records were read, and a sample of the alerts on those of the span."""
    from crossline.backtest import in_process
    from crossline.backtest.compare import read_alerts
    from crossline.lake.parity.sampling import AlertSample

    do_without_pandas()
    tell_compiling()
    progress = ProgressLine(sys.stderr)
    output = folder / "alerts.jsonl"
    try:
        decisions = None if judged.deciding is None else folder / DECISIONS
        done = in_process.backtest(
            judged, output, decisions=decisions, on_batch=progress.batch, on_start=stopping.stops
        )
    finally:
        progress.done()
    stopping.check()
    sample = AlertSample(size)
    for alert in read_alerts(output):
        if alert["corrects"] is None and span.has(alert["ingest_time"]):
            sample.add(alert)
    return done.totals.records, sample


def _show(report: ParityReport) -> None:
    table = Listing("rule", "alerts", "compared with the lake", "equal", "answered by the API", "equal ")
    for each in report.rules:
        counts = (each.alerts, each.sampled, each.equal, each.answered, each.answered_equal)
        table.add(each.rule_id, *(f"{count:,}" for count in counts))
    show(table)
    if report.decisions:
        decided = Listing("decision", "decisions", "compared with the lake", "equal", "answered by the API", "equal ")
        for kind in report.decisions:
            counts = (kind.decisions, kind.sampled, kind.equal, kind.answered, kind.answered_equal)
            decided.add(kind.decision, *(f"{count:,}" for count in counts))
        show(decided)
    shown = [
        f"{rule.rule_id}: alert {one.alert_id} on record {one.record_id} differs from the {one.other}: {one.what}"
        for rule in report.rules
        for one in rule.differences
    ]
    shown += [
        f"{kind.decision}: the decision on record {one.record_id} of {one.stream} differs from the {one.other}: "
        f"{one.what}"
        for kind in report.decisions
        for one in kind.differences
    ]
    for text in shown[:_SHOWN]:
        note(text)
    if len(shown) > _SHOWN:
        note(f"and {len(shown) - _SHOWN:,} more; --json names them")
    note(f"{report.records:,} records judged again, ingest times from {report.since} to {report.until}")
