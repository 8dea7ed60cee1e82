"""The example of corrections in docs/semantics.md: the output of each record, and the current states after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.test_runners import outcomes

from .test_semantics import PAGE, SPEC, record

SECTION = PAGE[PAGE.index("## Corrections") : PAGE.index("## Order")]


def table() -> list[list[str]]:
    rows = re.findall(r"^\| p\d.*", SECTION, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def row_as_record(row: list[str]) -> dict[str, Any]:
    return record(dict(zip(("payment_id", "account_id", "amount", "at", "came"), row, strict=False)))


def alert_text(alert: Mapping[str, Any]) -> str:
    value = "" if alert["value"] is None else f" {alert['value']}"
    return f"{alert['rule_id']} {alert['record_id']}{' ' + alert['outcome'] if 'outcome' in alert else ''}{value}"


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("at_once", [1, 2, 6])
def test_the_example_of_corrections_is_true(shards: int, at_once: int) -> None:
    (written,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(written, "semantics", {"payments": SPEC}))
    plans = list(compile_all(rules, {"payments": SPEC}, Defaults()).values())
    layout, state, alerts, at = make_layout("payments", SPEC), new_state(shards), [], 0
    rows = table()
    for first in range(0, len(rows), at_once):
        batch = rows[first : first + at_once]
        lines = [json.dumps(row_as_record(row)) for row in batch]
        blob = "".join(f"{line}\n" for line in lines).encode()
        decoded = decode_lines(layout, blob, "log", at)
        at += len(blob)
        found, state = detect(plans, state, decoded.records)
        alerts += found.alerts
        wanted = [each for row in batch for each in row[5].split(", ") if each]
        assert sorted(map(alert_text, found.alerts)) == sorted(wanted)
        stands = [each for each in batch[-1][6].split(", ") if each]
        assert sorted(map(alert_text, current_states(alerts))) == sorted(stands)


@pytest.mark.parametrize("spread", [(1, 1), (3, 1_000_000)])
def test_the_example_of_revisions_is_true(tmp_path: Path, spread: tuple[int, int]) -> None:
    (written,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    lines = map(row_as_record, table())
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = RuleSet.from_rules(item.rule for item in load_rules_text(written, "semantics", {"payments": SPEC}))
    history = RecordedInput({"payments": SPEC}, {"payments": [str(tmp_path / "in.jsonl")]})
    deciding = Deciding(load_policy("{schema_version: 1, version: 1}", "policy.yaml"))
    found = outcomes(BacktestSpec(loaded, history, deciding=deciding), tmp_path, *spread)
    made = [each for outcome in found for each in outcome.decisions]
    texts = [f"{each['record_id']}{' revised' if 'revises' in each else ''} {each['decision']}" for each in made]
    wanted = [sorted(each for each in row[7].split(", ") if each) for row in table()]
    sizes = [len(each) for each in wanted]
    assert [sorted(texts[sum(sizes[:n]) : sum(sizes[: n + 1])]) for n in range(len(sizes))] == wanted
    ids = {alert["alert_id"] for outcome in found for alert in outcome.alerts}
    assert {each["because"] for each in made if "because" in each} <= ids
    first = next(each["decision_id"] for each in made if each["record_id"] == "p2")
    assert {each["revises"] for each in made if each["record_id"] == "p2" and "revises" in each} == {first}
