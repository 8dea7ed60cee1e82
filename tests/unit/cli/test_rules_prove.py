"""``crossline rules prove``: what a rule would have done, proven so that another run says the same, or what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.init import template_files
from crossline.cli.main import run_command

RULE = """\
rule_id: large_payment
version: 2
rule_type: threshold
source_topic: payments
conditions:
  - {field: amount_cents, operator: ">=", value: 300}
severity: medium
"""
LIVE = RULE.replace("version: 2", "version: 1").replace("300", "500")
VELOCITY = """\
rule_id: many_payments
version: 1
rule_type: velocity
source_topic: payments
group_by: account_id
aggregation_type: count
aggregation_threshold: 4
window: 12h
severity: medium
"""
# Two days and a half: amounts of 100 (no hit), 300 (only version 2), 500 (both).
DAYS = {"2026-03-01": (100, 300, 500), "2026-03-02": (500, 300, 300), "2026-03-03": (300,)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for each in (*(tmp_path / "rules").iterdir(), *(tmp_path / "in").iterdir()):
        each.unlink()
    (tmp_path / "rules/large.yaml").write_text(LIVE)
    (tmp_path / "draft.yaml").write_text(RULE)
    number = 0
    for day, amounts in DAYS.items():
        with (tmp_path / f"in/{day}.jsonl").open("w") as file:
            for amount in amounts:
                number += 1
                record = {"payment_id": f"p{number}", "account_id": "a1", "merchant_id": "m1", "amount_cents": amount}
                at = f"{day}T{4 * number:02}:00:00Z" if number < 4 else f"{day}T{2 * number - 2:02}:00:00Z"
                file.write(json.dumps({**record, "channel": "card", "country": "DE", "paid_at": at}) + "\n")
    return tmp_path


def proven(project: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    given = ["rules", "prove", str(project / "draft.yaml"), "--pipeline", str(project / "pipeline.yaml"), "--json"]
    assert run_command([*given, *more]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_proof_counts_days_and_what_changes_against_the_live_version(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = proven(project, capsys)
    assert found["result"]["by_day"] == [2, 3, 1]  # type: ignore[index]
    changed = {name: found["against"][name] for name in ("version", "appear", "disappear", "both")}  # type: ignore[index]
    assert changed == {"version": 1, "appear": 4, "disappear": 0, "both": 2}
    assert found["data"]["records"] == 7  # type: ignore[index]
    ahead = found["predicted"]
    # From 4:00 of the first day to 12:00 of the third, and a millisecond: 2 1/3 days with 6 alerts.
    assert ahead["days"] == pytest.approx(56 / 24, abs=1e-3)  # type: ignore[index]
    assert ahead["per_day"] == pytest.approx(6 / (56 / 24), abs=1e-3)  # type: ignore[index]
    assert ahead["low"] < ahead["per_day"] < ahead["high"]  # type: ignore[index]
    only = proven(project, capsys, "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-03T00:00:00Z")
    assert only["result"]["by_day"] == [3]  # type: ignore[index]
    assert only["digests"]["rule"] == found["digests"]["rule"]  # type: ignore[index]
    assert only["digests"]["data"] != found["digests"]["data"]  # type: ignore[index]


def test_labels_say_which_of_them_were_frauds(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "labels.csv").write_text("record_id,is_fraud\np3,1\np5,1\np1,1\np2,0\n")
    found = proven(project, capsys, "--labels", str(project / "labels.csv"), "--amount", "amount_cents")
    draft, live = found["draft"], found["live"]
    assert (draft["caught"], draft["frauds"], draft["true"], draft["alerts"]) == (2, 3, 2, 6)  # type: ignore[index]
    assert (live["caught"], live["money_caught"], draft["money_caught"]) == (1, 500, 800)  # type: ignore[index]
    # Of the frauds p1 alone is missed; p2, p6 and p7 are newly met, and p4 was before.
    blast: Any = found["blast"]
    assert [(each["record_id"], each["why"]) for each in blast["missed"]] == [
        ("p1", "found amount_cents 100; expected amount_cents >= 300: 200 is missing")
    ]
    assert [(each["record_id"], each["times"]) for each in blast["met"]] == [("p2", 1), ("p6", 1), ("p7", 1)]
    assert (blast["missed_count"], blast["met_count"], blast["good"]) == (1, 3, {"draft": 4, "live": 1})
    assert proven(project, capsys)["blast"] is None


def test_the_nearest_frauds_of_a_window_come_first(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Within twelve hours there are three payments on each of two days, so four never come; p3 and p6 are third.
    (project / "draft.yaml").write_text(VELOCITY)
    (project / "labels.csv").write_text("record_id,is_fraud\np1,1\np6,1\np7,0\n")
    blast: Any = proven(project, capsys, "--labels", str(project / "labels.csv"))["blast"]
    assert [(each["record_id"], each["key"], each["why"]) for each in blast["missed"]] == [
        ("p6", {"account_id": "a1"}, "3 is not >= 4: 1 is missing"),
        ("p1", {"account_id": "a1"}, "1 is not >= 4: 3 is missing"),
    ]
    (project / "draft.yaml").write_text(VELOCITY.replace("4", "2"))
    blast = proven(project, capsys, "--labels", str(project / "labels.csv"))["blast"]
    # It fires at p2 and p5, of which the first rests on p1, a fraud; the second on p4 and p5.
    assert [(each["key"], each["record_id"], each["times"]) for each in blast["met"]] == [
        ({"account_id": "a1"}, "p5", 1)
    ]
    assert [each["record_id"] for each in blast["missed"]] == []
    assert blast["missed_count"] == 1


def test_money_and_precision_are_predicted_beside_alerts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ahead = proven(project, capsys)["predicted"]
    assert (ahead["money"], ahead["precision"]) == (None, None)  # type: ignore[index]
    money = proven(project, capsys, "--amount", "amount_cents")["predicted"]["money"]  # type: ignore[index]
    # Alerts on amounts of 300 and 500, then 500, 300 and 300, then 300: 2,200 in 2 1/3 days, their squares 860,000.
    days = 56 / 24
    half = 1.959964 * (860_000 / days * (1 + 1 / days)) ** 0.5
    assert money["field"] == "amount_cents"
    assert money["per_day"] == pytest.approx(2_200 / days, abs=0.01)
    assert money["high"] == pytest.approx(2_200 / days + half, abs=0.01)
    (project / "labels.csv").write_text("record_id,is_fraud\np3,1\np5,1\np1,1\np2,0\n")
    found = proven(project, capsys, "--labels", str(project / "labels.csv"))["predicted"]["precision"]  # type: ignore[index]
    # Alerts on p2 to p7, of which p2 is good, p3 and p5 are frauds, and the others have no label.
    assert found == {"true": 2, "labels": 3, "value": None, "low": None, "high": None}
    (project / "labels.csv").write_text("record_id,is_fraud\np3,1\np5,1\n")
    found = proven(project, capsys, "--labels", str(project / "labels.csv"))["predicted"]["precision"]  # type: ignore[index]
    assert (found["true"], found["labels"]) == (2, 6)  # where frauds alone are named, all others are none


def test_a_proof_is_run_again_and_says_the_same_or_what_differs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = project / "proof.json"
    proof.write_text(json.dumps(proven(project, capsys)))
    again = ["verify", str(proof), "--pipeline", str(project / "pipeline.yaml"), "--json"]
    assert run_command(again) == 0
    assert json.loads(capsys.readouterr().out)["result"] == "the same"
    whole = json.loads(proof.read_text())
    for body, differs in ((None, []), ("0" * 64, ["files that the rule names"])):  # of before that was noted; another
        older = {**whole["digests"], "body": body}
        proof.write_text(json.dumps({**whole, "digests": {name: each for name, each in older.items() if each}}))
        assert run_command(again) == (1 if differs else 0)
        assert [each["what"] for each in json.loads(capsys.readouterr().out)["differences"]] == differs
    proof.write_text(json.dumps(whole))
    day = project / "in/2026-03-03.jsonl"
    day.write_text(day.read_text().replace("300", "100"))
    assert run_command(again) == 1
    content = json.loads(capsys.readouterr().out)
    assert content["result"] == "differs"
    assert [each["what"] for each in content["differences"]] == ["data", "result", "alerts", "alerts of each day"]
    assert content["differences"][3] == {"what": "alerts of each day", "proof": [2, 3, 1], "again": [2, 3, 0]}
    changed = json.loads(proof.read_text())
    changed["text"] = changed["text"].replace("300", "400")
    proof.write_text(json.dumps(changed))
    assert run_command([*again[:-1]]) == 1
    assert "text of the rule" in capsys.readouterr().out
    day.unlink()
    assert run_command(again) == 2
    assert "found no file in/2026-03-03.jsonl of the proof" in capsys.readouterr().err
    assert run_command(["verify", str(proof)]) == 2


def test_what_cannot_be_proven_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["rules", "prove", str(project / "draft.yaml"), "--pipeline", str(project / "pipeline.yaml")]
    assert run_command([*given, "--from", "2027-01-01T00:00:00Z"]) == 2
    assert "found no record in the interval" in capsys.readouterr().err
    assert run_command([*given, "--from", "soon"]) == 2
    (project / "draft.yaml").write_text("[]")
    assert run_command(given) != 0


def test_a_proof_of_named_files_is_run_again_though_the_source_is_a_topic(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No broker is asked; and a name with letters that patterns have is a name."""
    pipeline = project / "pipeline.yaml"
    text = pipeline.read_text().replace("kind: files", "kind: kafka, brokers: '127.0.0.1:1', topic: payments")
    pipeline.write_text(text.replace(", path: in/*.jsonl", ""))
    assert "kafka" in pipeline.read_text()
    (project / "in/2026-03-03.jsonl").rename(project / "in/[3].jsonl")
    proof = project / "proof.json"
    given = ["rules", "prove", str(project / "draft.yaml"), "--pipeline", str(pipeline), "--json"]
    assert run_command(given) == 2
    assert "expected --input, or sources of kind files" in capsys.readouterr().err
    assert run_command([*given, "--input", f"{project}/in/*.jsonl"]) == 0
    proof.write_text(capsys.readouterr().out)
    assert max(each["name"] for each in json.loads(proof.read_text())["data"]["files"]) == "in/[3].jsonl"
    again = ["verify", str(proof), "--pipeline", str(pipeline), "--json"]
    assert run_command(again) == 0
    assert json.loads(capsys.readouterr().out)["result"] == "the same"
