"""``crossline rules test``: what rules make of a sample and of one record; whether the cases beside them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.basics.texts.plaintext import printable
from crossline.basics.texts.yamltext import load_yaml
from crossline.cli.backtest import inputs_by_stream, setting_of, with_tables
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.rules.sample_options import FiguresPath
from crossline.cli.summary import check_some_judged
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.rule_registry.content import is_folder, text_of
from crossline.rule_registry.rule_files import FileRule, case_files, read_placed_rules, read_rules, rule_stem
from crossline.rules.base import Rule

if TYPE_CHECKING:
    from crossline.backtest.trial import Trial, TrialVerdict
    from crossline.backtest.workbench.near_misses import NearMiss
    from crossline.backtest.workbench.rule_cases import RuleCaseResult
    from crossline.cli.backtest import Setting

SHOWN = 3  # alerts of a rule


def try_rules(
    rules: Annotated[Path, typer.Argument(metavar="RULES", help="A rule file, or a folder of them.", exists=True)],
    *,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="The sample: files; NAME=GLOB for several streams. Without it, the cases beside the rule "
            "files (NAME.cases.yaml) are run.",
        ),
    ] = None,
    stream: Annotated[
        Path | None, typer.Option(help="Stream file; by default the pipeline's streams.", exists=True, dir_okay=False)
    ] = None,
    lists: Annotated[
        Path | None,
        typer.Option(help="Folder of named lists; by default the pipeline's.", exists=True, file_okay=False),
    ] = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            help="Pipeline file: its streams, lists, defaults and engine bounds hold.", exists=True, dir_okay=False
        ),
    ] = None,
    figures: FiguresPath = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Id of a record: each rule's figure at it, and why it did not fire."),
    ] = None,
    near: Annotated[
        bool, typer.Option(help="Show where rules came closest without firing, and what was missing.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Try rules on a sample, or run the cases beside them: each in its newest version, drafts and paused ones too.

    Exit code 1 where a case failed.
    """
    do_without_pandas()
    tell_compiling()
    setting = setting_of(rules, stream, lists, str(pipeline) if pipeline else None, figures, as_of_log=False)
    if input_ is None:
        if record is not None:
            raise UsageError(f"--record {record}: found no --input; expected the sample that has the record")
        if not tell_cases(run_cases(rules, setting), as_json=as_json):
            raise typer.Exit(1)
        return
    _try_sample(rules, input_, setting, record, near=near, as_json=as_json)


def _try_sample(
    rules: Path, inputs: list[str], setting: Setting, record: str | None, *, near: bool, as_json: bool
) -> None:
    """What rules make of a sample, or of one record of it."""
    from crossline.backtest.backtest import BacktestSpec, RecordedInput
    from crossline.backtest.trial import as_if_active, try_rules, verdicts
    from crossline.backtest.workbench.near_misses import near_misses
    from crossline.evaluate.bounds import Bounds
    from crossline.io.tokens.lookup import list_tokens
    from crossline.rule_registry.lists import lists_in
    from crossline.runtime.machine.temporary_folders import own_folder_for

    named = lists_in(setting.lists, list_tokens(setting.streams)) if setting.lists else {}
    known = setting.known(sorted(named) if setting.lists else None)
    history = RecordedInput(setting.streams, inputs_by_stream(inputs, setting.streams))
    found = read_rules(rules, known)
    active, bounds = as_if_active(found, shares=True), Bounds(setting.partition_lag_ms)
    judged = BacktestSpec(active, history, named, setting.defaults, bounds)
    with own_folder_for("trial") as folder:
        (ready,) = with_tables([judged], setting.config, None, folder / "tables")
        if record is None:
            trial = try_rules(ready, folder / "rules")
            missed = near_misses(ready, trial, folder / "probes") if near else {}
            _tell_trial(trial, missed, [version.rule for version in ready.rules.versions], as_json=as_json)
            check_some_judged(trial.records, Counter(letter.reason for letter in trial.dead))
        else:
            trial, made = verdicts(ready, folder, record)
            _tell_verdicts(trial, made, as_json=as_json)


def _tell_trial(trial: Trial, missed: Mapping[str, list[NearMiss]], rules: list[Rule], *, as_json: bool) -> None:
    if as_json:
        write_lines([json_bytes(_as_json(rule, trial, missed.get(rule.rule_id))) for rule in rules])
    else:
        table = Listing("rule", "version", "alerts", "first alerts", long=["first alerts"])
        for rule in rules:
            alerts = trial.of(rule.rule_id)
            first = [printable(f"{alert['record_id']}: {alert['message']}") for alert in alerts[:SHOWN]]
            table.add(rule.rule_id, str(rule.version), f"{len(alerts):,}", Text("\n".join(first)))
        show(table)
        _tell_missed(missed)
    note(_summary(trial))


