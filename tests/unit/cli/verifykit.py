"""A small pipeline, its log and the receipts of its answers; for tests of ``crossline verify``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crossline.cli.main import run_command
from crossline.rule_registry.directory import find_log, ruleset_of_log
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.serve.decisions.values import Basis, SubmittedRecord
from crossline.serve.ledger.receipts import ReceiptEntry
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: shop
streams: {payments: {id: id, event_time: {field: at}, fields: {id: string, at: integer, account: string}}}
sources: {payments: {kind: api, path: in}}
rules: {kind: directory, path: rules}
policy: policy.yaml
sinks: [{kind: sqlite, path: out/shop.db}]
serve: {path: out/serve}
"""
POLICY = "schema_version: 1\nversion: 1\n"
RULE = """\
rule_id: burst
version: 1
rule_type: velocity
source_topic: payments
action: review
score: 40
group_by: account
aggregation_type: count
window: 60s
aggregation_threshold: 3
"""
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
DECIDED_AT = "2026-01-01T12:00:10.000Z"


def record(number: int, second: int, account: str = "a") -> dict[str, Any]:
    return {"id": f"t{number}", "at": NOON_MS + 1000 * second, "account": account}


RECORDS = [record(0, 0), record(1, 1), record(2, 2, "b"), record(3, 3), record(4, 4)]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in records)


def digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Shop:
    """A pipeline in a folder, whose rule log is as a run would have written it."""

    def __init__(self, root: Path, rule: str = RULE) -> None:
        self.root = root
        for name in ("rules", "in", "out"):
            (root / name).mkdir()
        (root / "pipeline.yaml").write_text(PIPELINE)
        (root / "policy.yaml").write_text(POLICY)
        (root / "rules" / "burst.yaml").write_text(rule)
        (root / "in" / "00000001.jsonl").write_text(lines(RECORDS))
        self.feed = DirectoryFeed(in_folder(self.config(), str(root)), {"payments": "records"})
        self.feed.start()

    def config(self) -> Any:
        return load_pipeline(PIPELINE, "p.yaml", lambda name: (self.root / name).read_text())

    def publish(self, rule: str, highest_ms: int) -> None:
        (self.root / "rules" / "burst.yaml").write_text(rule)
        assert self.feed.changed()
        self.feed.take_up({"payments": highest_ms})

    def decided(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """What the backtest decides, by record; and its alerts."""
        (self.root / "all.yaml").write_text(PIPELINE + "decisions: {emit: all, path: out/decisions}\n")
        command = ["backtest", "--pipeline", "all.yaml", "--input", "in", "--as-of-log"]
        assert run_command([*command, "--decisions", "d.jsonl", "--json"]) == 0
        decisions = [json.loads(line) for line in Path("d.jsonl").read_text().splitlines()]
        alerts = [json.loads(line) for line in Path("alerts.jsonl").read_text().splitlines()]
        firsts = {each["record_id"]: each for each in decisions if not each.get("revises")}
        return firsts, {each["record_id"]: each for each in alerts}

    def receipt(self, record_id: str = "t3", signer: Signer | None = None, **changes: Any) -> Path:
        """The receipt of an answer as a replica that knew all of the log gave it; with ``changes`` of its decision."""
        decisions, alerts = self.decided()
        alert = alerts.get(record_id)
        given = {"decided_at": DECIDED_AT, "answered": "peek", "as_of": {"batch": 1, "age_ms": 5, "laid_over": 0}}
        decision = {**decisions[record_id], **given, **changes}
        body = next(each for each in RECORDS if each["id"] == record_id)
        asked = SubmittedRecord(1, "payments", record_id, b"", digest(body), 1)
        policy = self.config().policy
        rule = {"rule_id": "burst", "version": 1, "digest": self.rule_digest()}
        basis = Basis("b", 1, policy.digest, decision["rules_digest"], [rule])
        figures: dict[str, dict[str, Any]] = {}
        evidence: dict[str, dict[str, Any]] = {}
        if alert:
            figures["burst"] = {name: alert[name] for name in ("value", "window_start", "window_end")}
            evidence["burst"] = {name: alert["evidence"][name] for name in ("record_ids", "count")}
        fallback = decision["answered"] == "fallback"
        entry = ReceiptEntry(asked, decision, None if fallback else basis, {} if fallback else figures, evidence)
        return self.kept(ReceiptEntry(asked, decision) if fallback else entry, signer)

    def rule_digest(self) -> str:
        log = find_log(self.root / "rules", "shop")
        assert log is not None
        return ruleset_of_log(log).versions[0].rule.body_digest()

    def kept(self, entry: ReceiptEntry, signer: Signer | None) -> Path:
        ledger = SqliteLedger(self.root / "out" / "serve" / "ledger.db", signer)
        try:
            (kept,) = ledger.answer([entry])
            assert kept is not None
            path = self.root / "receipt.json"
            path.write_text(json.dumps(ledger.receipt(kept.decision_id)))
            return path
        finally:
            ledger.close()
