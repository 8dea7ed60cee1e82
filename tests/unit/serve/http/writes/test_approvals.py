"""Drafts and approvals through the API: what a page can do, a program can; a proof, and a second principal."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.http.kit import Client, client_of, dependencies, detail

from crossline.serve.approvals.file import ApprovalFile, proof_id_of
from crossline.serve.approvals.values import KeptProof
from crossline.serve.http.commands import CommandResult, Commands
from crossline.settings.sources import RulesTopic

TEXT = """\
rule_id: large_payment
version: 2
rule_type: threshold
source_topic: payments
conditions:
  - {field: amount_cents, operator: ">", value: 80000}
"""
INES, ODA = {"X-Who": "ines"}, {"X-Who": "oda"}


def keep_proof(path: Path, text: str = TEXT) -> str:
    """A proof of ``text``, as a job leaves it."""
    rule = hashlib.sha256(text.encode()).hexdigest()
    body = {"rule_id": "large_payment", "text": text, "digests": {"rule": rule, "data": "d" * 64, "result": "e" * 64}}
    ApprovalFile(path).keep_proof(KeptProof(proof_id_of(body), "ines", 5, body))
    return proof_id_of(body)


def test_a_draft_belongs_to_its_author(writing: Client) -> None:
    assert "found no draft of ines" in detail(writing.get("/v1/drafts/large_payment", headers=INES), 404)
    put = writing.put("/v1/drafts/large_payment", json={"text": "rule_id: ["}, headers=INES)
    assert put.json() == {
        "rule_id": "large_payment", "who": "ines", "text": "rule_id: [", "at": "2026-01-05T09:15:00.000Z",
    }  # fmt: skip
    assert writing.get("/v1/drafts/large_payment", headers=INES).json() == put.json()
    assert writing.get("/v1/drafts/large_payment", headers=ODA).status_code == 404
    assert writing.delete("/v1/drafts/large_payment", headers=INES).json()["text"] == "rule_id: ["
    assert writing.get("/v1/drafts/large_payment", headers=INES).status_code == 404


def test_what_is_proven_is_asked_for_and_signed_by_another(writing: Client, folder: Path, tmp_path: Path) -> None:
    wanted = {"text": TEXT}
    assert "no proof of exactly this text" in detail(writing.post("/v1/approvals", json=wanted, headers=INES), 400)
    proof_id = keep_proof(tmp_path / "serve")
    asked = writing.post("/v1/approvals", json=wanted, headers=INES)
    assert (asked.status_code, asked.headers["location"]) == (201, "/v1/approvals/1")
    assert asked.json()["state"] == "waiting"
    (waiting,) = writing.get("/v1/approvals").json()["items"]
    assert (waiting["who"], waiting["version"], waiting["proof_id"]) == ("ines", 2, proof_id)
    assert writing.get("/v1/approvals/1/proof").json()["text"] == TEXT
    assert "waits for approval already" in detail(writing.post("/v1/approvals", json=wanted, headers=INES), 400)
    signed = {"proof_id": proof_id}
    for name in ("ines", "Ines", "lnes"):  # names that look alike are one
        who = {"X-Who": name}
        assert "you wrote it" in detail(writing.post("/v1/approvals/1:approve", json=signed, headers=who), 409)
    wrong = writing.post("/v1/approvals/1:approve", json={"proof_id": "x"}, headers=ODA)
    assert "another proof" in detail(wrong, 422)
    done = writing.post("/v1/approvals/1:approve", json=signed, headers=ODA).json()
    assert (done["state"], done["decided_by"]) == ("published", "oda")
    assert [(each["rule_id"], each["version"], each["change"]) for each in done["rules"]] == [
        ("large_payment", 2, "published")
    ]
    assert (folder / "rules/large_payment.yaml").read_text() == TEXT
    assert "published version 2 already" in detail(
        writing.post("/v1/approvals/1:approve", json=signed, headers={"X-Who": "anna"}), 409
    )
    assert [each["number"] for each in writing.get("/v1/approvals?state=decided").json()["items"]] == [1]
    assert "found no request 9" in detail(writing.get("/v1/approvals/9"), 404)


def test_what_was_signed_and_not_sent_is_sent_by_who_signed(writing: Client, folder: Path, tmp_path: Path) -> None:
    signed = {"proof_id": keep_proof(tmp_path / "serve")}
    writing.post("/v1/approvals", json={"text": TEXT}, headers=INES)
    # As a server that was killed between the two leaves it.
    ApprovalFile(tmp_path / "serve").decide(1, "oda", "", 5, approved=True)
    assert "version: 1" in (folder / "rules/large_payment.yaml").read_text()
    for _ in range(2):
        assert writing.post("/v1/approvals/1:approve", json=signed, headers=ODA).is_success
        assert (folder / "rules/large_payment.yaml").read_text() == TEXT
    assert writing.post("/v1/approvals/1:approve", json=signed, headers=INES).status_code == 409


def test_a_request_is_rejected_with_a_reason(writing: Client, tmp_path: Path) -> None:
    keep_proof(tmp_path / "serve")
    writing.post("/v1/approvals", json={"text": TEXT}, headers=INES)
    assert "/reason" in detail(writing.post("/v1/approvals/1:reject", json={"reason": " "}, headers=ODA), 422)
    done = writing.post("/v1/approvals/1:reject", json={"reason": "too many good ones"}, headers=ODA).json()
    assert (done["state"], done["reason"]) == ("rejected", "too many good ones")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("version: 2", "version: 1"), "expected at least 2, since version 1 is there"),
        ("- " + TEXT.replace("\n", "\n  ") + "\n- rule_id: [\n", "no rule that is right"),
    ],
)
def test_what_may_not_follow_is_not_asked_for(writing: Client, tmp_path: Path, text: str, message: str) -> None:
    keep_proof(tmp_path / "serve", text)
    assert message in detail(writing.post("/v1/approvals", json={"text": text}, headers=INES), 422)


@pytest.mark.parametrize("review", ["none", "proven"])
def test_to_a_topic_it_goes_in_the_names_of_both(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, review: str
) -> None:
    sent: list[tuple[Sequence[str], str]] = []

    async def run(_: Commands, arguments: Sequence[str], wait_s: float, missing: object = None) -> CommandResult:
        del wait_s, missing
        file = Path(arguments[-6 if "--proof" in arguments else 2])
        sent.append((arguments, await asyncio.to_thread(file.read_text)))
        return CommandResult(0, json.dumps({"rule_id": "large_payment"}).encode() + b"\n", "")

    monkeypatch.setattr(Commands, "run", run)
    deps = dependencies(folder, tmp_path / "serve")
    place: dict[str, Any] = {"kind": "kafka", "brokers": "127.0.0.1:1", "topic": "rules", "review": review}
    rules = RulesTopic.model_validate({**place, "path": str(folder / "rules")})
    proof_id = keep_proof(tmp_path / "serve")
    with client_of(replace(deps, config=replace(deps.config, rules=rules))) as client:
        client.post("/v1/approvals", json={"text": TEXT}, headers=INES)
        assert client.post("/v1/approvals/1:approve", json={"proof_id": proof_id}, headers=ODA).is_success
    publish, text = sent[0]
    assert (publish[:2], publish[-2:], text) == (["rules", "publish"], ["ines", "--json"], TEXT)
    approvals = [(each[:5], each[-2:], json.loads(proof)["text"]) for each, proof in sent[1:]]
    of_both = (["rules", "approve", "large_payment", "--version", "2"], ["oda", "--json"], TEXT)
    assert approvals == ([] if review == "none" else [of_both])
