"""The workload: ``tx`` as files, its stream, and the rule sets R1, R5, R100, R1000, M100 and M1000."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.report import RESULTS, say
from crossline.generate.rules_many import many_rules
from crossline.generate.rules_mixed import LIST, mixed_rules
from crossline.generate.tx import LINES_BATCH, TxWorkload

STREAM = "payments"
DATA = RESULTS / "data"
FILE_RECORDS = 500_000

Rules = Sequence[Mapping[str, Any]]


def stream_spec(*, with_device: bool = False) -> dict[str, Any]:
    """The stream of workload tx as stream.yaml holds it."""
    fields = {
        "transaction_id": "string",
        "account_id": "string",
        "card_hash": "string",
        "merchant_id": "string",
        "amount_cents": "integer",
        "currency": "string",
        "lat": "number",
        "lon": "number",
        "event_time": "integer",
        "payment_type": "string",
    }
    if with_device:
        fields["device_id"] = "string"
    return {
        "format": "json",
        "id": "transaction_id",
        "event_time": {"field": "event_time", "unit": "ms"},
        "fields": fields,
    }


def velocity(rule_id: str, window: str, aggregate: str, operator: str, line: int, **more: Any) -> dict[str, Any]:
    """A velocity rule on the stream."""
    return {
        "rule_id": rule_id,
        "version": 1,
        "rule_type": "velocity",
        "source_topic": STREAM,
        "window": window,
        "aggregation_type": aggregate,
        "operator": operator,
        "aggregation_threshold": line,
        **more,
    }


R1: Rules = [velocity("account_count", "60s", "count", ">=", 10, group_by="account_id")]
R1_RECORD: Rules = [{**rule, "record": "all"} for rule in R1]
R5: Rules = [
    *R1,
    velocity("account_sum", "10m", "sum", ">", 200_000, group_by="account_id", aggregation_field="amount_cents"),
    velocity("merchant_count", "10s", "count", ">=", 25, group_by="merchant_id"),
    velocity(
        "pair_sum",
        "1000s",
        "sum",
        ">",
        100_000,
        group_by=["account_id", "merchant_id"],
        aggregation_field="amount_cents",
    ),
    velocity(
        "cash_average",
        "5m",
        "avg",
        ">",
        50_000,
        group_by="account_id",
        aggregation_field="amount_cents",
        conditions=[{"field": "payment_type", "operator": "==", "value": "CSH"}],
    ),
]


def rule_set(name: str) -> Rules:
    """R1 and R5 as published, R1 with alerts that carry their record (``R1-record``); else many rules by their number.

    R100 and others are velocity rules over four key spaces, M100 and others of all types.
    """
    made = mixed_rules if name.startswith("M") else many_rules
    return {"R1": R1, "R1-record": R1_RECORD, "R5": R5}.get(name) or made(int(name[1:]))


def needs_device(rules: Rules) -> bool:
    """Whether a rule names the device, as key of its own or of a figure, so that the records must have one."""
    return any("device_id" in str(rule) for rule in rules)


def files_of(workload: TxWorkload, records: int, name: str) -> Path:
    """A folder with the first ``records`` records as JSON lines, made once and kept."""
    folder = DATA / f"{name}-{records}"
    done = folder / "_done"
    if done.exists() and done.read_text(encoding="utf-8") == repr(workload):
        return folder
    say(f"making {records:,} records in {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, records, FILE_RECORDS)):
        with (folder / f"part-{number:05d}.jsonl").open("wb") as file:
            end = min(first + FILE_RECORDS, records)
            for start in range(first, end, LINES_BATCH):
                file.write(workload.lines(start, min(LINES_BATCH, end - start)))
    done.write_text(repr(workload), encoding="utf-8")
    return folder


def write_pipeline(
    folder: Path,
    rules: Rules,
    source: Mapping[str, Any],
    *,
    sinks: Sequence[Mapping[str, Any]] | None = None,
    engine: Mapping[str, Any] | None = None,
    form: str = "json",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """A pipeline of its own in ``folder``: stream, rules, settings; the path of its pipeline.yaml."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "rules").mkdir(parents=True)
    (folder / "rules" / "rules.yaml").write_text(yaml.safe_dump(list(rules), sort_keys=False), encoding="utf-8")
    settings: dict[str, Any] = {}
    if any(rule["rule_type"] == "list" for rule in rules):
        (folder / "lists").mkdir()
        (folder / "lists" / f"{LIST}.txt").write_text("no card has this hash\n", encoding="utf-8")
        settings["lists"] = {"kind": "directory", "path": "lists"}
    stored = [{"kind": "jsonl", "path": "out/alerts.jsonl"}, {"kind": "sqlite", "path": "out/alerts.db"}]
    settings |= {
        "schema_version": 1,
        "name": "bench",
        "streams": {STREAM: {**stream_spec(with_device=needs_device(rules)), "format": form}},
        "sources": {STREAM: dict(source)},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": [dict(sink) for sink in sinks or stored],
        "engine": {"trigger": "0s", "master": "local[2]", "checkpoint": "out/checkpoint", **(engine or {})},
        **(more or {}),
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return path
