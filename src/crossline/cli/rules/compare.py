"""``crossline rules compare``: two rule sets over the same past."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.rules.sample_options import (
    Amount,
    AsJson,
    FiguresPath,
    Input,
    Labels,
    ListFolder,
    PipelineFile,
    StreamFile,
    TrialInput,
)
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.rules.base import Rule

if TYPE_CHECKING:
    from crossline.analysis.detection_quality import AlertSetComparison, DetectionQuality, FraudLabels
    from crossline.backtest.backtest import BacktestSpec

_VERSIONED = re.compile(r"(?P<path>.+)@(?P<version>\d{1,9})")


def compare(
    one: Annotated[str, typer.Argument(metavar="A", help="A rule file or folder; FILE@VERSION: that version.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    *,
    input_: Input,
    stream: StreamFile = None,
    lists: ListFolder = None,
    pipeline: PipelineFile = None,
    figures: FiguresPath = None,
    labels: Labels = None,
    amount: Amount = None,
    as_json: AsJson = False,
) -> None:
    """Judge past records by both; show the shared alerts, those of one alone, and alerts a day.

    Two alerts share something where they rest on a common record. With labels: precision, recall, and money.
    """
    from crossline.analysis.detection_quality import compare_alert_sets
    from crossline.backtest.compare import compare as by_rule
    from crossline.backtest.workbench.joint_run import run_jointly
    from crossline.runtime.machine.temporary_folders import own_folder_for

    given = TrialInput(stream, lists, pipeline, tuple(input_), figures)
    sets = [_judged(given, each) for each in (one, other)]
    marks = marks_of(labels, sets[0], amount)
    with own_folder_for("compare") as folder:
        found = run_jointly(given.with_tables(sets, folder / "tables"), folder, amount)
    first, second = compare_alert_sets(found.alerts[0], found.alerts[1], found.days, marks, found.amounts)
    rules = by_rule(found.alerts[0], found.alerts[1])
    if as_json:
        changes = {name: {"both": d.both, "appear": d.appear, "disappear": d.disappear} for name, d in rules.items()}
        row = {"records": found.records, "days": round(found.days, 6), "a": first.as_json(), "b": second.as_json()}
        write_lines([orjson.dumps({**row, "rules": changes})])
        return
    show(sides_table([("A", one, first), ("B", other, second)]))
    if marks is not None:
        show("", weighed_table([("A", first.weighed, first.caught_alone), ("B", second.weighed, second.caught_alone)]))
    changed = Listing("rule", "at the same records", "only B", "only A")
    for name, difference in rules.items():
        changed.add(name, f"{difference.both:,}", f"+{difference.appear:,}", f"-{difference.disappear:,}")
    show("", changed)
    for name, side in (("A", first), ("B", second)):
        show(*(f"only {name}: {each['record_id']}: {each['message']}" for each in side.alone))
    note(f"{found.records:,} records of {found.days:,.3g} days")


def marks_of(labels: str | None, judged: BacktestSpec, amount: str | None) -> FraudLabels | None:
    """The given labels. Raises UsageError if an amount is given without labels."""
    from crossline.backtest.workbench.labels import labels_at

    if labels is None:
        if amount is not None:
            raise UsageError("--amount needs labels of fraud: name them with --labels")
        return None
    return labels_at(labels, {name: judged.history.streams[name].id for name in judged.history.inputs})


def _judged(given: TrialInput, named: str) -> BacktestSpec:
    path, version = Path(named), None
    match = _VERSIONED.fullmatch(named)
    if match and not path.exists():
        path, version = Path(match["path"]), int(match["version"])
    if not path.exists():
        raise UsageError(f"{path} does not exist; expected a rule file or a folder of them")
    rules = given.rules(path)
    return given.judged(path, rules if version is None else _of_version(path, rules, version))


def _of_version(path: Path, rules: Collection[Rule], version: int) -> list[Rule]:
    """The rules in that version: as the file has it, else as it was published."""
    ids = {rule.rule_id for rule in rules}
    found = {rule.rule_id: rule for rule in rules if rule.version == version}
    found = {**{rule.rule_id: rule for rule in _published(path, ids, version)}, **found}
    if not found:
        there = ", ".join(sorted({str(rule.version) for rule in rules}))
        raise UsageError(f"{path}: found no version {version}; the file has {there}, and no rule log has it")
    return list(found.values())


def _published(path: Path, ids: Collection[str], version: int) -> Iterable[Rule]:
    from crossline.rule_registry.directory import logs_in
    from crossline.rule_registry.events import RuleEvent
    from crossline.rule_registry.history import event_rule
    from crossline.rule_registry.log_file import read_log

    folder = path if path.is_dir() else path.parent
    events: list[RuleEvent] = [event for log in logs_in(folder).values() for event in read_log(log)]
    mine = [each for each in events if each.event == "published" and each.rule_id in ids and each.version == version]
    return [event_rule(each) for each in mine]


def sides_table(rows: Iterable[tuple[str, str, AlertSetComparison]]) -> Listing:
    """Two sets of alerts."""
    table = Listing("", "rules", "alerts", "a day", "shared", "only here")
    for name, rules, side in rows:
        counts = (f"{side.alerts:,}", f"{side.per_day:,.4g}", f"{side.shared:,}", f"{side.only:,}")
        table.add(name, rules, *counts)
    return table


def weighed_table(rows: Iterable[tuple[str, DetectionQuality | None, int | None]]) -> Listing:
    """Against labels; ``caught_alone`` (None: nothing to hold it against) are frauds that no other caught."""
    known = [(name, weighed, alone) for name, weighed, alone in rows if weighed is not None]
    money = any(weighed.money_caught is not None for _, weighed, _ in known)
    more = ("money caught", "missed", "of false alerts") if money else ()
    table = Listing("", "precision", "recall", "F1", "frauds caught", "only by it", *more)
    for name, weighed, alone in known:
        table.add(name, *weighed_cells(weighed), "" if alone is None else f"{alone:,}", *_money(weighed, money))
    return table


def weighed_cells(weighed: DetectionQuality) -> tuple[str, str, str, str]:
    """Precision, recall, F1, frauds caught of all."""
    share = [("-" if each is None else f"{each:.3f}") for each in (weighed.precision, weighed.recall)]
    return share[0], share[1], f"{weighed.f1:.3f}", f"{len(weighed.caught):,} of {weighed.frauds:,}"


def _money(weighed: DetectionQuality, asked: bool) -> tuple[str, ...]:
    sums = (weighed.money_caught, weighed.money_missed, weighed.money_false)
    return tuple(f"{each or 0:,.0f}" for each in sums) if asked else ()