def _tell_missed(missed: Mapping[str, list[NearMiss]]) -> None:
    table = Listing("near misses of", "at record", "of", "what was missing", long=["what was missing"])
    for rule_id, misses in missed.items():
        for each in misses:
            key = ", ".join(f"{name} {value}" for name, value in each.key.items())
            table.add(rule_id, each.record_id, key, each.why)
    if any(missed.values()):
        show("", table)


def _as_json(rule: Rule, trial: Trial, missed: list[NearMiss] | None) -> dict[str, Any]:
    alerts = trial.of(rule.rule_id)
    row = {"rule_id": rule.rule_id, "version": rule.version, "alerts": len(alerts), "first": alerts[:SHOWN]}
    return row if missed is None else {**row, "near": [_miss_row(each) for each in missed]}


def _miss_row(miss: NearMiss) -> dict[str, Any]:
    row = asdict(miss)
    row.pop("distance")
    return row


def _tell_verdicts(trial: Trial, made: list[TrialVerdict], *, as_json: bool) -> None:
    from crossline.backtest.sample_view import shown_value

    if as_json:
        write_lines([json_bytes(asdict(each)) for each in made])
        return
    for stream, found in trial.found.items():
        text = ", ".join(f"{name} {value}" for name, value in found.fields.items() if value is not None)
        show(Text(printable(f"{stream}: {text}")))
    table = Listing("rule", "version", "fired", "figure", "line", "why", long=["why"])
    for each in made:
        figure = "" if each.value is None else shown_value(each.value)
        fired = "yes" if each.fired else "no"
        table.add(each.rule_id, str(each.version), fired, figure, each.line or "", each.why)
    show(table)


def _summary(trial: Trial) -> str:
    parts = [f"{trial.records:,} records"]
    reasons = Counter(letter.reason for letter in trial.dead)
    parts += [f"{count:,} dead letters: {reason}" for reason, count in sorted(reasons.items())]
    if trial.late:
        parts.append(f"{len(trial.late):,} late")
    parts += [f"{count:,} without a row in table {table}" for table, count in sorted(trial.missed.items())]
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class FileResult:
    """What came of a case of a file."""

    source: str
    result: RuleCaseResult


def run_cases(path: Path, setting: Setting) -> list[FileResult]:
    """The cases beside the rule file ``path``, or of all in the folder, judged.

    Of a file beside which no rule file stands, all rules are meant.

    Raises:
        UsageError: there are none.
        RefusedError: all that is wrong in one.
    """
    from crossline.backtest.workbench.rule_cases import RuleCaseRunner, read_cases
    from crossline.evaluate.bounds import Bounds
    from crossline.rule_registry.lists import lists_in

    files = case_files(path)
    if not files:
        where = path if is_folder(path) else f"{path.parent / path.stem}.cases.yaml"
        raise UsageError(
            f"found no --input and no cases at {where}; expected a sample, or files that end in .cases.yaml beside the "
            "rules"
        )
    folder = path if is_folder(path) else path.parent
    named = lists_in(setting.lists) if setting.lists else {}
    rules = read_placed_rules(folder, setting.known(sorted(named) if setting.lists else None))
    bounds = Bounds(setting.partition_lag_ms)
    bench = RuleCaseRunner([each.rule for each in rules], setting.streams, named, setting.defaults, bounds)
    found = []
    for source, content in files.items():
        of = _rules_beside(source, rules)
        cases = read_cases(load_yaml(text_of(source, content), source))
        found += [FileResult(source, bench.run(case, of)) for case in cases]
    return found


def _rules_beside(source: str, rules: Sequence[FileRule]) -> list[str]:
    """The ids of the rules in the file beside which the cases of ``source`` stand; of all, where there is none."""
    mine = [each for each in rules if Path(each.source).stem == rule_stem(source)] or rules
    return list(dict.fromkeys(each.rule.rule_id for each in mine))


def tell_cases(found: Sequence[FileResult], *, as_json: bool) -> bool:
    """Say what came of them; whether all passed."""
    if as_json:
        write_lines(
            orjson.dumps(
                {
                    "file": each.source,
                    "case": each.result.name,
                    "passed": each.result.passed,
                    "differs": each.result.differs,
                }
            )
            for each in found
        )
    else:
        table = Listing("file", "case", "", "what differs", long=["what differs"])
        for each in found:
            differences = Text("\n".join(map(printable, each.result.differs)))
            table.add(
                Path(each.source).name, each.result.name, "passed" if each.result.passed else "failed", differences
            )
        show(table)
    failed = sum(not each.result.passed for each in found)
    note(f"{len(found):,} cases, {failed:,} failed")
    return not failed
