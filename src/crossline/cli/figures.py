"""``crossline figures``: figures of every record, of files of the past or of sources as they come, as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.basics.texts.plaintext import printable
from crossline.basics.texts.problems import RefusedError
from crossline.cli.backtest import Setting, files_of, inputs_by_stream, lists_for, setting_of, with_tables
from crossline.cli.lake.training_options import (
    AsOf,
    KnownBy,
    LabelsFile,
    OfLake,
    OutputTable,
    TrainingOptions,
    training_lines,
)
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.signals import Runner, Stopping, session_of, stoppable
from crossline.cli.summary import ProgressLine, check_some_judged
from crossline.cli.terminal.tables import Listing, screen
from crossline.io.files.patterns import matching_files
from crossline.io.sinks.outfile import draft_file, is_standard_output, make_folder

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestSpec
    from crossline.backtest.figures.figure_table import FigureCounts
    from crossline.cli.backtest import Setting
    from crossline.cli.lake.training_options import Training
    from crossline.rules.figure_tables import PlacedFigure
    from crossline.rules.ruleset import RuleSet


HELP = "Write figures of every record, as of that record, into a table: what models are trained on."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="figures", help=HELP)(figures)


Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="Files, folders or globs; NAME=GLOB for several streams."),
]
FiguresPath = Annotated[
    Path | None,
    typer.Option(
        "--figures", help="File with figures, or folder of such files; by default the pipeline's figures.", exists=True
    ),
]
StreamPath = Annotated[
    Path | None, typer.Option(help="Stream file; by default the pipeline's streams.", exists=True, dir_okay=False)
]
RulesPath = Annotated[
    Path | None,
    typer.Option(help="Rule file or folder for the hits of risk scores; by default the pipeline's rules.", exists=True),
]
ListsPath = Annotated[
    Path | None, typer.Option(help="Folder of named lists; by default the pipeline's.", exists=True, file_okay=False)
]
PipelinePath = Annotated[
    str | None, typer.Option(help="Pipeline file: its streams, lists, defaults and engine bounds hold.")
]
On = Annotated[
    Runner,
    typer.Option(
        help="Where to compute. local: processes of this machine, which begin at once. spark: Spark, as in a "
        "pipeline. auto: local, since inputs are files of this machine. The rows and their order are the same."
    ),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Of the records of the pipeline's sources as they come, until stopped; --output is a folder of Parquet "
        "files then, and the next run goes on where this one ended.",
    ),
]
FromLake = Annotated[
    bool, typer.Option("--from-lake", help="Of the records of the pipeline's lake, in place of --input.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        help="Parquet file for the table; an existing file is replaced. By default figures.parquet, and with "
        "--output-table none."
    ),
]
Drain = Annotated[bool, typer.Option("--drain", help="With --follow: process the available records and exit.")]


def figures(
    input_: Inputs = None,
    figures_: FiguresPath = None,
    stream: StreamPath = None,
    rules: RulesPath = None,
    output: Output = None,
    pipeline: PipelinePath = None,
    lists: ListsPath = None,
    on: On = Runner.AUTO,
    from_lake: FromLake = False,
    labels: OfLake = False,
    labels_file: LabelsFile = None,
    labels_known_by: KnownBy = None,
    labels_as_of: AsOf = None,
    output_table: OutputTable = None,
    follow: Follow = False,
    drain: Drain = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout.")] = False,
) -> None:
    """A row for each record, in the order of the log; with labels, what is needed to train a model."""
    from crossline.rule_registry.rule_files import declared_figures, read_figures
    from crossline.runtime.machine.temporary_folders import own_folder_for

    _check_options(input_, pipeline, follow=follow, drain=drain, from_lake=from_lake)
    asked = TrainingOptions(labels, labels_file, labels_known_by, labels_as_of, output_table)
    asked.check(pipeline, from_lake=from_lake, follow=follow)
    to = output or (Path("figures.parquet") if output_table is None else None)
    given = rules or (None if pipeline else Path())  # asked for where there are risk scores
    setting = setting_of(given, stream, lists, pipeline, as_of_log=False)
    path = figures_ or setting.figures
    if path is None:
        raise UsageError(
            "found no --figures; expected a file or folder, or --pipeline with a pipeline that has figures"
        )
    declared = declared_figures(read_figures(path, setting.streams, None))
    hitting = _hitting(declared, None if given == Path() else setting.rules, setting)
    judged = _judged(_stream_of(path, declared), declared, hitting, input_, setting)
    if from_lake:
        if on is Runner.SPARK:
            raise UsageError("--on spark: the lake is read by processes of this machine; leave the option out")
        judged = _stored(judged, Path(str(pipeline)))
    records = (Path(each) for inputs in judged.history.inputs.values() for each in matching_files(inputs))
    read = [*setting.files, *files_of(path), *records, *asked.files()]
    found = None
    with stoppable(endless=follow and not drain) as stopping, own_folder_for("tables") as folder:
        (joined,) = with_tables([judged], setting.config, None, folder)
        if to is not None and follow:
            found = _follow(setting, joined, declared, to, stopping, drain=drain)
        else:
            found = _write(
                joined, declared, _Target(to, read, folder, asked.training(joined, declared, pipeline)), on, stopping
            )
    if found is None:
        return  # it was stopped before it began
    out = sys.stderr if to is not None and is_standard_output(to) else sys.stdout
    out.write(orjson.dumps(found).decode() + "\n" if as_json else as_text(found))
    if not follow:
        check_some_judged(found["records"], found["dead_letters"])


def _check_options(
    inputs: list[str] | None, pipeline: str | None, *, follow: bool, drain: bool, from_lake: bool
) -> None:
    """Which go together. Raises UsageError."""
    if from_lake:
        if pipeline is None or inputs or follow:
            expected = "--pipeline with a pipeline file that has a lake, and neither --input nor --follow"
            raise UsageError(f"--from-lake: expected {expected}")
        return
    if follow and pipeline is None:
        raise UsageError("--follow: found no --pipeline; expected one, whose sources are followed")
    if follow and inputs:
        raise UsageError("--follow: found --input; expected one of the two: it follows the sources of the pipeline")
    if drain and not follow:
        raise UsageError("--drain: found no --follow; files that --input names are read to their end anyway")
    if not follow and not inputs:
        raise UsageError("Missing option '--input'; see crossline figures --help")


def _judged(
    stream: str, declared: Sequence[PlacedFigure], hitting: RuleSet, inputs: list[str] | None, setting: Setting
) -> BacktestSpec:
    """The job for the figures ``declared`` of records of ``stream``; ``hitting``: the rules of risk scores."""
    from crossline.backtest.backtest import BacktestSpec, RecordedInput
    from crossline.evaluate.bounds import Bounds
    from crossline.rules.figure_tables import feature_query
    from crossline.rules.ruleset import RuleSet

    both = RuleSet((*feature_query(declared, hitting.heads).versions, *hitting.versions))
    sources = dict.fromkeys(setting.config.sources, ()) if inputs is None and setting.config is not None else None
    wanted = _inputs_of(both, stream, sources or inputs_by_stream(inputs or [], setting.streams))
    history, named = RecordedInput(setting.streams, wanted), lists_for([both], setting.lists, None, setting.streams)
    return BacktestSpec(both, history, named, setting.defaults, Bounds(setting.partition_lag_ms), feature_query=True)


def _stored(judged: BacktestSpec, pipeline: Path) -> BacktestSpec:
    """The same over the records of the pipeline's lake."""
    from crossline.backtest.backtest import RecordedInput
    from crossline.cli.lake.lake_options import open_reader
    from crossline.lake.replays.replay_input import LakeInput

    streams, inputs = judged.history.streams, dict.fromkeys(judged.history.inputs, ())
    history = RecordedInput(streams, inputs)
    return replace(judged, history=history, stored=LakeInput(open_reader(pipeline), streams, inputs))


