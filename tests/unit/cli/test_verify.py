"""``crossline verify``: the same; differs, and what made it so; altered. Figures are counted by hand."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from serve.ledger.ledgerkit import key_files

from crossline.cli.main import run_command
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.policy.policy import load_policy
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.serve.decisions.values import Basis, SubmittedRecord
from crossline.serve.ledger.receipts import ReceiptEntry
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.settings.config import in_folder

from .verifykit import NOON_MS, PIPELINE, POLICY, RECORDS, RULE, Shop, digest, lines, record


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


Verify = Callable[..., dict[str, Any]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    """The result of the command, whose exit code says the same."""

    def verifying(*options: str) -> dict[str, Any]:
        capsys.readouterr()
        code = run_command(["verify", *options, "--json"])
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert code == (0 if result["result"] in {"the same", "whole"} else 1)
        return result

    return verifying


GIVEN = ("receipt.json", "--pipeline", "pipeline.yaml")


def causes(result: dict[str, Any]) -> list[str]:
    return [because for each in result["differences"] for because in each["because"]]


def test_the_same(shop: Shop, verify: Verify) -> None:
    receipt = json.loads(shop.receipt().read_text())
    assert receipt["figures"] == [
        {
            "name": "burst",
            "window_start": "2026-01-01T11:59:03.000Z",
            "window_end": "2026-01-01T12:00:03.000Z",
            "value": 3,
            "record_ids": ["t0", "t1", "t3"],
            "count": 3,
        }
    ]
    assert (receipt["decision"]["decision"], receipt["decision"]["score"]) == ("review", 40)
    result = verify(*GIVEN)
    assert (result["result"], result["records"], result["differences"]) == ("the same", 5, [])
    assert (result["digest"], result["signature"], result["notes"]) == ("holds", "none", [])


@pytest.mark.parametrize("record_id", ["t1", "t2", "t4"])
def test_the_same_of_records_without_an_alert(record_id: str, shop: Shop, verify: Verify) -> None:
    """t4 rests on an alert that was raised before it."""
    shop.receipt(record_id)
    assert verify(*GIVEN)["result"] == "the same"


def test_a_late_record_in_the_log_is_named(shop: Shop, verify: Verify) -> None:
    """It came after the answer and stands before the record: another gateway wrote its part late."""
    shop.receipt()
    late = {**record(9, 2), "note": "late"}
    (shop.root / "in" / "00000000.jsonl").write_text(lines([record(8, 0, "c"), late]))
    result = verify(*GIVEN)
    assert result["result"] == "differs"
    at = len(lines([record(8, 0, "c")]))
    text = f"record t9 counts in the log (in/00000000.jsonl, byte {at}); the answer did not know of it"
    assert text in causes(result)
    figure = next(each for each in result["differences"] if each["what"] == "figure burst")
    assert (figure["receipt"], figure["log"]) == ({"value": 3, "count": 3}, {"value": 4, "count": 4})


def test_a_late_record_that_makes_a_figure(shop: Shop, verify: Verify) -> None:
    """The answer allowed t1, its second; with t9 before it, it is the third. The ledger knows that t9 came later."""
    shop.receipt("t1")
    late = record(9, 0)
    shop.kept(
        ReceiptEntry(
            SubmittedRecord(2, "payments", "t9", b"", digest(late), 2),
            {"decision_id": "d9", "stream": "payments", "record_id": "t9", "decision": "allow", "answered": "peek"},
        ),
        None,
    )
    ledger_receipt = SqliteLedger(shop.root / "out" / "serve" / "ledger.db")
    found = ledger_receipt.by_record("payments", "t1")
    assert found is not None
    (shop.root / "receipt.json").write_text(json.dumps(ledger_receipt.receipt(found.decision_id)))
    ledger_receipt.close()
    (shop.root / "in" / "00000000.jsonl").write_text(lines([late]))
    result = verify(*GIVEN)
    assert result["result"] == "differs"
    assert {each["what"] for each in result["differences"]} == {"figure burst", "decision", "score", "reasons"}
    assert "record t9 counts in the log (in/00000000.jsonl, byte 0); it was answered after this one" in causes(result)
    assert not [each for each in causes(result) if "record t0" in each]


def test_a_revision_is_named_with_the_record_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: Verify
) -> None:
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path, RULE + "late_policy: reevaluate\n")
    shop.receipt("t1")
    assert verify(*GIVEN)["result"] == "the same"
    with (tmp_path / "in" / "00000001.jsonl").open("a") as file:
        at = file.tell()
        file.write(lines([record(9, 0)]))
    result = verify(*GIVEN)
    assert result["result"] == "differs"
    (revision,) = result["differences"]
    assert (revision["receipt"], revision["log"]) == (
        {"decision": "allow", "score": 0},
        {"decision": "review", "score": 40},
    )
    assert f"because of record t9 (in/00000001.jsonl, byte {at})" in revision["because"][0]
    assert verify(*GIVEN, "--then")["result"] == "the same", "it was so when it was decided"


def test_altered(shop: Shop, verify: Verify) -> None:
    path = shop.receipt()
    receipt = json.loads(path.read_text())
    receipt["figures"][0]["value"] = 2
    path.write_text(json.dumps(receipt))
    result = verify(*GIVEN)
    assert (result["result"], result["digest"], result["records"]) == ("altered", "does not hold", None)
    assert [each["fault"] for each in result["faults"]] == ["altered"]


def test_altered_by_one_who_writes_the_digest_anew(shop: Shop, verify: Verify, tmp_path: Path) -> None:
    private, public = key_files(tmp_path)
    path = shop.receipt(signer=Signer.from_file(private))
    key = ("--public-key", str(public))
    assert verify(*GIVEN, *key)["signature"].startswith("holds, of key ")
    assert "not checked" in verify(*GIVEN)["signature"]
    receipt = json.loads(path.read_text())
    receipt["decision"]["decided_at"] = "2026-01-01T12:00:11.000Z"
    receipt["digest"] = digest({name: receipt[name] for name in receipt if name not in {"digest", "signature"}})
    path.write_text(json.dumps(receipt))
    assert verify(*GIVEN)["result"] == "the same", "without the key nobody sees it"
    assert verify(*GIVEN, *key)["result"] == "altered"
    result = verify("receipt.json", "--ledger", "out/serve/ledger.db")
    assert (result["result"], result["ledger"]) == ("altered", "has another")


def test_a_rule_event_is_named(shop: Shop, verify: Verify) -> None:
    """The replica did not know version 2 yet, which holds from just after t1 on."""
    shop.receipt()
    shop.publish(RULE.replace("version: 1", "version: 2").replace("threshold: 3", "threshold: 9"), NOON_MS + 1000)
    result = verify(*GIVEN)
    assert result["result"] == "differs"
    whats = [each["what"] for each in result["differences"]]
    assert whats == ["rule burst", "figure burst", "decision", "score", "rules_digest", "reasons"]
    (found,) = {each for each in causes(result) if each.startswith("rule log")}
    assert found.startswith("rule log: burst version 2 published at ")
    assert "effective from 2026-01-01T12:00:01.001Z" in found


OTHER_POLICY = "schema_version: 1\nversion: 2\nbands: [{from: 40, decision: block}]\n"


def test_another_policy_is_that_of_the_receipt_where_the_log_has_it(shop: Shop, verify: Verify) -> None:
    """The rule log has it since the first start; where it does not, that is a difference, and says what to do."""
    path = shop.receipt()
    (shop.root / "policy.yaml").write_text(OTHER_POLICY)
    result = verify(*GIVEN)
    assert result["result"] == "the same"
    (note,) = result["notes"]
    assert note.startswith("judged by version 1 of the policy, which is the receipt's, in force from ")
    assert " to " not in note, "the pipeline has not started with the other one"
    shop.feed.close()
    DirectoryFeed(in_folder(shop.config(), str(shop.root)), {"payments": "records"}).start()
    assert verify(*GIVEN)["notes"][0].startswith(f"{note} to 2")
    assert verify(*GIVEN, "--policy", "policy.yaml")["result"] == "differs"
    log = shop.root / "rules/.log/shop.jsonl"
    kept = [line for line in log.read_text().splitlines(keepends=True) if "policy_changed" not in line]
    log.write_text("".join(kept))
    result = verify(*GIVEN)
    assert path.exists()
    assert [each["what"] for each in result["differences"]] == ["policy_digest", "decision", "policy_version"]
    assert "the answer is by version 1 of the policy, the pipeline has version 2" in causes(result)[0]
    (shop.root / "then.yaml").write_text(POLICY)
    assert verify(*GIVEN, "--policy", "then.yaml")["result"] == "the same"


def test_a_record_that_is_not_in_the_log_or_another_one(shop: Shop, verify: Verify) -> None:
    shop.receipt()
    path = shop.root / "in" / "00000001.jsonl"
    path.write_text(lines([{**each, "note": "x"} if each["id"] == "t3" else each for each in RECORDS]))
    result = verify(*GIVEN)
    assert [each["what"] for each in result["differences"]] == ["record_digest"]
    path.write_text(lines([each for each in RECORDS if each["id"] != "t3"]))
    result = verify(*GIVEN)
    assert [each["what"] for each in result["differences"]] == ["record"]
    assert causes(result) == ["record t3 of payments is not in the log: 4 records were judged"]


def test_a_record_that_was_counted_and_is_gone(shop: Shop, verify: Verify) -> None:
    shop.receipt()
    path = shop.root / "in" / "00000001.jsonl"
    path.write_text(lines([{**each, "id": "tx"} if each["id"] == "t0" else each for each in RECORDS]))
    result = verify(*GIVEN)
    assert "record t0 counted for the answer; it is not in the log" in causes(result)
    assert any(each.startswith("record tx counts in the log (in/00000001.jsonl, byte 0)") for each in causes(result))


def test_a_fallback(shop: Shop, verify: Verify) -> None:
    degraded = [{"part": "replica", "why": "2,400 ms behind (bound 1,000)"}]
    shop.receipt("t1", answered="fallback", degraded=degraded, score=0, reasons=[])
    assert verify(*GIVEN)["result"] == "the same", "the stream allows it as well"
    shop.receipt("t3", answered="fallback", degraded=degraded, decision="allow", score=0, reasons=[])
    result = verify(*GIVEN)
    assert [(each["what"], each["receipt"], each["log"]) for each in result["differences"]] == [
        ("decision", "allow", "review")
    ]
    assert "(replica: 2,400 ms behind (bound 1,000))" in causes(result)[0]


def test_a_ledger(shop: Shop, verify: Verify) -> None:
    shop.receipt()
    shop.receipt("t1")
    found = verify("--ledger", "out/serve/ledger.db")
    assert (found["result"], found["receipts"], found["faults"]) == ("whole", 2, [])
    assert found["counts"]["answered"] == {"peek": 2}
    assert verify("receipt.json", "--ledger", "out/serve/ledger.db")["ledger"] == "has it"
    assert verify("receipt.json")["result"] == "whole"
    with closing(sqlite3.connect("out/serve/ledger.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM receipts WHERE sequence = 1")
    found = verify("--ledger", "out/serve/ledger.db")
    assert (found["result"], found["faults"][0]["fault"]) == ("altered", "left_out")


def test_it_is_read_by_people(shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shop.receipt("t1")
    (shop.root / "in" / "00000000.jsonl").write_text(lines([record(9, 0)]))
    capsys.readouterr()
    assert run_command(["verify", *GIVEN]) == 1
    out = capsys.readouterr().out
    assert out.startswith("differs\n")
    assert "receipt: allow; log: review" in out
    assert run_command(["verify", "--ledger", "out/serve/ledger.db"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("whole\n")
    assert "1 answered, 0 revised, 0 decided otherwise (0 %)" in out


WRONG = {
    "neither": ([], "found neither a receipt nor --ledger"),
    "no file": (["none.json", "--pipeline", "pipeline.yaml"], "receipt none.json: No such file"),
    "no JSON": (["pipeline.yaml", "--pipeline", "pipeline.yaml"], "found no JSON"),
    "a list": (["list.json", "--pipeline", "pipeline.yaml"], "found a JSON list"),
    "a field twice": (["twice.json", "--pipeline", "pipeline.yaml"], "field 'a' appears twice in an object"),
    "no pipeline": (["receipt.json", "--pipeline", "none.yaml"], "none.yaml: no such file"),
    "a topic": (["receipt.json", "--pipeline", "kafka.yaml"], "of Avro or with fields of headers: expected --input"),
    "no ledger": (["--ledger", "none.db"], "found no ledger none.db"),
    "a key that is none": (["receipt.json", "--public-key", "list.json"], "key file list.json"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_use(what: str, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.receipt()
    Path("list.json").write_text("[]")
    Path("twice.json").write_text('{"a": 1, "b": {"a": 1}, "a": 2}')
    headers = PIPELINE.replace("fields: {id", "headers: {origin: {header: origin, type: string}}, fields: {id")
    Path("kafka.yaml").write_text(headers.replace("kind: api, path: in", "kind: kafka, brokers: b, topic: p"))
    options, found = WRONG[what]
    capsys.readouterr()
    assert run_command(["verify", *options]) == (1 if what == "no ledger" else 2)
    assert found in capsys.readouterr().err


def test_a_topic_that_was_written_to_files(shop: Shop, verify: Verify) -> None:
    shop.receipt()
    Path("kafka.yaml").write_text(PIPELINE.replace("kind: api, path: in", "kind: kafka, brokers: b, topic: p"))
    assert verify("receipt.json", "--pipeline", "kafka.yaml", "--input", "payments=in")["result"] == "the same"


def test_a_generator_is_a_log_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: Verify) -> None:
    """The example of cards: the first 4 declined payments on one card, as they stand in its records."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(__file__).parents[3] / "examples" / "cards", tmp_path / "cards")
    monkeypatch.chdir(tmp_path / "cards")
    pipeline = Path("pipeline.yaml")
    pipeline.write_text(pipeline.read_text().replace("records: 144000", "records: 12000"))
    assert run_command(["generate", "cards", "--seed", "7", "--records", "12000", "--output", "all.jsonl"]) == 0
    command = ["backtest", "--pipeline", "pipeline.yaml", "--input", "all.jsonl", "--decisions", "d.jsonl", "--json"]
    assert run_command(command) == 0
    records = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    declined: dict[str, list[dict[str, Any]]] = {}
    for each in records:
        declined.setdefault(each["card_hash"] if each["status"] == "declined" else "", []).append(each)
        mine = declined.get(each["card_hash"], [])
        if len(mine) == 4 and mine[-1]["event_time"] - mine[0]["event_time"] < 300_000:
            break
    decisions = [json.loads(line) for line in Path("d.jsonl").read_text().splitlines()]
    decided = next(each for each in decisions if each["record_id"] == mine[-1]["transaction_id"])
    at = datetime.fromtimestamp(mine[-1]["event_time"] / 1000, UTC)
    figure = {"value": 4, "window_start": instant(at - timedelta(minutes=5)), "window_end": instant(at)}
    evidence = {"record_ids": [each["transaction_id"] for each in mine], "count": 4}
    rules = sorted(
        (rule for path in Path("rules").glob("*.yaml") for rule in read_rules(path, Known())),
        key=lambda rule: rule.rule_id,
    )
    in_force = [{"rule_id": rule.rule_id, "version": 1, "digest": rule.body_digest()} for rule in rules]
    policy = load_policy(Path("policy.yaml").read_text(), "policy.yaml")
    basis = Basis("b", 1, policy.digest, decided["rules_digest"], in_force)
    others = [each["rule_id"] for each in decided["reasons"] if not each.get("standing")]
    assert others == ["card_declines"]
    asked = SubmittedRecord(1, "payments", mine[-1]["transaction_id"], b"", digest(mine[-1]), 1)
    ledger = SqliteLedger("ledger.db")
    (kept,) = ledger.answer(
        [
            ReceiptEntry(
                asked, {**decided, "answered": "peek"}, basis, {"card_declines": figure}, {"card_declines": evidence}
            )
        ]
    )
    assert kept is not None
    Path("receipt.json").write_text(json.dumps(ledger.receipt(kept.decision_id)))
    ledger.close()
    result = verify(*GIVEN)
    assert (result["result"], result["records"], result["differences"]) == ("the same", 12_000, [])
    assert result["notes"] == ["found no rule log beside the rules: judged by rules and lists as they are now"]


def instant(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
