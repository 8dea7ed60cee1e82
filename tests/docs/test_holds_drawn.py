"""The example of holds in docs/semantics.md, judged and decided by the engine."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.rules.holds.release import Release, release_key
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.test_runners import outcomes

from .test_semantics import BASE_MS, PAGE, SPEC, record

SECTION = PAGE[PAGE.index("## Holds") : PAGE.index("## Decisions")]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_example_of_holds_is_true(tmp_path: Path, shards: int) -> None:
    (rules,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    rows = re.findall(r"^\| [pq]\d.*", SECTION, re.MULTILINE)
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    lines = [
        record({"payment_id": name, "account_id": account, "amount": "1", "at": at, "came": at})
        for name, account, at, *_ in table
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = RuleSet.from_rules(item.rule for item in load_rules_text(rules, "semantics", {"payments": SPEC}))
    release = Release("burst", release_key({"account_id": "a2"}), BASE_MS + 180_000)
    history = RecordedInput({"payments": SPEC}, {"payments": [str(tmp_path / "in.jsonl")]})
    deciding = Deciding(load_policy("{schema_version: 1, version: 1}", "policy.yaml"))
    judged = BacktestSpec(replace(loaded, releases=(release,)), history, deciding=deciding)
    found = [each for outcome in outcomes(judged, tmp_path, shards, 1_000_000) for each in outcome.decisions]
    alerts = {why["alert_id"]: each["record_id"] for each in found for why in each["reasons"] if "held_by" not in why}
    texts = [
        (each["record_id"], each["decision"], alerts[why["held_by"]] if "held_by" in why else "")
        for each in found
        for why in each["reasons"]
    ]
    assert texts == [(row[0], row[3], row[4]) for row in table if row[3]]
