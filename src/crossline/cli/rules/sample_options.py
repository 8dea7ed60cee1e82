"""The options of commands that run rules on a sample, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossline.basics.errors import UsageError
from crossline.basics.share import SLOTS, keys_of
from crossline.basics.streams.inputs import rule_of
from crossline.basics.texts.problems import nearest, one_of
from crossline.cli.backtest import FIGURES_HELP, inputs_by_stream, lists_for, setting_of, with_tables
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import logs_in
from crossline.rule_registry.history import History
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.rule_files import FileRule, read_placed_rules, read_rules
from crossline.rules.base import Rule

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestSpec

Rules = Annotated[Path, typer.Argument(metavar="RULES", help="A rule file, or a folder of them.", exists=True)]
StreamFile = Annotated[
    Path | None,
    typer.Option("--stream", help="Stream file; by default the pipeline's streams.", exists=True, dir_okay=False),
]
ListFolder = Annotated[
    Path | None,
    typer.Option("--lists", help="Folder of named lists; by default the pipeline's.", exists=True, file_okay=False),
]
PipelineFile = Annotated[
    Path | None,
    typer.Option(
        "--pipeline",
        help="Pipeline file: its streams, lists, defaults and engine bounds hold.",
        exists=True,
        dir_okay=False,
    ),
]
FiguresPath = Annotated[Path | None, typer.Option("--figures", help=FIGURES_HELP, exists=True)]
Input = Annotated[list[str], typer.Option("--input", help="Past records: files; NAME=GLOB for several streams.")]
SomeInput = Annotated[list[str] | None, typer.Option("--input", help="A sample: files; NAME=GLOB for several streams.")]
OneRule = Annotated[str | None, typer.Option("--rule", metavar="ID", help="Only this rule.")]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE|URL",
        help="Labels of fraud: CSV, JSON lines or Parquet with the record's id and is_fraud; labels of crossline "
        "generate; cases.db of the API; or table labels of a store, postgresql://HOST/DB.",
    ),
]
Amount = Annotated[
    str | None, typer.Option("--amount", metavar="FIELD", help="The field that holds the amount at stake.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


@dataclass(frozen=True, slots=True)
class TrialInput:
    """The rules, the records and the settings of a trial."""

    stream: Path | None = None
    lists: Path | None = None
    pipeline: Path | None = None
    inputs: tuple[str, ...] = ()
    figures: Path | None = None

    def rules(self, path: Path) -> list[Rule]:
        """The rules at ``path``, checked against the streams."""
        setting = setting_of(path, self.stream, self.lists, self._pipeline, self.figures, as_of_log=False)
        return read_rules(path, setting.known())

    def placed(self, path: Path) -> list[FileRule]:
        """The same, each with its place, in its newest version."""
        setting = setting_of(path, self.stream, self.lists, self._pipeline, self.figures, as_of_log=False)
        newest: dict[str, FileRule] = {}
        for each in read_placed_rules(path, setting.known()):
            known = newest.get(each.rule.rule_id)
            if known is None or each.rule.version >= known.rule.version:
                newest[each.rule.rule_id] = each
        return list(newest.values())

    def before(self, path: Path, newest: Iterable[Rule]) -> dict[str, Rule]:
        """By rule, the version that has the keys which a share of the newest one leaves: of files or the log."""
        versions = self.rules(path) + logged_in(path)
        found: dict[str, Rule] = {}
        for rule in newest:
            mine = [each for each in versions if each.rule_id == rule.rule_id and each.version < rule.version]
            whole = [each for each in mine if each.status != "draft" and keys_of(each.share) == SLOTS]
            if whole:
                found[rule.rule_id] = max(whole, key=lambda each: each.version)
        return found

    def judged(self, path: Path, rules: Iterable[Rule]) -> BacktestSpec:
        """``rules``, each in its newest version as if it were active, over the records."""
        from crossline.backtest.backtest import BacktestSpec, RecordedInput
        from crossline.backtest.trial import as_if_active
        from crossline.evaluate.bounds import Bounds

        do_without_pandas()
        tell_compiling()
        setting = setting_of(path, self.stream, self.lists, self._pipeline, self.figures, as_of_log=False)
        active = as_if_active(rules)
        history = RecordedInput(setting.streams, inputs_by_stream(list(self.inputs), setting.streams))
        named = lists_for([active], setting.lists, None, setting.streams) if self.inputs else {}
        return BacktestSpec(active, history, named, setting.defaults, Bounds(setting.partition_lag_ms))

    def with_tables(self, judged: Sequence[BacktestSpec], folder: Path) -> list[BacktestSpec]:
        """``judged`` with the tables that their rules read; their files are in ``folder`` during the run."""
        config = read_pipeline_in_place(self.pipeline) if self.pipeline is not None and self.inputs else None
        return with_tables(judged, config, None, folder)

    @property
    def _pipeline(self) -> str | None:
        return str(self.pipeline) if self.pipeline else None


def logged_in(path: Path) -> list[Rule]:
    """The versions in the log of a folder of rules; none where there is no log, or there are several."""
    logs = list(logs_in(path).values()) if path.is_dir() else []
    if len(logs) != 1:
        return []
    history = History(read_log(logs[0]))
    return [rule for each in history.rules.values() for rule in each.versions.values()]


def read_by(rule: Rule, rules: Iterable[Rule]) -> list[Rule]:
    """Those of ``rules`` whose hits ``rule`` reads, themselves or through others."""
    by_id = {each.rule_id: each for each in rules}
    found: dict[str, Rule] = {}
    ahead = [rule]
    while ahead:
        for source in ahead.pop().reading.sources:
            name = rule_of(source)
            if name is not None and name in by_id and name not in found:
                found[name] = by_id[name]
                ahead.append(by_id[name])
    return list(found.values())


def chosen(rules: Iterable[Rule], rule_id: str | None) -> list[Rule]:
    """The rules by id, in the order of their ids, each in its newest version; of one id that one.

    Raises UsageError if there is none of that id.
    """
    newest: dict[str, Rule] = {}
    for rule in rules:
        if rule.rule_id not in newest or rule.version >= newest[rule.rule_id].version:
            newest[rule.rule_id] = rule
    if rule_id is not None and rule_id not in newest:
        hint = nearest(rule_id, newest)
        text = f"found no rule {rule_id}; expected {one_of(sorted(newest))}"
        raise UsageError(f"{text}; {hint}" if hint else text)
    return [newest[name] for name in sorted(newest) if rule_id in {None, name}]
