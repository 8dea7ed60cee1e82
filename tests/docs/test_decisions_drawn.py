"""The example of decisions in docs/semantics.md, judged and decided by the engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.test_runners import outcomes

from .test_semantics import PAGE, SPEC, record

SECTION = PAGE[PAGE.index("## Decisions") : PAGE.index("## Values that are missing")]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_example_of_decisions_is_true(tmp_path: Path, shards: int) -> None:
    policy, rules = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    rows = re.findall(r"^\| p\d.*", SECTION, re.MULTILINE)
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    lines = [
        record({"payment_id": name, "account_id": account, "amount": amount, "at": at, "came": came})
        for name, account, amount, at, came, *_ in table
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = RuleSet.from_rules(item.rule for item in load_rules_text(rules, "semantics", {"payments": SPEC}))
    history = RecordedInput({"payments": SPEC}, {"payments": [str(tmp_path / "in.jsonl")]})
    deciding = Deciding(load_policy(policy, "semantics"))
    found = outcomes(BacktestSpec(loaded, history, deciding=deciding), tmp_path, shards, 1_000_000)
    hits = [(alert["record_id"], alert["rule_id"]) for outcome in found for alert in outcome.alerts]
    assert hits == [(row[0], rule) for row in table for rule in row[5].split(", ") if rule]
    texts = [
        [each["record_id"], each["decision"], str(each["score"]), ", ".join(why["rule_id"] for why in each["reasons"])]
        for outcome in found
        for each in outcome.decisions
    ]
    assert texts == [[row[0], *row[6:]] for row in table if row[6]]
