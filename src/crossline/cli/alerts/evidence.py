"""``crossline alerts evidence`` and ``counterfactuals``: one alert judged again on the records of its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossline.basics.errors import PermanentError
from crossline.basics.times import format_instant, parse_duration_ms
from crossline.cli.alerts.store_options import DEFAULT_PIPELINE, Db
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.evaluate.alerts.alert_json import json_bytes

if TYPE_CHECKING:
    from crossline.backtest.investigation.variant_runner import VariantRunner
    from crossline.cli.alerts.key_records import KeyRecords
    from crossline.rules.base import Rule

AlertId = Annotated[str, typer.Argument(metavar="ID", help="Id of the alert, or its first characters.")]
PipelinePath = Annotated[
    Path, typer.Option("--pipeline", help="Pipeline file: its store, sources, lists and defaults.", exists=True)
]
ReadFor = Annotated[str, typer.Option(metavar="DURATION", help="How far to read back for records at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, in one line.")]
Money = Annotated[str | None, typer.Option(help="The field that holds an amount.")]


@dataclass(frozen=True, slots=True)
class Explained:
    """An alert, what judges it again, and the records of its key."""

    alert: dict[str, Any]
    bench: VariantRunner
    around: KeyRecords
    fields: list[str]


def evidence(
    alert_id: AlertId,
    *,
    pipeline: PipelinePath = DEFAULT_PIPELINE,
    db: Db = None,
    money: Money = None,
    read_for: ReadFor = "10s",
    as_json: AsJson = False,
) -> None:
    """The window of an alert as a timeline, and each of its figures against its threshold."""
    from crossline.backtest.investigation.timeline_builder import timeline

    with _explained(alert_id, pipeline, db, read_for) as found:
        made = timeline(
            found.bench,
            found.alert,
            found.around.records,
            shown=found.fields,
            money=money,
            missing=found.around.missing,
        )
        read_from = {} if found.around.read_from is None else {"records_from": found.around.read_from}
        result = {"alert_id": found.alert["alert_id"], **made.to_json(), **read_from}
    if as_json:
        write_lines([json_bytes(result)])
        return
    figures = Listing("figure", "what", "value", "", "threshold", long=["what"])
    for each in result["figures"]:
        figures.add(each["name"], each["what"], str(each["value"]), each["operator"], str(each["threshold"]))
    records = Listing("record", "time", "figure", "mark", "why", long=["why"])
    for each in result["records"]:
        records.add(each["record_id"], each["event"], str(each["value"] or ""), each["mark"], each["note"])
    show(figures, "", records)
    place = f" from the {result['records_from']}" if "records_from" in result else ""
    note("; ".join([f"{len(result['records']):,} records{place}", *result["missing"]]))


def what_if(
    alert_id: AlertId,
    *,
    pipeline: PipelinePath = DEFAULT_PIPELINE,
    db: Db = None,
    read_for: ReadFor = "10s",
    runs: Annotated[int, typer.Option(min=1, max=10_000, help="How many times the engine may judge at most.")] = 400,
    search_for: Annotated[str, typer.Option(metavar="DURATION", help="How long to search at most.")] = "20s",
    as_json: AsJson = False,
) -> None:
    """What would not have fired: the smallest change of each kind, each judged by the engine."""
    from crossline.backtest.investigation.counterfactual import counterfactuals
    from crossline.backtest.investigation.variant_runner import Budget

    with _explained(alert_id, pipeline, db, read_for) as found:
        found.bench.budget = Budget.of(runs, parse_duration_ms(search_for) / 1_000)
        made = counterfactuals(found.bench, found.alert, found.around.records, found.around.since_ms)
        rows = [_row(asdict(each)) for each in made.rows]
        result = {"rows": rows, "not_found": [asdict(each) for each in made.not_found], "runs": made.runs}
        more = {"why_none": made.why_none or None, "missing": found.around.missing}
    if as_json:
        write_lines([json_bytes({"alert_id": found.alert["alert_id"], **result, **more})])
        return
    table = Listing("change", "was", "turns at", "then", long=["change", "then"])
    for each in rows:
        table.add(
            each["what"], *("" if each[name] is None else str(each[name]) for name in ("was", "turns_at")), each["then"]
        )
    show(table)
    left = [f"{each.what}: {each.why}" for each in made.not_found]
    note("; ".join([f"judged {made.runs:,} times", *([made.why_none] if made.why_none else []), *left]))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Without the bodies of rules; instants are texts."""
    left = {name: value for name, value in row.items() if name not in {"body", "body_less"}}
    if left["unit"] != "instant":
        return left
    times = {name: format_instant(int(left[name])) for name in ("was", "turns_at", "one_less")}
    return {**left, **times}


