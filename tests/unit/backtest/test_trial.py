"""Rules tried on a sample: what fires, and why a rule does not at a record. All is worked by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.trial import as_if_active, try_rules, verdicts
from crossline.basics.conditions.lists import NamedList
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text

STREAMS = load_streams(
    """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: s}
    ingest_time: {field: came, unit: s}
    fields: {id: string, at: integer, came: integer, card: string?, amount: integer?, kind: string?}
  logins: {id: id, event_time: {field: at, unit: s}, fields: {id: string, at: integer}}
""",
    "stream.yaml",
)
START_S = 1_700_000_000
MANY: dict[str, Any] = {
    "rule_id": "many",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "card",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "window": "60s",
}
SUM = {**MANY, "rule_id": "sum", "aggregation_type": "sum", "aggregation_field": "amount", "operator": ">"}
AVERAGE_BEFORE = {**SUM, "aggregation_type": "avg", "include_current": False}
WEB_AND_LARGE = [{"field": "kind", "operator": "==", "value": "web"}, {"field": "amount", "operator": ">", "value": 9}]
LARGE: dict[str, Any] = {
    "rule_id": "large",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": "payments",
    "conditions": WEB_AND_LARGE,
}
LOGIN = {**LARGE, "source_topic": "logins", "conditions": [{"field": "at", "operator": ">", "value": 0}]}


def record(name: str, at_s: int, **fields: Any) -> dict[str, Any]:
    came = fields.pop("came", at_s)
    return {"id": name, "at": START_S + at_s, "came": START_S + came, "card": "c1", "amount": 5, **fields}


def judged(folder: Path, rules: list[dict[str, Any]], records: list[dict[str, Any]]) -> BacktestSpec:
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    loaded = [each.rule for each in load_rules_text(yaml.safe_dump(rules), "rules.yaml", STREAMS)]
    return BacktestSpec(
        as_if_active(loaded), RecordedInput(STREAMS, {"payments": [str(path)]}), {}, Defaults(), Bounds(60_000)
    )


def why(folder: Path, rule: dict[str, Any], records: list[dict[str, Any]], name: str) -> tuple[bool, Any, str]:
    (found,) = verdicts(judged(folder, [rule], records), folder, name)[1]
    assert (found.rule_id, found.alert is not None) == (rule["rule_id"], found.fired)
    return found.fired, found.value, found.why


def test_an_entry_that_had_ended_is_why(tmp_path: Path) -> None:
    """p2 is dated before the end, and came after it."""
    listed = {**LARGE, "conditions": [{"field": "card", "operator": "in", "value": {"list": "stolen"}}]}
    given = judged(tmp_path, [listed], [record("p1", 0), record("p2", 4, came=5)])
    lists = {"stolen": NamedList().then([("c1", 1000 * (START_S + 5))], {})}
    trial, (found,) = verdicts(replace(given, lists=lists), tmp_path, "p2")
    assert [alert["record_id"] for alert in trial.alerts] == ["p1"]
    assert (found.fired, found.why) == (False, "found card c1; expected card in list stolen")


def test_what_fires(tmp_path: Path) -> None:
    records = [record("p1", 0), record("p2", 1), record("p3", 2, kind="web", amount=10), record("p3", 2)]
    trial = try_rules(judged(tmp_path, [MANY, LARGE], records), tmp_path / "t")
    assert [(alert["rule_id"], alert["record_id"]) for alert in trial.alerts] == [("many", "p2"), ("large", "p3")]
    assert (trial.records, [letter.reason for letter in trial.dead], trial.late) == (4, ["duplicate_id"], [])


@pytest.mark.parametrize(
    ("changed", "name", "fired", "value", "text"),
    [
        ({}, "p1", False, 1, "1 is not >= 2"),
        ({}, "p2", True, 2, "2 payments by card c1 in 60 s (line: 2)"),
        ({}, "p3", False, 3, "3 is >= 2, as 2 was at record p2: the rule fires where the line is crossed"),
        ({"emit": "every"}, "p3", True, 3, "3 payments by card c1 in 60 s (line: 2)"),
        (
            {"emit": "every", "cooldown": "10s"},
            *("p3", False, 3, "3 is >= 2, within the cooldown of 10 s after the alert at record p2"),
        ),
        (
            {"window": "1s", "cooldown": "10m"},
            *("p5", False, 2, "2 is >= 2, within the cooldown of 10 min after the alert at record p2"),
        ),
        (
            {"include_current": False, "operator": "<", "aggregation_threshold": 9, "emit": "every"},
            *("p4", True, 3, "3 payments by card c1 in 60 s (line: < 9)"),
        ),
    ],
)
def test_figures_and_lines(
    tmp_path: Path, changed: dict[str, Any], name: str, fired: bool, value: int, text: str
) -> None:
    """p4 and p5 come 50 s after the others, so that with a window of a second the line is crossed anew at p5."""
    times = {"p1": 0, "p2": 0, "p3": 2, "p4": 52, "p5": 52}
    records = [record(each, at_s) for each, at_s in times.items()]
    assert why(tmp_path, {**MANY, **changed}, records, name) == (fired, value, text)


@pytest.mark.parametrize(
    ("rule", "fields", "text"),
    [
        (LARGE, {"amount": 10}, "found kind nothing; expected kind == web"),
        (LARGE, {"kind": "web", "amount": 9}, "found amount 9; expected amount > 9"),
        ({**MANY, "conditions": WEB_AND_LARGE}, {"kind": "web"}, "found amount 5; expected amount > 9"),
        (MANY, {"card": None}, "it has no card, by which the rule groups"),
        (SUM, {"amount": None}, "it has no amount, of which the rule takes the sum"),
        (AVERAGE_BEFORE, {}, "its window has no record to compute the figure from"),
        (MANY, {"came": 300}, "it is late by 5 min; the rule judges up to 2 min"),
        ({**MANY, "late_policy": "skip"}, {"came": 60}, "it is late by 60 s; the rule judges up to 45 s"),
        (LOGIN, {}, "no record with this id is in stream logins, which the rule reads"),
    ],
)
def test_records_that_a_rule_has_no_figure_of(
    tmp_path: Path, rule: dict[str, Any], fields: dict[str, Any], text: str
) -> None:
    assert why(tmp_path, rule, [record("p1", 0, **fields)], "p1") == (False, None, text)


PAIR: dict[str, Any] = {
    "rule_id": "pair",
    "version": 1,
    "rule_type": "sequence",
    "source_topic": "payments",
    "group_by": "card",
    "steps": [
        {"name": "bad", "times": 2, "conditions": [{"field": "kind", "operator": "==", "value": "bad"}]},
        {"name": "good", "conditions": [{"field": "kind", "operator": "==", "value": "good"}]},
    ],
    "within": "60s",
    "cooldown": "10s",
}


@pytest.mark.parametrize(
    ("name", "fired", "value", "text"),
    [
        ("p1", False, None, "it is a record of step good, and advances no match"),
        ("p2", False, 1, "1 of 3 records: bad p2; bad comes next"),
        ("p4", False, 2, "2 of 3 records: bad p2, p4; good comes next"),
        ("p5", True, 3, "bad (2 times), then good by card c1 within 60 s"),
        (
            "p6",
            *(False, None, "it is a record of step good, and advances no match; before it there were "),
        ),
        (
            "p9",
            *(
                False,
                3,
                "3 of 3 records: bad p7, p8; good p9, within the cooldown of 10 s after the alert at record p5",
            ),
        ),
        ("p3", False, None, "found kind other; expected a record of a step (bad: kind == bad; good: kind == good)"),
    ],
)
def test_a_sequence_says_how_far_it_came_and_what_is_missing(
    tmp_path: Path, name: str, fired: bool, value: int | None, text: str
) -> None:
    kinds = ["good", "bad", "other", "bad", "good", "good", "bad", "bad", "good"]
    records = [record(f"p{number}", number, kind=kind) for number, kind in enumerate(kinds, 1)]
    found = why(tmp_path, PAIR, records, name)
    assert found[:2] == (fired, value)
    assert found[2].startswith(text)


def test_a_threshold_that_fires_has_no_figure(tmp_path: Path) -> None:
    records = [record("p1", 0, kind="web", amount=10)]
    assert why(tmp_path, LARGE, records, "p1") == (True, None, "payment where kind == web and amount > 9")


def test_a_dead_letter_says_its_reason(tmp_path: Path) -> None:
    fired, value, found = why(tmp_path, MANY, [record("p1", 0, amount="five")], "p1")
    assert (fired, value) == (False, None)
    assert found.startswith("the record is a dead letter: ")
    assert "amount" in found


def test_the_first_of_two_with_one_id_is_what_is_judged(tmp_path: Path) -> None:
    records = [record("p1", 0), record("p2", 1), record("p2", 1), record("p2", 1)]
    assert why(tmp_path, MANY, records, "p2")[:2] == (True, 2)


def test_a_record_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="record 'p9' is not in the sample"):
        verdicts(judged(tmp_path, [MANY], [record("p1", 0)]), tmp_path, "p9")


def test_the_newest_version_is_tried_whatever_its_status(tmp_path: Path) -> None:
    changed = {"version": 2, "status": "draft", "aggregation_threshold": 1, "effective_from": "2099-01-01T00:00:00Z"}
    (found,) = verdicts(judged(tmp_path, [{**MANY, **changed}, MANY], [record("p1", 0)]), tmp_path, "p1")[1]
    assert (found.version, found.fired) == (2, True)
    assert found.alert is not None
    assert found.alert["kind"] == "alert"
