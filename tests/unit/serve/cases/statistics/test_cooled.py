"""What cooldowns hold back: the engine's own decisions, counted, are those of a twin that judges record by record."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.unit.serve.cases.casekit import START, Harness
from tests.unit.serve.cases.statistics.test_counting import DAY, table

from crossline.cli.main import run_command
from crossline.rules.rule_reader import read_rule
from crossline.serve.cases.intake.cooldowns import LOOK_S, CooldownRules
from crossline.serve.cases.statistics.cooldowns import cools
from crossline.serve.cases.statistics.queries import read_counts

ACTIONS = ("allow", "review", "step_up", "block")
STREAM = """\
schema_version: 1
streams:
  payments:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string, amount: integer}
"""
PIPELINE = """\
schema_version: 1
name: shop
streams: stream.yaml
sources: {payments: {kind: files, path: "in/*.jsonl"}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out.db}]
policy: policy.yaml
"""
# By name: amounts from, action, score, emit, cooldown in seconds.
RULES: Mapping[str, tuple[int, str, int, str, int]] = {
    "calm": (20, "block", 10, "every", 40),
    "each": (40, "review", 30, "every", 0),
    "long": (60, "block", 20, "every", 300),
    "line": (10, "step_up", 5, "on_crossing", 60),
}


def body(name: str) -> dict[str, Any]:
    least, action, score, emit, cooldown_s = RULES[name]
    return {
        "rule_id": name,
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account",
        "aggregation_type": "count",
        "aggregation_threshold": 1,
        "window": "1ms",
        "conditions": [{"field": "amount", "operator": ">=", "value": least}],
        "emit": emit,
        "cooldown": f"{cooldown_s}s",
        "severity": "high",
        "action": action,
        "score": score,
    }


def drawn(seed: int) -> list[dict[str, Any]]:
    chance, at_ms, found = random.Random(seed), START, []
    for number in range(400):
        at_ms += chance.randrange(1_000, 30_000)
        found.append(
            {"id": f"p{number}", "at": at_ms, "account": f"a{chance.randrange(3)}", "amount": chance.randrange(90)}
        )
    return found


def twin(records: list[dict[str, Any]]) -> Counter[tuple[int, str, str]]:
    """By day, rule and other: what the words say, record by record."""
    found: Counter[tuple[int, str, str]] = Counter()
    last: dict[tuple[str, str], int] = {}
    for record in records:
        holds = [name for name, (least, *_) in RULES.items() if record["amount"] >= least]
        raised = []
        for name in holds:
            cooldown_ms, before = RULES[name][4] * 1_000, last.get((name, record["account"]))
            if before is None or record["at"] >= before + cooldown_ms:
                last[name, record["account"]] = record["at"]
                raised.append(name)
        day = record["at"] // DAY
        silent = [name for name in holds if name not in raised and RULES[name][3] == "every"]
        ordered = sorted(holds, key=lambda name: (-ACTIONS.index(RULES[name][1]), -RULES[name][2], name))
        for name in silent:
            found[day, name, name] += 1
        if ordered and ordered[0] in silent:
            for name in raised:
                found[day, name, ordered[0]] += 1
    return found


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engine's alerts and decisions of records."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "in").mkdir()
    files = {"stream.yaml": STREAM, "pipeline.yaml": PIPELINE, "policy.yaml": "schema_version: 1\nversion: 1\n"}
    files |= {f"rules/{name}.yaml": json.dumps(body(name)) for name in RULES}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def judge(records: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
        (tmp_path / "in/a.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in records))
        command = ["backtest", "--pipeline", "pipeline.yaml", "--input", "in/*.jsonl", "--json"]
        assert run_command([*command, "--output", "alerts.jsonl", "--decisions", "d.jsonl"]) == 0
        alerts, decisions = ((tmp_path / name).read_bytes().splitlines() for name in ("alerts.jsonl", "d.jsonl"))
        return [("alerts", each) for each in alerts], [("decisions", each) for each in decisions]

    return judge


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_a_twin_that_judges_itself(judged: Any, tmp_path: Path, seed: int) -> None:
    records = drawn(seed)
    alerts, decisions = judged(records)
    harness = Harness(
        tmp_path / "desk", cooling=CooldownRules(lambda: [{**body(name), "body": body(name)} for name in RULES])
    )
    harness.intake.take([*alerts, *decisions], None)
    expected = twin(records)
    assert {name for _, name, other in expected if name == other} == {"calm", "long"}
    assert {other for _, name, other in expected if name != other} == {"calm", "long"}
    assert {row[:3]: row[3] for row in table(harness.path, "rule_cooled")} == dict(expected)
    harness.intake.take(decisions[:50], None)  # of a batch that is caught up with again
    assert {row[:3]: row[3] for row in table(harness.path, "rule_cooled")} == dict(expected)
    harness.now_ms = records[-1]["at"]
    found = read_counts(harness.cases.file, harness.now_ms).cooled
    sums: Counter[tuple[str, str]] = Counter()
    for (_, name, other), count in expected.items():
        sums[name, other] += count
    assert {(name, other): count for name, others in found.items() for other, count in others.items()} == dict(sums)
    harness.close()


def test_which_rules_are_silent_by_their_cooldown_alone() -> None:
    assert [name for name in RULES if cools(body(name))] == ["calm", "long"]
    rule, findings = read_rule(body("calm"))
    assert not findings
    assert rule is not None
    assert cools(rule.to_json())
    assert not cools({"rule_type": "unheard of"})


def test_a_version_that_is_not_known_is_looked_for_now_and_then() -> None:
    rows: list[dict[str, Any]] = []
    side_inputs, now_s = [0], [100.0]

    def read() -> list[dict[str, Any]]:
        side_inputs[0] += 1
        return list(rows)

    cooling = CooldownRules(read, lambda: now_s[0])
    assert not cooling("calm", 1)
    rows.append({**body("calm"), "body": body("calm")})
    assert not cooling("calm", 1)
    assert side_inputs == [1]
    now_s[0] += LOOK_S
    assert cooling("calm", 1)
    assert cooling("calm", 1)
    assert not cooling("calm", 2)
    assert side_inputs == [2]


def test_a_hold_of_a_person_counts_for_no_rule(tmp_path: Path) -> None:
    harness = Harness(tmp_path, cooling=lambda *_: True)
    hold = {"rule_id": "held by hand", "rule_version": 1, "held_by": "ann", "standing": True}
    cooled = {"rule_id": "calm", "rule_version": 1, "standing": True}
    content = {"kind": "decision", "decision": "block", "stream": "payments", "event_time": "2026-01-05T09:00:00.000Z"}
    for number, reasons in enumerate(([hold], [hold, cooled, {"rule_id": "each", "rule_version": 1}])):
        harness.intake.take(
            [("decisions", orjson.dumps({**content, "record_id": f"r{number}", "reasons": reasons}))], None
        )
    assert [row[1:] for row in table(harness.path, "rule_cooled")] == [("calm", "calm", 1)]
    harness.close()
