"""``crossline rules explain``: what rules mean, what they keep, and what they cost on a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_duration
from crossline.cli.rules.sample_options import (
    AsJson,
    FiguresPath,
    ListFolder,
    OneRule,
    PipelineFile,
    Rules,
    SomeInput,
    StreamFile,
    TrialInput,
    chosen,
)
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, NameValues, fitted, show
from crossline.rules.base import Rule

if TYPE_CHECKING:
    from crossline.analysis.retention import RetainedRecords
    from crossline.backtest.backtest import BacktestSpec
    from crossline.backtest.workbench.rule_costs import Cost, StoreCost
    from crossline.backtest.workbench.sample import Batch


def explain(
    rules: Rules,
    *,
    rule: OneRule = None,
    stream: StreamFile = None,
    lists: ListFolder = None,
    pipeline: PipelineFile = None,
    figures: FiguresPath = None,
    input_: SomeInput = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Measure on the sample what each rule adds in processor time.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what each rule means, what it keeps of the past and shares with others; on a sample also what it takes."""
    from crossline.analysis.english import describe_rule
    from crossline.analysis.retention import retained_among
    from crossline.backtest.workbench.rule_costs import stores
    from crossline.backtest.workbench.sample import batches
    from crossline.plan.compose import sources_of
    from crossline.runtime.machine.temporary_folders import own_folder_for

    if cost and not input_:
        raise UsageError("--cost is measured on a sample: name its files with --input")
    given = TrialInput(stream, lists, pipeline, tuple(input_ or ()), figures)
    found = given.rules(rules)
    mine = chosen(found, rule)
    judged = given.judged(rules, found)
    plans, sources = _plans(judged), sources_of(judged.rules, judged.history.streams)
    with own_folder_for("explain") as folder:
        (judged,) = given.with_tables([judged], folder / "tables")
        sample = list(batches(judged.history, folder)) if input_ else []
        measured = stores(judged, sample) if sample else {}
        rows = [
            {
                **_head(each),
                "said": describe_rule(each, each.program(sources.of_reading(each.reading), judged.defaults)),
                "keeps": [
                    _keeps(kept, _store_of(measured.get(each.rule_id, ()), kept))
                    for kept in retained_among(plans, each.reading.name, each.rule_id)
                ],
            }
            for each in mine
        ]
        if as_json:
            write_lines(orjson.dumps(row) for row in rows)
        else:
            _print(rows)
        if cost:
            _tell_costs(judged, sample, mine, as_json=as_json)


def _plans(judged: BacktestSpec) -> dict[str, Any]:
    """The plan of each stream, whether it has records or not: what rules share is the same."""
    from crossline.plan.compose import compile_all

    return compile_all(judged.rules, judged.history.streams, judged.defaults)


def _head(rule: Rule) -> dict[str, Any]:
    return {
        "rule_id": rule.rule_id,
        "version": rule.version,
        "rule_type": rule.rule_type,
        "status": rule.status,
        "severity": rule.severity,
        "score": rule.score,
        "action": rule.action,
        "hold_ms": rule.hold,
    }


def _store_of(stores: Sequence[StoreCost], kept: RetainedRecords) -> StoreCost | None:
    return next((each for each in stores if each.kept.state_store == kept.state_store), None)


def _keeps(kept: RetainedRecords, store: StoreCost | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "stream": kept.stream,
        "key": kept.key_fields,
        "clock": kept.time_mode,
        "shared_with": kept.shared_with,
        "columns": kept.columns,
        "filters": len(kept.filters),
        "filters_of_all": kept.filters_of_state_store,
        "retention_ms": kept.retention_ms,
        "lateness_ms": kept.lateness_ms,
    }
    if store is not None:
        row |= {
            "records": store.records,
            "records_per_s": round(store.per_s, 3),
            "keys": store.keys,
            "records_held": round(store.held),
            "bytes_a_record": None if store.bytes_a_record is None else round(store.bytes_a_record, 1),
            "bytes": None if store.bytes is None else round(store.bytes),
        }
    return row


def _print(rows: Sequence[dict[str, Any]]) -> None:
    for number, row in enumerate(rows):
        weight = f"severity {row['severity']}, score {row['score']}, action {row['action']}"
        show(*([""] if number else []), f"{row['rule_id']} version {row['version']}, {row['rule_type']}; {weight}")
        show(fitted(f"  {row['said']}"))
        if not row["keeps"]:
            held = (
                ""
                if row["hold_ms"] is None
                else f", but for what its hold needs: records for {format_duration(row['hold_ms'])}"
            )
            show(f"  It keeps nothing of the past{held}.")
        for keeps in row["keeps"]:
            show(NameValues(_pairs(keeps)))


def _pairs(keeps: dict[str, Any]) -> list[tuple[str, str]]:
    key = ", ".join(keeps["key"]) or "all records together"
    pairs = [
        ("  key space", f"{keeps['stream']} by {key}, on {keeps['clock'].replace('_', ' ')}"),
        ("  shared with", ", ".join(keeps["shared_with"]) or "no other rule"),
        ("  kept for", _kept_for(keeps)),
        ("  of each record", f"its id and times{''.join(f', {name}' for name in keeps['columns'])}"),
        ("  filters", f"{keeps['filters']} of {keeps['filters_of_all']}"),
    ]
    if "records" in keeps:
        pairs.append(("  enter", f"{keeps['records']:,} records, {keeps['records_per_s']:,.3g} a second"))
        pairs.append(("  keys", f"{keeps['keys']:,}"))
        pairs.append(("  memory", _memory(keeps)))
    return pairs


def _kept_for(keeps: dict[str, Any]) -> str:
    windows = format_duration(keeps["retention_ms"]) if keeps["retention_ms"] else "no window"
    late = f", and {format_duration(keeps['lateness_ms'])} for late records" if keeps["lateness_ms"] else ""
    return windows + late


def _memory(keeps: dict[str, Any]) -> str:
    if keeps["bytes"] is None:
        return "nothing was held"
    each = f"{keeps['records_held']:,} records of {keeps['bytes_a_record']:,.0f} bytes"
    return f"{size(keeps['bytes'])}: {each}, keys included, at this rate"


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit, width in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= width:
            return f"{count / width:,.1f} {unit}"
    return f"{count:,.0f} bytes"


def _tell_costs(judged: BacktestSpec, sample: Sequence[Batch], rules: Sequence[Rule], *, as_json: bool) -> None:
    from crossline.backtest.workbench.rule_costs import costs

    whole, bare, found = costs(judged, sample, [each.rule_id for each in rules])
    if as_json:
        write_lines(orjson.dumps(_cost_row(each)) for each in found)
        write_lines([orjson.dumps({"all_rules_ns": round(whole), "no_rules_ns": round(bare)})])
        return
    table = Listing("rule", "adds", "noise")
    for each in sorted(found, key=lambda cost: -cost.ns):
        table.add(
            each.rule_id, f"{each.ns:,.0f} ns" if each.significant else "within the noise", f"{each.noise_ns:,.0f} ns"
        )
    show("", table)
    note(f"processor time a record: {whole:,.0f} ns with all rules, {bare:,.0f} ns with none")


def _cost_row(cost: Cost) -> dict[str, Any]:
    measured = {"ns_a_record": round(cost.ns), "noise_ns": round(cost.noise_ns), "above_noise": cost.significant}
    return {"rule_id": cost.rule_id, **measured}
