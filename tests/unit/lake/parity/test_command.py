"""``crossline lake parity``: the alerts of the engine are the same, and what was changed is found."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.main import run_command
from crossline.lake.parity.report import read_report
from crossline.serve.ledger.schema import LEDGER_FILE, ensure_schema
from unit.lake.lake_kit import START_MS, SpooledPipeline, payment
from unit.lake.training.served import POLICY, serve

RULE = """\
rule_id: often
version: 1
rule_type: velocity
source_topic: payments
severity: high
group_by: account_id
aggregation_type: count
aggregation_threshold: 2
operator: ">="
window: 10m
emit: every
"""
COUNT = 12


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> SpooledPipeline:
    """Payments with the engine's own alerts, but for one that has another value, and one that is missing."""
    made = SpooledPipeline(tmp_path_factory.mktemp("parity"))
    serve(made)
    (made.root / "rules").mkdir()
    (made.root / "rules" / "often.yaml").write_text(RULE)
    (made.root / "pipeline.yaml").write_text(made.text)
    records = [payment(number, START_MS + 60_000 * number) for number in range(COUNT)]
    (made.root / "payments.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    given = ["backtest", "--pipeline", str(made.root / "pipeline.yaml"), "--input", str(made.root / "payments.jsonl")]
    assert run_command([*given, "--output", str(made.root / "alerts.jsonl")]) == 0
    alerts: list[dict[str, Any]] = [json.loads(line) for line in (made.root / "alerts.jsonl").read_text().splitlines()]
    assert len(alerts) > 4
    receipts(made.root / "out" / "serve" / LEDGER_FILE, alerts)
    alerts[0]["value"] += 1
    made.batch(records, alerts=alerts[:-1], positions=[("x", number) for number in range(len(alerts) - 1)])
    made.write_all()
    with made.writer() as writer:
        writer.write_side_logs()
    return made


def receipts(path: Path, alerts: list[dict[str, Any]]) -> None:
    """The API's answers on the records of two alerts, with the figures of the engine."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ensure_schema(connection, path)
        connection.execute("INSERT INTO bases VALUES ('b1', ?)", (b"{}",))
        connection.execute("INSERT INTO chains VALUES (0, 'one', 1, 'p', 2, 'x', 0, '')")
        for number, alert in enumerate(alerts[:2], 1):
            answer = (
                alert["stream"],
                alert["record_id"],
                "digest",
                None,
                None,
                START_MS,
                f"d-{number}",
                "peek",
                "allow",
            )
            insert = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            connection.execute(insert, (*answer, b'{"decision": "allow", "answered": "peek"}', START_MS))
            rest = json.dumps({"figures": [{"name": "often", "value": alert["value"]}]}).encode()
            receipt = ("one", number, f"d-{number}", f"digest-{number}", "b1", rest, START_MS)
            connection.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)", receipt)


def rules(pipeline: SpooledPipeline) -> list[str]:
    """The pipeline has no rule log, since no run was there."""
    return ["--rules", str(pipeline.root / "rules")]


def test_it_finds_what_differs_and_nothing_else(pipeline: SpooledPipeline, capfd: pytest.CaptureFixture[str]) -> None:
    alerts = [json.loads(line) for line in (pipeline.root / "alerts.jsonl").read_text().splitlines()]
    given = ["lake", "parity", "--pipeline", str(pipeline.root / "pipeline.yaml"), *rules(pipeline)]
    assert run_command([*given, "--json"]) == 1
    report = json.loads(capfd.readouterr().out)
    (rule,) = report["rules"]
    assert (rule["alerts"], rule["sampled"], rule["equal"]) == (len(alerts) - 1, len(alerts), len(alerts) - 2)
    assert (rule["answered"], rule["answered_equal"]) == (2, 1)
    found = {(each["alert_id"], each["other"], each["what"]) for each in rule["differences"]}
    assert found == {
        (alerts[0]["alert_id"], "lake", "value"),
        (alerts[0]["alert_id"], "api", "value"),
        (alerts[-1]["alert_id"], "lake", "only in the lake"),
    }
    kept = read_report(pipeline.root / "out" / "serve", "pay-eu")
    assert kept is not None
    assert json.loads(json.dumps(kept.to_json())) == report


def test_a_span_without_what_differs_is_the_same(pipeline: SpooledPipeline, capfd: pytest.CaptureFixture[str]) -> None:
    """Up to the last payment, from behind the first alert."""
    alerts = [json.loads(line) for line in (pipeline.root / "alerts.jsonl").read_text().splitlines()]
    given = ["lake", "parity", "--pipeline", str(pipeline.root / "pipeline.yaml"), *rules(pipeline), "--last", "5m"]
    assert run_command([*given, "--to", alerts[-1]["ingest_time"]]) == 0
    out = capfd.readouterr().out
    assert "often" in out
    assert run_command([*given, "--to", "soon"]) == 2
    assert run_command([*given[:-1], "long"]) == 2


def test_decisions_are_compared_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The engine's own decisions, one of which has another score, and one that no replay gives."""
    made = SpooledPipeline(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    made.text = made.text.replace("kind: console", "kind: sqlite, path: out/store.db") + "policy: policy.yaml\n"
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "often.yaml").write_text(RULE)
    (tmp_path / "pipeline.yaml").write_text(made.text)
    records = [payment(number, START_MS + 60_000 * number) for number in range(COUNT)]
    (tmp_path / "payments.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    given = ["backtest", "--pipeline", str(tmp_path / "pipeline.yaml"), "--input", str(tmp_path / "payments.jsonl")]
    given += ["--output", str(tmp_path / "alerts.jsonl"), "--decisions", str(tmp_path / "decisions.jsonl")]
    assert run_command(given) == 0
    alerts, decisions = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("alerts.jsonl", "decisions.jsonl")
    )
    count = len(decisions)
    assert count > 3
    places = [("x", number) for number in range(len(alerts))]
    made.batch(records, alerts=alerts, positions=places, decisions=[{**decisions[0], "score": 7}, *decisions[1:-1]])
    made.write_all()
    capfd.readouterr()
    asked = ["lake", "parity", "--pipeline", str(tmp_path / "pipeline.yaml"), *rules(made)]
    assert run_command([*asked, "--json"]) == 1
    report = json.loads(capfd.readouterr().out)
    assert [each["equal"] - each["sampled"] for each in report["rules"]] == [0]
    (kind,) = report["decisions"]
    assert (kind["decision"], kind["decisions"], kind["sampled"], kind["equal"]) == (
        decisions[0]["decision"],
        count - 1,
        count,
        count - 2,
    )
    assert {(each["record_id"], each["what"]) for each in kind["differences"]} == {
        (decisions[0]["record_id"], "score"),
        (decisions[-1]["record_id"], "only in the lake"),
    }
    assert run_command(asked) == 1
    printed = capfd.readouterr()
    assert f"the decision on record {decisions[0]['record_id']} of payments differs from the lake: score" in (
        printed.out + printed.err
    )


def test_an_empty_lake_has_nothing_to_compare(tmp_path: Path) -> None:
    made = SpooledPipeline(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(made.text)
    (tmp_path / "rules").mkdir()
    assert run_command(["lake", "parity", "--pipeline", str(tmp_path / "pipeline.yaml")]) == 1
