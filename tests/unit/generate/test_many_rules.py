"""The large rule sets: as many rules as asked for, over fewer groups, the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.generate.rules_many import many_rules, many_rules_yaml
from crossline.generate.tx import TxWorkload

R100 = Path(__file__).parents[3] / "examples" / "tx" / "r100.yaml"


def group(rule: dict[str, Any]) -> tuple[Any, ...]:
    filtered = bool(rule.get("conditions"))
    return rule["group_by"], rule["aggregation_type"], rule.get("aggregation_field"), filtered, rule["window"]


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (100, 40), (1_000, 160)])
def test_rules_share_fewer_groups(count: int, groups: int) -> None:
    rules = many_rules(count)
    assert len(rules) == len({rule["rule_id"] for rule in rules}) == count
    assert len({group(rule) for rule in rules}) == groups


@pytest.mark.parametrize("count", [100, 1_000])
def test_rules_cover_all_key_spaces_aggregates_and_windows(count: int) -> None:
    rules = many_rules(count)
    aggregates = {"count", "sum", "avg", "min", "max", "stddev", "distinct_count"}
    assert {rule["group_by"] for rule in rules} == {"card_hash", "account_id", "device_id", "merchant_id"}
    assert {rule["aggregation_type"] for rule in rules} == aggregates
    assert {rule["window"] for rule in rules} == {"10s", "1m", "10m", "1h", "24h"}


def test_rules_of_one_group_have_lines_of_their_own() -> None:
    rules = many_rules(1_000)
    lines = {(*group(rule), rule["aggregation_threshold"]) for rule in rules}
    assert len(lines) == 1_000


def test_rules_read_fields_that_the_records_have() -> None:
    columns = set(TxWorkload(with_device=True).records(0, 1).column_names)
    for rule in many_rules(200):
        named = {rule["group_by"], rule.get("aggregation_field", "amount_cents")}
        named |= {leaf["field"] for leaf in rule.get("conditions", [])}
        assert named <= columns


def test_the_yaml_says_the_same_and_is_the_example() -> None:
    assert yaml.safe_load(many_rules_yaml(100)) == many_rules(100)
    assert R100.read_text() == many_rules_yaml(100)
