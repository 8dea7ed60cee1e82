"""``crossline rules shadow``: what shadow rules would add to the active ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import load_streams
from crossline.basics.times import parse_instant_ms
from crossline.cli.rules.compare import marks_of, weighed_table
from crossline.cli.rules.sample_options import (
    Amount,
    AsJson,
    FiguresPath,
    Labels,
    ListFolder,
    PipelineFile,
    SomeInput,
    StreamFile,
    TrialInput,
    chosen,
)
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.rule_registry.content import read_text

if TYPE_CHECKING:
    from crossline.analysis.detection_quality import FraudLabels, ShadowComparison

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """Alerts, which rules are shadow rules, how long the time is that they are of, and amounts by record."""

    alerts: Sequence[Mapping[str, Any]]
    shadow: Collection[str]
    days: float
    marks: FraudLabels | None = None
    amounts: Mapping[str, float] | None = None


def shadow(
    rules: Annotated[
        Path | None,
        typer.Argument(metavar="[RULES]", help="Rules for --input; their status marks shadow rules."),
    ] = None,
    *,
    db: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="A store, as read by `crossline alerts`, instead of rules and records."),
    ] = None,
    alerts: Annotated[
        Path | None,
        typer.Option(help="JSON lines of alerts, from a backtest or a jsonl sink, instead of these.", exists=True),
    ] = None,
    input_: SomeInput = None,
    stream: StreamFile = None,
    lists: ListFolder = None,
    pipeline: PipelineFile = None,
    figures: FiguresPath = None,
    labels: Labels = None,
    amount: Amount = None,
    as_json: AsJson = False,
) -> None:
    """Show for each shadow rule the alerts shared with active rules, those of its own, and alerts a day.

    With labels: precision, recall, and money.
    """
    from crossline.analysis.detection_quality import shadow_report

    if (rules is not None) + (db is not None) + (alerts is not None) != 1:
        raise UsageError("name one of RULES (with --input), --db and --alerts")
    if rules is not None:
        given = TrialInput(stream, lists, pipeline, tuple(input_ or ()), figures)
        found = _judged(rules, given, labels, amount)
    else:
        if input_ or amount:
            raise UsageError("--input and --amount are for rules that are judged here; a store has no records")
        found = _stored(_of_store(db) if db is not None else _of_lines(alerts), _marks(labels, stream))
    report = shadow_report(found.alerts, found.shadow, found.days, found.marks, found.amounts)
    if as_json:
        write_lines(orjson.dumps(_row(each)) for each in report)
    elif not report:
        note("there is no shadow rule: set one's status with crossline rules set-status ID shadow")
    else:
        _print(report, weighed=found.marks is not None)
        note(f"alerts of {found.days:,.3g} days")


def _judged(rules: Path, given: TrialInput, labels: str | None, amount: str | None) -> ShadowReport:
    from crossline.backtest.workbench.joint_run import run_jointly
    from crossline.runtime.machine.temporary_folders import own_folder_for

    if not given.inputs:
        raise UsageError("rules are judged on records of the past: name their files with --input")
    every = [each for each in chosen(given.rules(rules), None) if each.status in {"active", "shadow"}]
    judged = given.judged(rules, every)
    marks = marks_of(labels, judged, amount)
    with own_folder_for("shadow") as folder:
        found = run_jointly(given.with_tables([judged], folder / "tables"), folder, amount)
    shadow = {each.rule_id for each in every if each.status == "shadow"}
    return ShadowReport(found.alerts[0], shadow, found.days, marks, found.amounts)


def _marks(labels: str | None, stream: Path | None) -> FraudLabels | None:
    """Labels for alerts of a store; a stream file names the id field of records."""
    from crossline.backtest.workbench.labels import labels_at

    if labels is None:
        return None
    streams = load_streams(read_text(stream), str(stream)) if stream is not None else {}
    return labels_at(labels, {name: spec.id for name, spec in streams.items()})


def _stored(alerts: Sequence[Mapping[str, Any]], marks: FraudLabels | None) -> ShadowReport:
    """Alerts that are there already; a rule is a shadow rule where its latest alert is that of one."""
    kinds = {each["rule_id"]: each["kind"] for each in alerts}
    times = [parse_instant_ms(each["event_time"]) for each in alerts]
    days = max(1, max(times) - min(times)) / _DAY_MS if times else 1.0
    mine = {name for name, kind in kinds.items() if kind == "shadow"}
    return ShadowReport(
        [each for each in alerts if (each["kind"] == "shadow") == (each["rule_id"] in mine)], mine, days, marks
    )


def _of_store(place: str) -> list[dict[str, Any]]:
    from crossline.io.stores.factory import open_store
    from crossline.io.stores.protocol import AlertFilter

    with closing(open_store(place)) as reader:
        return _deliveries(reader.alerts(AlertFilter(), newest_first=False))


def _of_lines(path: Path | None) -> list[dict[str, Any]]:
    from crossline.backtest.compare import read_alerts

    if path is None:
        return []
    try:
        return _deliveries(read_alerts(path))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: found what is no alert ({error}); expected alerts as JSON lines") from None


def _deliveries(alerts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alerts and shadow alerts as they stand, each once: pipelines that share a store may have the same."""
    return [each for each in current_states(alerts) if each["kind"] in {"alert", "shadow"}]


def _row(each: ShadowComparison) -> dict[str, Any]:
    return {"rule_id": each.rule_id, **each.side.as_json(), "with_rules": each.with_rules}


def _print(report: Sequence[ShadowComparison], *, weighed: bool) -> None:
    table = Listing("shadow rule", "alerts", "a day", "shared", "only it", "shared with", long=["shared with"])
    for each in report:
        side = each.side
        met = ", ".join(f"{name} {count:,}" for name, count in each.with_rules.items())
        table.add(each.rule_id, f"{side.alerts:,}", f"{side.per_day:,.4g}", f"{side.shared:,}", f"{side.only:,}", met)
    show(table)
    if weighed:
        show("", weighed_table([(each.rule_id, each.side.weighed, each.side.caught_alone) for each in report]))
    for each in report:
        show(*(f"only {each.rule_id}: {alert['record_id']}: {alert['message']}" for alert in each.side.alone))
