"""``crossline backtest``: rules over files of the past."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.conditions.lists import Lists
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.times import PARTITION_LAG_MS
from crossline.cli.launch.engine import local_backtest
from crossline.cli.signals import Runner, Stopping, session_of, stoppable
from crossline.cli.summary import ProgressLine, as_text, check_some_judged, differences, recorded_only, without_row
from crossline.io.files.patterns import matching_files
from crossline.io.sinks.outfile import draft_file, is_standard_output, make_folder
from crossline.rule_registry.content import is_folder, read_pipeline_in_place, read_text
from crossline.rule_registry.rule_files import SUFFIXES, Known, read_rules
from crossline.rules.base import Defaults
from crossline.rules.composition import Sources
from crossline.rules.policy.policy import Deciding, Policy, load_policy
from crossline.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestResult, BacktestSpec, RecordedInput
    from crossline.settings.config import PipelineConfig


FIGURES_HELP = (
    "File or folder of the shared figures that rules name, where they are not beside these; else the pipeline's."
)
DECISIONS_HELP = "File for the decisions on records, as JSON lines; an existing file is replaced. Needs a policy."
LISTS_HELP = "Folder of named lists, as they are now; else the pipeline's. As of a log: for what that does not know."
On = Annotated[
    Runner,
    typer.Option(
        help="What judges. local: processes of this machine, which begin at once. spark: Spark, as in a pipeline. "
        "auto: local, since inputs are files of this machine. Alerts and their order are the same."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="backtest", help="Judge files of the past; say what another rule set would change.")(backtest)


def backtest(
    input_: Annotated[
        list[str], typer.Option("--input", help="Files, folders or globs; NAME=GLOB for several streams.")
    ],
    rules: Annotated[
        Path | None, typer.Option(help="Rule file or folder; by default the pipeline's.", exists=True)
    ] = None,
    stream: Annotated[
        Path | None, typer.Option(help="Stream file; by default the pipeline's streams.", exists=True, dir_okay=False)
    ] = None,
    output: Annotated[Path, typer.Option(help="File for the alerts, JSON lines; an existing file is replaced.")] = Path(
        "alerts.jsonl"
    ),
    as_of_log: Annotated[
        bool,
        typer.Option("--as-of-log", help="Use the rule versions and list entries that were live, from the rule log."),
    ] = False,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Pipeline file: its streams, rules, lists, defaults and engine bounds hold. Or the name of a pipeline "
            "whose rule log to use."
        ),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Other rules: show which alerts would appear and disappear.", exists=True)
    ] = None,
    lists: Annotated[Path | None, typer.Option(help=LISTS_HELP, exists=True, file_okay=False)] = None,
    decisions: Annotated[Path | None, typer.Option(help=DECISIONS_HELP)] = None,
    policy: Annotated[
        Path | None, typer.Option(help="Policy file; by default the pipeline's.", exists=True, dir_okay=False)
    ] = None,
    on: On = Runner.AUTO,
    figures: Annotated[Path | None, typer.Option(help=FIGURES_HELP, exists=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON on stdout.")] = False,
) -> None:
    """Run the same engine as ``crossline run`` over history."""
    from crossline.backtest.backtest import BacktestSpec, RecordedInput
    from crossline.evaluate.bounds import Bounds
    from crossline.runtime.machine.temporary_folders import own_folder_for

    setting = setting_of(rules, stream, lists, pipeline, figures, as_of_log=as_of_log)
    history = RecordedInput(setting.streams, inputs_by_stream(input_, setting.streams))
    log = log_of(setting.rules, setting.name) if as_of_log else None
    sets = _sets(setting, compare, log)
    given = (lists_for(sets, setting.lists, log, setting.streams), setting.defaults, Bounds(setting.partition_lag_ms))
    judged = [BacktestSpec(each, history, *given) for each in sets]
    judged[0] = replace(judged[0], deciding=deciding_for(output, decisions, policy, setting))
    read = [
        *setting.files,
        *([policy] if policy else []),
        *_files_read(history, (setting.rules, compare, setting.figures)),
    ]
    # From before the first file is made: what is stopped leaves none.
    with stoppable() as stopping, own_folder_for("tables") as folder:
        joined = with_tables(judged, setting.config, log, folder)
        summary = _figures(joined, (output, decisions), read, on, stopping)
    out = sys.stderr if any(is_standard_output(path) for path in (output, decisions) if path) else sys.stdout
    out.write(orjson.dumps(summary).decode() + "\n" if as_json else as_text(summary))
    check_some_judged(summary["records"], summary["dead_letters"])


def _sets(setting: Setting, compare: Path | None, log: Path | None) -> list[RuleSet]:
    """The rules to judge by, as of ``log`` where there is one, and those to compare with."""
    if log is None and setting.config is not None:
        _check_rules_are_files(setting.rules, setting.config)

    def written(path: Path) -> RuleSet:
        return RuleSet.from_rules(read_rules(path, setting.known()))

    mine = written(setting.rules) if log is None else rules_as_of_log(log, setting.streams)
    return [mine, written(compare)] if compare else [mine]


def _check_rules_are_files(rules: Path, config: PipelineConfig) -> None:
    from crossline.settings.sources import RulesTopic

    topic = config.rules
    if isinstance(topic, RulesTopic) and rules == Path(topic.path):
        raise UsageError(
            f"the pipeline has its rules in topic {topic.topic}; expected --as-of-log, for the versions that were "
            "live, or rule files with --rules"
        )


def _files_read(history: RecordedInput, rules: Iterable[Path | None]) -> list[Path]:
    """The files of records and of ``rules``."""
    records = [Path(name) for patterns in history.inputs.values() for name in matching_files(patterns)]
    return [each for path in rules if path for each in files_of(path)] + records


def _figures(
    judged: Sequence[BacktestSpec],
    outputs: tuple[Path, Path | None],
    inputs: Sequence[Path],
    on: Runner,
    stopping: Stopping,
) -> dict[str, Any]:
    """Run backtests into ``outputs`` (alerts, decisions), none of which may be one of ``inputs``; their results."""
    output, decisions = outputs
    with ExitStack() as made:

        def draft(path: Path) -> Path:
            make_folder(path)
            return made.enter_context(draft_file(path, inputs=inputs))

        drafts = draft(output), draft(decisions) if decisions is not None else None
        figures = {**_judge(stopping, judged, *drafts, on), "output": str(output)}
        stopping.check()  # else what was drafted would be kept
    return figures if decisions is None else {**figures, "decisions_output": str(decisions)}


def deciding_for(output: Path, decisions: Path | None, policy: Path | None, setting: Setting) -> Deciding | None:
    """By what is decided, where ``decisions`` are wanted. Raises UsageError if there is no policy, or no use for it.

    Of every record, if the pipeline emits those; else of records with hits.
    """
    if decisions is None:
        if policy is not None:
            raise UsageError(f"--policy {policy}: nothing is decided without --decisions FILE; name the file")
        return None
    if output.absolute() == decisions.absolute():
        raise UsageError(f"--output and --decisions are both {decisions}; give decisions a file of their own")
    if policy is not None:
        return Deciding(load_policy(read_text(policy), str(policy)), setting.every)
    if setting.policy is None:
        hint = "name its file with --policy, or a pipeline file that has one with --pipeline"
        raise UsageError(f"--decisions {decisions}: found no policy; {hint}")
    return Deciding(setting.policy, setting.every)


@dataclass(frozen=True, slots=True)
class Setting:
    """What records are judged by, from the options or from a pipeline file.

    ``files``: what it was read from; ``config``: the pipeline file, which alone declares tables.
    """

    streams: dict[str, StreamSpec]
    rules: Path
    lists: Path | None
    name: str | None
    files: tuple[Path, ...]
    defaults: Defaults = field(default_factory=Defaults)
    partition_lag_ms: int = PARTITION_LAG_MS
    policy: Policy | None = None
    every: bool = False
    figures: Path | None = None
    config: PipelineConfig | None = None

    def known(self, lists: Sequence[str] | None = None) -> Known:
        """What rules are checked against."""
        return Known(self.streams, lists, figures=self.figures)


def setting_of(
    rules: Path | None,
    stream: Path | None,
    lists: Path | None,
    pipeline: str | None,
    figures: Path | None = None,
    *,
    as_of_log: bool,
) -> Setting:
    """Raises UsageError if something is missing, or given twice."""
    if pipeline is not None and (Path(pipeline).is_file() or pipeline.endswith(SUFFIXES)):
        if stream is not None:
            raise UsageError(f"--stream {stream}: {pipeline} names its streams already; leave one of the two out")
        return _setting_in(Path(pipeline), rules, lists, figures)
    if pipeline is not None and not as_of_log:
        raise UsageError(
            f"--pipeline {pipeline}: no such file; expected a pipeline file, or, with --as-of-log, a pipeline's name"
        )
    if stream is None or rules is None:
        missing = " and ".join(name for name, path in (("--stream", stream), ("--rules", rules)) if path is None)
        raise UsageError(f"found no {missing}; expected the files that they name, or --pipeline with a pipeline file")
    streams = load_streams(read_text(stream), str(stream))
    return Setting(streams, rules, lists, pipeline, (stream,), figures=figures)


def _setting_in(pipeline: Path, rules: Path | None, lists: Path | None, figures: Path | None) -> Setting:
    """What the pipeline file has, but for what was given."""
    from crossline.settings.config import rule_defaults
    from crossline.settings.sources import Directory

    config = read_pipeline_in_place(pipeline)
    return Setting(
        config.streams,
        rules or Path(config.rules.path),
        lists or (Path(config.lists.path) if isinstance(config.lists, Directory) else None),
        config.name,
        (pipeline,),
        rule_defaults(config),
        config.engine.partition_lag,
        config.policy,
        config.decisions.emit == "all",
        figures or (Path(config.figures) if config.figures else None),
        config,
    )


def _judge(
    stopping: Stopping, judged: Sequence[BacktestSpec], output: Path, decisions: Path | None, on: Runner
) -> dict[str, Any]:
    """Judge by the first of ``judged`` into ``output`` and ``decisions``, and by the second to compare.

    The figures of both.
    """
    from crossline.runtime.machine.temporary_folders import own_folder_for

    progress = ProgressLine(sys.stderr)
    with _runner(on, stopping) as run, own_folder_for("compare") as folder:
        try:
            first = run(judged[0], output, decisions=decisions, on_batch=progress.batch)
            figures: dict[str, Any] = {
                "records": first.totals.records,
                "alerts": dict(sorted(first.totals.alerts.items())),
                **recorded_only(judged[0].rules),
                "dead_letters": first.totals.dead,
                **({"first_dead": first.totals.dead_first} if first.totals.dead else {}),
                "late_records": first.totals.late,
                **without_row(first.totals.missed),
            }
            if decisions is not None:
                figures["decisions"] = dict(sorted(first.totals.decisions.items()))
            for other in judged[1:]:
                second = run(other, folder / "other.jsonl", on_batch=progress.batch)
                figures["compare"] = differences(output, second.path)
        finally:
            progress.done()
    return figures


@contextmanager
def _runner(on: Runner, stopping: Stopping) -> Iterator[Callable[..., BacktestResult]]:
    """What judges, and can be stopped; Spark, where that is asked for, for as long as the context lasts."""
    if on is not Runner.SPARK:
        yield partial(local_backtest(), on_start=stopping.stops)
        return
    from crossline.backtest import in_spark

    with session_of("backtest", stopping) as spark:
        yield partial(in_spark.backtest, spark, on_start=stopping.stops)


def inputs_by_stream(given: list[str], streams: dict[str, StreamSpec]) -> dict[str, list[str]]:
    """Patterns by stream. Raises UsageError if it is not clear which stream a pattern belongs to."""
    inputs: dict[str, list[str]] = {}
    for item in given:
        name, found, pattern = item.partition("=")
        if found and name in streams:
            inputs.setdefault(name, []).append(pattern)
        elif len(streams) == 1:
            inputs.setdefault(next(iter(streams)), []).append(item)
        else:
            raise UsageError(f"--input {item}: the stream file has {', '.join(streams)}; write --input NAME={item}")
    return inputs


def files_of(path: Path) -> list[Path]:
    """The rule files of ``path``: itself, or those in the folder."""
    return sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES)) if is_folder(path) else [path]


def log_of(path: Path, pipeline: str | None) -> Path:
    """The rule log next to the rules."""
    from crossline.rule_registry.directory import find_log

    log = find_log(path, pipeline)
    if log is None:
        raise UsageError(
            f"{path}: found no rule log; a pipeline that runs these rules writes one (or name it with --pipeline)"
        )
    return log


def rules_as_of_log(log: Path, streams: Mapping[str, StreamSpec]) -> RuleSet:
    """The versions that were live, each with its interval. Raises UsageError if some do not fit ``streams``."""
    from crossline.rule_registry.directory import ruleset_of_log

    found = ruleset_of_log(log)
    read = {(each.rule.rule_id, each.rule.version): each.rule for each in found.versions}
    sources = Sources(streams, {})
    wrong = [
        f"rule {rule_id} version {version}: found {each.found}, expected {each.expected}"
        for (rule_id, version), rule in read.items()
        if all(source in streams for source in rule.reading.sources)
        for each in rule.stream_findings(rule.reading.judges, sources.of_reading(rule.reading), None)
    ]
    if wrong:
        hint = "name the pipeline file with --pipeline, which has its streams and tables"
        raise UsageError("\n".join([f"{log}: rules of the log do not fit the streams; {hint}", *wrong]))
    return found


def lists_for(
    sets: Sequence[RuleSet], folder: Path | None, log: Path | None, streams: Mapping[str, StreamSpec]
) -> Lists:
    """The lists that the rules refer to: as they were, by ``log``, and those that it does not know as they are now."""
    rules = [version.rule for each in sets for version in each.versions]
    wanted = {name for rule in rules for condition in rule.all_conditions() for name in condition.lists()}
    if not wanted and folder is None:
        return {}
    from crossline.io.tokens.lookup import list_tokens
    from crossline.rule_registry.list_log import lists_of_log
    from crossline.rule_registry.lists import lists_in

    logged = lists_of_log(log, wanted) if log is not None else {}
    of_now = folder is not None and (log is None or wanted - set(logged))
    named = {**(lists_in(folder, list_tokens(streams)) if folder is not None and of_now else {}), **logged}
    if wanted - set(named):
        missing, there = ", ".join(sorted(wanted - set(named))), folder or "no folder of lists"
        raise UsageError(f"the rules refer to {missing}; found no such list in {there}; name the folder with --lists")
    return named


def with_tables(
    judged: Sequence[BacktestSpec], config: PipelineConfig | None, log: Path | None, folder: Path
) -> list[BacktestSpec]:
    """``judged`` with the tables that their rules read: by ``log`` as they were, else as they are now.

    Their files are in ``folder``, which must exist until the run ends.
    """
    if config is None or not config.tables:
        return list(judged)
    wanted = {table for each in judged for plan in each.snapshot(each.rules, 1).plans() for table in plan.tables}
    if not wanted:
        return list(judged)
    from crossline.rule_registry.rows.tables import tables_of_topics
    from crossline.rule_registry.table_log import tables_of_log
    from crossline.rule_registry.tables import forms_of, streams_of, tables_in
    from crossline.runtime.changes.publications import row_reader

    mine = {name: streams for name, streams in streams_of(config).items() if name in wanted}
    logged = tables_of_log(log, forms_of(config), mine, folder) if log is not None else {}
    logged = {**logged, **tables_of_topics(config, wanted, log, folder, row_reader)}
    tables = {**tables_in(config, folder, sorted(wanted - set(logged))), **logged}
    return [replace(each, tables=tables) for each in judged]
