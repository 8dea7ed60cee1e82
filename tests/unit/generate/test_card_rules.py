"""The example rules of the card scenario find what is planted, by an evaluation that follows their text naively."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.generate.cards import CardWorkload
from crossline.generate.score import Score, score
from crossline.generate.tx import tx_lines

pytestmark = pytest.mark.xdist_group("card_rules")  # what is judged, once
EXAMPLES = Path(__file__).parents[3] / "examples"
Row = dict[str, Any]
Rule = dict[str, Any]
TESTS = {
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
}
AGGREGATES = {"count": len, "sum": sum, "distinct_count": lambda values: len(set(values))}
UNIT_MS = {"s": 1_000, "m": 60_000}


def example_rules() -> list[Rule]:
    files = sorted((EXAMPLES / "cards" / "rules").glob("*.yaml"))
    return [rule for file in files for rule in yaml.safe_load(file.read_text())]


def holds(rule: Rule, row: Row) -> bool:
    conditions = rule.get("conditions", [])
    return all(
        row[leaf["field"]] is not None and TESTS[leaf["operator"]](row[leaf["field"]], leaf["value"])
        for leaf in conditions
    )


def judge(rule: Rule, rows: list[Row]) -> list[Row]:
    """Alerts of one rule over rows in ingest order; lateness is far below its limit in this workload."""
    if rule["rule_type"] == "threshold":
        return [raise_alert(rule, row, [row]) for row in rows if holds(rule, row)]
    window_ms = int(rule["window"][:-1]) * UNIT_MS[rule["window"][-1]]
    field, operator = rule.get("aggregation_field", "transaction_id"), rule.get("operator", ">=")
    entered: dict[Any, list[Row]] = defaultdict(list)
    last: dict[str, tuple[bool, int]] = {}
    alerts = []
    for row in rows:
        key, now_ms = row[rule["group_by"]], row["event_time"]
        if key is None or row[field] is None or not holds(rule, row):
            continue
        entered[key].append(row)
        window = [other for other in entered[key] if now_ms - window_ms < other["event_time"] <= now_ms]
        value = AGGREGATES[rule["aggregation_type"]]([other[field] for other in window])
        satisfied = TESTS[operator](value, rule["aggregation_threshold"])
        was_satisfied, was_ms = last.get(key, (False, 0))
        if satisfied and not (was_satisfied and was_ms > now_ms - window_ms):
            alerts.append(raise_alert(rule, row, window))
        last[key] = (satisfied, now_ms)
    return alerts


def raise_alert(rule: Rule, row: Row, window: list[Row]) -> Row:
    record_ids = [other["transaction_id"] for other in sorted(window, key=lambda other: other["event_time"])][-50:]
    record_id = row["transaction_id"]
    return {
        "alert_id": f"{rule['rule_id']}/{record_id}",
        "rule_id": rule["rule_id"],
        "record_id": record_id,
        "evidence": {"record_ids": record_ids},
    }


@pytest.fixture(scope="module")
def result() -> Score:
    workload, count = CardWorkload(seed=7), 72_000
    rows = [json.loads(line) for line in workload.lines(0, count).splitlines()]
    alerts = [alert for rule in example_rules() for alert in judge(rule, rows)]
    return score(alerts, workload.labels(0, count))


def test_precision_and_recall_are_at_least_nine_tenths(result: Score) -> None:
    assert result.found.planted >= 30
    assert result.raised.precision is not None
    assert result.raised.precision >= 0.9, result.rules
    assert {name: found for name, found in result.scenarios.items() if (found.recall or 0) < 0.9} == {}


def test_every_example_rule_finds_something_and_is_mostly_right(result: Score) -> None:
    assert set(result.rules) == {rule["rule_id"] for rule in example_rules()}
    assert all((raised.precision or 0) >= 0.75 for raised in result.rules.values()), result.rules


@pytest.mark.parametrize("folder", ["cards", "tx"])
def test_example_streams_name_the_fields_of_the_records(folder: str) -> None:
    stream = yaml.safe_load((EXAMPLES / folder / "stream.yaml").read_text())["streams"]["payments"]
    workload = yaml.safe_load((EXAMPLES / folder / "pipeline.yaml").read_text())["sources"]["payments"]["workload"]
    assert workload == folder
    optional = {name for name, kind in stream["fields"].items() if str(kind).endswith("?")}
    expected = CardWorkload().lines(0, 1) if folder == "cards" else tx_lines(0, 1, 1)
    assert set(stream["fields"]) - optional <= set(json.loads(expected)) <= set(stream["fields"])


def test_rules_use_fields_of_the_stream_in_their_sentences() -> None:
    fields = set(yaml.safe_load((EXAMPLES / "cards" / "stream.yaml").read_text())["streams"]["payments"]["fields"])
    for rule in example_rules():
        placeholders = set(re.findall(r"{(\w+)}", rule["description"]))
        assert placeholders
        assert placeholders <= fields | {"value", "count", "window"}


def test_r1_and_r5_are_the_published_rules() -> None:
    r1, r5 = (yaml.safe_load((EXAMPLES / "tx" / name).read_text()) for name in ("r1.yaml", "r5.yaml"))
    assert r5[:1] == r1
    names = ("aggregation_type", "group_by", "window", "operator", "aggregation_threshold")
    assert [tuple({"operator": ">=", **rule}[name] for name in names) for rule in r5] == [
        ("count", "account_id", "60s", ">=", 10),
        ("sum", "account_id", "10m", ">", 200_000),
        ("count", "merchant_id", "10s", ">=", 25),
        ("sum", ["account_id", "merchant_id"], "1000s", ">", 100_000),
        ("avg", "account_id", "5m", ">", 50_000),
    ]
    assert r5[4]["conditions"] == [{"field": "payment_type", "operator": "==", "value": "CSH"}]