@contextmanager
def _explained(alert_id: str, pipeline: Path, db: str | None, read_for: str) -> Iterator[Explained]:
    """Raises PermanentError if there is no such alert, or nothing is known of its rule."""
    from crossline.cli.alerts.alert_search import opened
    from crossline.cli.alerts.key_records import around
    from crossline.cli.alerts.origin import OriginOptions
    from crossline.cli.alerts.record_origin import RecordOrigin
    from crossline.cli.alerts.records import named_fields
    from crossline.rule_registry.content import read_pipeline_in_place
    from crossline.rules.rule_reader import read_rule
    from crossline.runtime.machine.temporary_folders import own_folder_for

    config = read_pipeline_in_place(pipeline)
    asked = OriginOptions(db, pipeline, None, None, (), None, parse_duration_ms(read_for) / 1_000)
    with opened(asked) as search, own_folder_for("explained") as folder:
        found, source = search.find(alert_id)
        stored = found[0]
        alert = stored.alert
        mark = alert["rule_id"], alert["rule_version"]
        body = source.rule_body(stored.pipeline, *mark) or _of_files(config, mark)
        rule = read_rule(dict(body))[0] if body is not None else None
        if body is None or rule is None:
            raise PermanentError(f"version {mark[1]} of rule {mark[0]} is not in the rule log of {source.name}")
        _check_alone(rule)
        bench = _bench(rule, alert, pipeline, folder)
        origin = RecordOrigin(config.streams, {}, config, config.defaults.time_mode, search.lake)
        refused = partial(source.refused, stored.pipeline)
        read = around(stored, origin, body, bench.program(), refused, asked.for_s)
        read_of = dict.fromkeys((alert["stream"], *rule.reading.sources))
        named = (named_fields(alert["key"], body, config.streams[name]) for name in read_of if name in config.streams)
        fields = list(dict.fromkeys(name for names in named for name in names))
        yield Explained(alert, bench, read, fields)


def _check_alone(rule: Rule) -> None:
    """Raises PermanentError if a rule reads the hits of others, which would have to be judged again too."""
    from crossline.basics.streams.inputs import rule_of, several_of

    hits = [each for each in rule.reading.sources if rule_of(each) is not None or several_of(each) is not None]
    if hits:
        raise PermanentError(
            f"rule {rule.rule_id} reads {', '.join(hits)}: found hits of rules, expected records of streams alone. Its "
            "window is not judged again; the alert names the records that it rests on"
        )


def _of_files(config: Any, mark: tuple[str, int]) -> dict[str, Any] | None:
    """The version as the pipeline's rule files have it: a store that no pipeline wrote knows no rules."""
    from crossline.rule_registry.rule_files import Known, read_rules
    from crossline.settings.sources import Directory

    if not isinstance(config.rules, Directory):
        return None
    known = Known(figures=Path(config.figures) if config.figures is not None else None)
    rules = read_rules(Path(config.rules.path), known)
    return next((each.canonical() for each in rules if (each.rule_id, each.version) == mark), None)


def _bench(rule: Any, alert: dict[str, Any], pipeline: Path, folder: Path) -> VariantRunner:
    """Lists and tables are those of now."""
    from crossline.backtest.backtest import BacktestSpec, RecordedInput
    from crossline.backtest.investigation.variant_runner import VariantRunner, active
    from crossline.cli.backtest import setting_of, with_tables
    from crossline.evaluate.bounds import Bounds
    from crossline.io.tokens.lookup import list_tokens
    from crossline.rule_registry.lists import lists_in
    from crossline.rules.ruleset import RuleSet

    setting = setting_of(None, None, None, str(pipeline), as_of_log=False)
    lists = lists_in(setting.lists, list_tokens(setting.streams)) if setting.lists else {}
    history = RecordedInput(setting.streams, {alert["stream"]: ()})
    judged = BacktestSpec(
        RuleSet.from_rules([active(rule)]), history, lists, setting.defaults, Bounds(setting.partition_lag_ms)
    )
    (ready,) = with_tables([judged], setting.config, None, folder / "tables")
    return VariantRunner(rule, ready, alert["key"], alert["record_id"])
