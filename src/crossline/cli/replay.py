"""``crossline replay``: rules over the records of the lake."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.cli.backtest import deciding_for, lists_for, log_of, rules_as_of_log, setting_of, with_tables
from crossline.cli.lake.lake_options import check_reachable, open_reader
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.signals import Runner, Stopping, session_of, stoppable
from crossline.cli.summary import ProgressLine, as_text, differences, recorded_only
from crossline.io.sinks.outfile import draft_file, is_standard_output, make_folder
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestResult, BacktestSpec
    from crossline.cli.backtest import Setting
    from crossline.lake.reading import LakeReader
    from crossline.lake.replays.replay import IngestSpan
    from crossline.settings.config import PipelineConfig

PIPELINE = Path("pipeline.yaml")
On = Annotated[
    Runner,
    typer.Option(
        help="What judges. local: processes of this machine, which begin at once. spark: Spark, on the pipeline's "
        "engine.master. auto: local. Alerts, decisions and their order are the same."
    ),
]


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
    on: On = Runner.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON on stdout.")] = False,
) -> None:
    """Run the same engine as ``crossline run`` over the records of the lake.

    Records before --from that the rules can reach are read too; their alerts are left out.
    """
    from crossline.lake.replays.replay import IngestSpan
    from crossline.runtime.machine.temporary_folders import own_folder_for

    if on is Runner.SPARK and resume is not None:
        raise UsageError(
            f"--resume {resume}: a replay on Spark keeps no folder, since Spark runs lost tasks again; leave --resume "
            "out, or use --on local"
        )
    span = IngestSpan(instant_of("--from", from_), instant_of("--to", to))
    setting = setting_of(rules, None, None, str(pipeline), None, as_of_log=rules is None)
    log = log_of(setting.rules, setting.name) if rules is None else None
    mine = (
        rules_as_of_log(log, setting.streams) if log else RuleSet.from_rules(read_rules(setting.rules, setting.known()))
    )
    reader = open_reader(pipeline, with_spark=on is Runner.SPARK)
    if on is Runner.SPARK:
        check_reachable(reader.config)
    with stoppable() as stopping, own_folder_for("replay") as folder:
        (judged,) = with_tables([replay_spec(mine, setting, reader, span, log)], setting.config, log, folder)
        judged = replace(judged, deciding=deciding_for(output, decisions, None, setting))
        figures = _run(judged, reader, _Asked(span, output, decisions, compare, resume, on), folder, stopping)
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
    on: Runner


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
    from crossline.evaluate.bounds import Bounds
    from crossline.lake.replays.replay import reach_ms
    from crossline.lake.replays.replay_input import LakeInput

    history = RecordedInput(setting.streams, dict.fromkeys(setting.streams, ()))
    given = (lists_for([mine], setting.lists, log, setting.streams), setting.defaults, Bounds(setting.partition_lag_ms))
    judged = BacktestSpec(mine, history, *given)
    first_ms = None if span.from_ms is None else span.from_ms - reach_ms(judged)
    return replace(
        judged, stored=LakeInput(reader, setting.streams, history.inputs, first_ms, span.to_ms, reader.known_ms())
    )


def _run(judged: BacktestSpec, reader: LakeReader, asked: _Asked, folder: Path, stopping: Stopping) -> dict[str, Any]:
    from crossline.backtest.resumable import discard
    from crossline.lake.replays.replay import keep_span, write_delivered

    progress = ProgressLine(sys.stderr)
    alerts, decided = folder / "alerts.jsonl", None if asked.decisions is None else folder / "decisions.jsonl"
    try:
        with _runner(reader.config, asked, stopping, progress) as judge:
            done = judge(judged, alerts, decisions=decided, on_batch=progress.batch, on_start=stopping.stops)
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


@contextmanager
def _runner(
    config: PipelineConfig, asked: _Asked, stopping: Stopping, progress: ProgressLine
) -> Iterator[Callable[..., BacktestResult]]:
    """What judges; Spark, where that is asked for, for as long as the context lasts."""
    if asked.on is not Runner.SPARK:
        do_without_pandas()
        tell_compiling()
        from crossline.backtest import in_process

        yield partial(in_process.backtest, kept=asked.resume)
        return
    from crossline.backtest import replay_in_spark
    from crossline.io.objects.location import under
    from crossline.runtime.java.launch import is_on_this_machine

    assert config.lake is not None  # noqa: S101 - it was opened
    here = is_on_this_machine(config.engine.master)
    tables = None if here else under(config.lake.path, f"replay-{uuid.uuid4().hex}")
    with session_of("replay", stopping, config.engine) as spark:
        yield partial(
            replay_in_spark.replay,
            spark,
            on_tasks=lambda done, count: progress.show(f"{done:,} of {count:,} tasks of a stage"),
            tables_root=tables,
        )


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
