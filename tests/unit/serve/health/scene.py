"""Weeks of alerts, labels and proofs of a pipeline that is served, as its stores would have taken them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.times import instant_text
from crossline.serve.approvals.file import ApprovalFile, proof_id_of
from crossline.serve.approvals.values import KeptProof, text_digest
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.settings.process.casework import CasesSettings

DAY_MS = 86_400_000
MONEY = CasesSettings.model_validate({"money": {"field": "amount_cents", "decimals": 2, "currency": "currency"}})


def alert(name: str, rule_id: str, at_ms: int, **more: Any) -> dict[str, Any]:
    """An alert of version 1 on the record of its own name, worth EUR 10."""
    return {
        "schema_version": 1,
        "alert_id": name,
        "kind": "alert",
        "rule_id": rule_id,
        "rule_version": 1,
        "severity": "medium",
        "key": {"account_id": f"a-{name}"},
        "stream": "payments",
        "record_id": f"r-{name}",
        "event_time": instant_text(at_ms),
        "message": f"{rule_id} fired",
        "value": 7,
        "record": {"amount_cents": 1_000, "currency": "EUR"},
        **more,
    }


def alerts_of(rule_id: str, by_day: Sequence[int], now_ms: int, **more: Any) -> list[dict[str, Any]]:
    """So many a day, today last: at even distances; those of today since midnight.

    The alert's name says the rule, how many days ago it was, and its number on that day.
    """
    midnight = now_ms // DAY_MS * DAY_MS
    found = []
    for ago, count in enumerate(reversed(by_day)):
        begin, length = midnight - ago * DAY_MS, DAY_MS if ago else now_ms - midnight
        found += [
            alert(f"{rule_id}-{ago}-{number}", rule_id, begin + length * number // max(1, count), **more)
            for number in range(count)
        ]
    return found[::-1]


def take(path: Path, now_ms: int, alerts: Sequence[Mapping[str, Any]], decisions: Sequence[Any] = ()) -> None:
    """Into the cases of the folder ``path``."""
    intake = CaseIntake(path / FILE, MONEY, clock_ms=lambda: now_ms)
    steps: list[Any] = [("alerts", orjson.dumps(each)) for each in alerts]
    steps += [("decisions", orjson.dumps(each)) for each in decisions]
    for begin in range(0, len(steps), 500):
        intake.take(steps[begin : begin + 500], None)
    intake.close()


def label(path: Path, at_ms: int, verdicts: Mapping[str, bool]) -> None:
    """Verdicts on records, all at one time."""
    cases = Cases(path / FILE, clock_ms=lambda: at_ms)
    for record_id, is_fraud in verdicts.items():
        cases.put_label("payments", record_id, is_fraud, who="ines.vale")
    cases.close()


def publish(path: Path, rule_id: str, at_ms: int, predicted: Mapping[str, Any], version: int = 1) -> None:
    """A version that was published at ``at_ms`` with a proof that foretells ``predicted``."""
    text = f"{rule_id}@{version}"
    digests = {"rule": text_digest(text), "data": "d", "result": rule_id}
    body = {"rule_id": rule_id, "version": version, "text": text, "digests": digests, "predicted": dict(predicted)}
    approvals = ApprovalFile(path)
    approvals.keep_proof(KeptProof(proof_id_of(body), "ines.vale", at_ms, body))
    request = approvals.ask(rule_id, version, f"{rule_id}.yaml", text, "ines.vale", at_ms)
    approvals.decide(request.number, "oda.lind", "", at_ms, approved=True)