def _inputs_of(rules: RuleSet, stream: str, inputs: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Of ``inputs`` those of ``stream`` and of all that ``rules`` read."""
    from crossline.rules.composition import bases_of

    read = (source for each in rules.versions for source in each.rule.reading.sources)
    wanted = dict.fromkeys([stream, *(base for source in read for base in bases_of(source, rules.heads))])
    for source in wanted:
        if source not in inputs:
            raise UsageError(
                f"--input: found none of stream {source}, which is read; write --input {source}=GLOB, or for --follow "
                "a source of that stream into the pipeline"
            )
    return {source: inputs[source] for source in wanted}


def _hitting(declared: Sequence[PlacedFigure], path: Path | None, setting: Setting) -> RuleSet:
    """The rules whose hits are part of the risk scores among the figures; none where there are no such."""
    from crossline.rule_registry.rule_files import read_rules
    from crossline.rules.composition import Sources
    from crossline.rules.ruleset import RuleSet

    scores = [each for each in declared if each.fields.risk is not None]
    if not scores:
        return RuleSet()
    if path is None:
        raise UsageError(
            f"{scores[0].where}: {scores[0].name} is a risk score; name the rules that it is of with --rules"
        )
    found = RuleSet.from_rules(read_rules(path, setting.known()))
    sources = Sources.of(setting.streams, found.heads)
    problems = [
        each.problem(replace(finding, path=("risk",)))
        for each in scores
        if (finding := sources.finding(str(each.fields.source))) is not None
    ]
    if problems:
        raise RefusedError(problems)
    return found


def _stream_of(path: Path, declared: Sequence[PlacedFigure]) -> str:
    """The one stream that the figures are of."""
    if not declared:
        raise UsageError(f"{path}: found only figures that are retired; expected one that is not")
    first = {each.stream: each for each in reversed(declared)}
    if len(first) > 1:
        found = " and ".join(f"{name} ({each.where})" for name, each in sorted(first.items()))
        raise UsageError(f"{path}: found figures of {found}; expected those of one stream, whose records are the rows")
    return next(iter(first))


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the table goes: the file (None: none), which may be none of ``read``; a folder for files meanwhile."""

    output: Path | None
    read: Sequence[Path]
    folder: Path
    training: Training | None

    @contextmanager
    def file(self) -> Iterator[Path]:
        """The file to write, which takes its place in the end."""
        if self.output is None:
            yield self.folder / "training.parquet"
            return
        make_folder(self.output)
        with draft_file(self.output, inputs=self.read) as draft:
            yield draft


def _write(
    judged: BacktestSpec, declared: Sequence[PlacedFigure], target: _Target, on: Runner, stopping: Stopping
) -> dict[str, Any]:
    if on is not Runner.SPARK:
        do_without_pandas()
        tell_compiling()
    from crossline.backtest.figures.figure_table import figure_types

    columns = figure_types(declared, judged.history.streams)
    progress = ProgressLine(sys.stderr)
    more: dict[str, Any] = {}
    with target.file() as draft:
        computed = draft if target.training is None else target.training.computed(draft, target.folder)
        with _computation(on, stopping) as compute:
            try:
                done = compute(judged, columns, computed, on_batch=progress.batch, on_start=stopping.stops)
            finally:
                progress.done()
        stopping.check()  # else what was drafted would be kept
        if target.training is not None:
            more = target.training.write(computed, draft, target.folder)
            stopping.check()
    return {**_summary(done, declared, target.output), **more}


def _follow(
    setting: Setting,
    judged: BacktestSpec,
    declared: Sequence[PlacedFigure],
    folder: Path,
    stopping: Stopping,
    *,
    drain: bool,
) -> dict[str, Any]:
    """Until it is stopped; with ``drain``, until the available records are processed."""
    from crossline.backtest.figures.figure_table import check_folder, figure_types

    if setting.config is None:
        raise UsageError("--follow: found a pipeline by its name; expected its file, which has the sources")
    check_folder(folder)
    from crossline.backtest.figures.figure_stream import write_figure_stream
    from crossline.runtime.pipeline.assemble import session_for
    from crossline.runtime.spark_internals.gateway import end_session

    columns, progress = figure_types(declared, judged.history.streams), ProgressLine(sys.stderr)
    spark = session_for(setting.config)
    try:
        stopping.check()
        given = (spark, setting.config, judged, columns, folder)
        done = write_figure_stream(*given, drain=drain, on_batch=progress.batch, on_start=stopping.stops)
    finally:
        progress.done()
        end_session(spark)
    return _summary(done, declared, folder)


@contextmanager
def _computation(on: Runner, stopping: Stopping) -> Iterator[Callable[..., FigureCounts]]:
    """The function that computes; with ``--on spark`` Spark runs for as long as the context lasts."""
    if on is not Runner.SPARK:
        from crossline.backtest.figures.figure_table import write_figures

        yield write_figures
        return
    from crossline.backtest.figures import figure_table_in_spark

    with session_of("figures", stopping) as spark:
        yield partial(figure_table_in_spark.write_figures, spark)


def _summary(done: FigureCounts, declared: Sequence[PlacedFigure], output: Path | None) -> dict[str, Any]:
    dead = dict(sorted(done.totals.dead.items()))
    versions = {each.name: each.shared.version for each in declared if each.shared is not None}
    return {
        "records": done.records,
        "rows": done.rows,
        "figures": {
            each.name: {
                "missing": done.missing.get(each.name, 0),
                **({"version": versions[each.name]} if each.name in versions else {}),
                **({"beyond_64_bits": done.beyond[each.name]} if each.name in done.beyond else {}),
            }
            for each in declared
        },
        "dead_letters": dead,
        "late_records": done.late,
        "output": None if output is None else str(output),
    }


def as_text(found: dict[str, Any]) -> str:
    """The summary as a table."""
    listing = Listing("figure", "records with it", "without")
    for name, each in found["figures"].items():
        listing.add(name, f"{found['rows'] - each['missing']:,}", f"{each['missing']:,}")
    console = screen()
    with console.capture() as captured:
        place = found["output"] or f"table {found['table']}"
        console.print(Text(printable(f"{found['records']:,} records, {found['rows']:,} rows in {place}")))
        console.print(listing)
        for name, each in found["figures"].items():
            if "beyond_64_bits" in each:
                console.print(
                    f"{name}: {each['beyond_64_bits']:,} integers beyond 64 bits, which the table has none for"
                )
        for reason, count in found["dead_letters"].items():
            console.print(f"dead letters, not in the table: {count:,} {reason}")
        if found["late_records"]:
            console.print(f"late records, not in the table: {found['late_records']:,}")
        for line in training_lines(found):
            console.print(Text(printable(line)))
    return captured.get()
