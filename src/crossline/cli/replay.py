"""``crossline replay``: rules over the records of the lake."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.cli.backtest import deciding_for, lists_for, log_of, rules_as_of_log, setting_of, with_tables
from crossline.cli.lake.lake_options import open_reader
from crossline.cli.process import do_without_pandas
from crossline.cli.signals import Stopping, stoppable
from crossline.cli.startup import tell_compiling
from crossline.cli.summary import ProgressLine, as_text, differences, recorded_only
from crossline.io.sinks.outfile import draft_file, is_standard_output, make_folder
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestResult, BacktestSpec
    from crossline.cli.backtest import Setting
    from crossline.lake.reading import LakeReader
    from crossline.lake.replay import IngestSpan

PIPELINE = Path("pipeline.yaml")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="replay", help="Judge the records of the lake again; say what differs from what was delivered.")(
        replay
    )


def replay(
    pipeline: Annotated[
        Path, typer.Option("--pipeline", help="Pipeline file with a section lake.", exists=True, dir_okay=False)
    ] = PIPELINE,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="First ingest time; by default the first record's.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="End of the ingest times, exclusive.")
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="Rule file or folder; by default the versions that were live, by the rule log.", exists=True),
    ] = None,
    output: Annotated[Path, typer.Option(help="File for the alerts, JSON lines; an existing file is replaced.")] = Path(
        "alerts.jsonl"
    ),
    decisions: Annotated[Path | None, typer.Option(help="File for decisions, JSON lines. Needs a policy.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show which alerts appear and disappear against those delivered.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps the run: after a stop or a kill, the same command goes on there. It is removed at "
            "the end."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON on stdout.")] = False,
) -> None:
    """Run the same engine as ``crossline run`` over the records of the lake.

    Records before --from that the rules can reach are read too; their alerts are left out.
    """
    from crossline.lake.replay import IngestSpan
    from crossline.runtime.machine.temporary_folders import own_folder_for

    span = IngestSpan(instant_of("--from", from_), instant_of("--to", to))
    setting = setting_of(rules, None, None, str(pipeline), None, as_of_log=rules is None)
    log = log_of(setting.rules, setting.name) if rules is None else None
    mine = (
        rules_as_of_log(log, setting.streams) if log else RuleSet.from_rules(read_rules(setting.rules, setting.known()))
    )
    reader = open_reader(pipeline)
    with stoppable() as stopping, own_folder_for("replay") as folder:
        (judged,) = with_tables([replay_spec(mine, setting, reader, span, log)], setting.config, log, folder)
        judged = replace(judged, deciding=deciding_for(output, decisions, None, setting))
        figures = _run(judged, reader, _Asked(span, output, decisions, compare, resume), folder, stopping)
    out = sys.stderr if any(is_standard_output(path) for path in (output, decisions) if path) else sys.stdout
    out.write(orjson.dumps(figures).decode() + "\n" if as_json else as_text(figures))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options."""

    span: IngestSpan
    output: Path
    decisions: Path | None
    compare: bool
    resume: Path | None


def instant_of(option: str, text: str | None) -> int | None:
    """An option's instant in epoch milliseconds. Raises UsageError if it is none."""
    try:
        return None if text is None else parse_instant_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def replay_spec(
    mine: RuleSet, setting: Setting, reader: LakeReader, span: IngestSpan, log: Path | None
) -> BacktestSpec:
    """Rules over the records of a span, and over those before it that they can reach.

    Tables are read up to the watermark: behind it one table may have a batch that another one does not have yet.
    """
    from crossline.backtest.backtest import BacktestSpec, RecordedInput
    from crossline.evaluate.shard import Bounds
    from crossline.lake.replay import reach_ms
    from crossline.lake.replay_input import LakeInput

    history = RecordedInput(setting.streams, dict.fromkeys(setting.streams, ()))
    given = (lists_for([mine], setting.lists, log, setting.streams), setting.defaults, Bounds(setting.partition_lag_ms))
    judged = BacktestSpec(mine, history, *given)
    first_ms = None if span.from_ms is None else span.from_ms - reach_ms(judged)
    return replace(
        judged, stored=LakeInput(reader, setting.streams, history.inputs, first_ms, span.to_ms, reader.known_ms())
    )


def _run(judged: BacktestSpec, reader: LakeReader, asked: _Asked, folder: Path, stopping: Stopping) -> dict[str, Any]:
    from crossline.backtest import in_process
    from crossline.backtest.resumable import discard
    from crossline.lake.replay import keep_span, write_delivered

    do_without_pandas()
    tell_compiling()
    progress = ProgressLine(sys.stderr)
    alerts, decided = folder / "alerts.jsonl", None if asked.decisions is None else folder / "decisions.jsonl"
    try:
        done = in_process.backtest(
            judged,
            alerts,
            decisions=decided,
            on_batch=progress.batch,
            on_start=stopping.stops,
            kept=asked.resume,
        )
    finally:
        progress.done()
    with ExitStack() as made:
        for source, output in ((alerts, asked.output), (decided, asked.decisions)):
            if source is not None and output is not None:
                make_folder(output)
                keep_span(source, made.enter_context(draft_file(output)), asked.span)
        figures = _figures(judged, done, asked)
        if asked.compare:
            write_delivered(reader, asked.span, folder / "delivered.jsonl")
            keep_span(alerts, folder / "kept.jsonl", asked.span)
            figures["compare"] = differences(folder / "delivered.jsonl", folder / "kept.jsonl")
        stopping.check()  # else what was drafted would be kept
    if asked.resume is not None:
        discard(asked.resume)
    return figures


def _figures(judged: BacktestSpec, done: BacktestResult, asked: _Asked) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "records": done.totals.records,
        "alerts": dict(sorted(done.totals.alerts.items())),
        **recorded_only(judged.rules),
        "dead_letters": done.totals.dead,
        "late_records": done.totals.late,
        "output": str(asked.output),
    }
    if asked.decisions is not None:
        figures |= {"decisions": dict(sorted(done.totals.decisions.items())), "decisions_output": str(asked.decisions)}
    return figures
