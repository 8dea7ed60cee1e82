"""``/v1/rules:…``: what the command line says and does, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.serve.http.kit import Client, detail

RULE = """\
rule_id: huge
version: 1
rule_type: threshold
source_topic: payments
conditions:
  - {field: amount_cents, operator: ">", value: 1000000}
"""


def test_a_file_is_checked_and_reported_what_is_wrong(writing: Client) -> None:
    assert writing.post("/v1/rules:check", json={"text": RULE}).json() == {
        "ok": True,
        "rules": [{"rule_id": "huge", "version": 1}],
        "problems": [],
        "warnings": [],
    }
    reported = writing.post(
        "/v1/rules:check", json={"text": f"- {RULE.replace(chr(10), chr(10) + '  ')}".replace("amount_cents", "amount")}
    )
    (problem,) = reported.json()["problems"]
    assert not reported.json()["ok"]
    assert (problem["pointer"], problem["hint"]) == ("/0/conditions/0/field", "did you mean amount_cents?")
    assert not writing.post("/v1/rules:check", json={"text": ""}).json()["ok"]
    for text in ("&a [*a]", "[" * 2000, "!!python/object/apply:os.system [id]", "a: b: c"):
        answer = writing.post("/v1/rules:check", json={"text": text}).json()
        assert answer["problems"]


def test_a_rule_is_published_and_its_status_set(writing: Client, folder: Path) -> None:
    done = writing.post("/v1/rules:publish", json={"name": "huge.yaml", "text": RULE})
    assert done.status_code == 200, done.text
    (row,) = done.json()["items"]
    assert (row["rule_id"], row["change"], row["file"]) == ("huge", "published", "huge.yaml")
    assert (folder / "rules/huge.yaml").read_text() == RULE
    at = writing.get("/v1/rules/huge")
    asked = {"status": "shadow"}
    assert "found no If-Match" in detail(writing.post("/v1/rules/huge:set-status", json=asked), 428)
    match = {"If-Match": at.headers["etag"]}
    done = writing.post("/v1/rules/huge:set-status", json=asked, headers=match)
    assert (done.status_code, done.json()["status"]) == (200, "shadow")
    assert "status: shadow" in (folder / "rules/huge.yaml").read_text()
    assert "was changed meanwhile" in detail(writing.post("/v1/rules/huge:set-status", json=asked, headers=match), 412)
    illegal = writing.post("/v1/rules/huge:set-status", json={"status": "paused"}, headers={"If-Match": "*"})
    assert detail(illegal, 409) == "rule huge is shadow and cannot become paused; expected one of active, retired"
    assert "found no rule" in detail(writing.post("/v1/rules/none:set-status", json=asked, headers=match), 404)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"name": "x.yaml", "text": RULE.replace("amount_cents", "amount")}, 422, "did you mean amount_cents?"),
        ({"name": "card_testing.yaml", "text": RULE.replace("huge", "card_testing")}, 422, "card_testing"),
        ({"name": "../x.yaml", "text": RULE}, 422, "letters, digits"),
        ({"name": ".x.yaml", "text": RULE}, 422, "letters, digits"),
        ({"name": "x.txt", "text": RULE}, 422, "letters, digits"),
        ({"name": "-x.yaml", "text": RULE}, 422, "letters, digits"),
        ({"name": "x.yaml\n", "text": RULE}, 422, "letters, digits"),
        ({"text": RULE}, 422, "/name: found nothing"),
        ({"name": "x.yaml", "text": 7}, 422, "/text"),
        ({"name": "x.yaml", "text": "x" * 2_000_000}, 422, "expected a smaller rule"),
    ],
)
def test_what_is_not_published(writing: Client, folder: Path, body: object, status: int, text: str) -> None:
    before = {each.name: each.read_bytes() for each in (folder / "rules").glob("*.yaml")}
    answer = writing.post("/v1/rules:publish", json=body)
    assert text in detail(answer, status)
    assert str(folder) not in answer.text
    assert {each.name: each.read_bytes() for each in (folder / "rules").glob("*.yaml")} == before


def test_errors_of_a_refused_file_have_pointers(writing: Client) -> None:
    text = RULE.replace("amount_cents", "amount")
    (error,) = writing.post("/v1/rules:publish", json={"name": "x.yaml", "text": text}).json()["errors"]
    assert (error["pointer"], error["hint"]) == ("/conditions/0/field", "did you mean amount_cents?")


def test_without_a_review_there_is_no_approval(writing: Client) -> None:
    writing.post("/v1/rules:publish", json={"name": "huge.yaml", "text": RULE})
    wanted = {"rule_id": "huge", "version": 1}
    assert "found no If-Match" in detail(writing.post("/v1/rules:approve", json=wanted), 428)
    found = detail(writing.post("/v1/rules:approve", json=wanted, headers={"If-Match": "*"}), 409)
    assert "the rules have no review" in found
    missing = writing.post("/v1/rules:approve", json={"rule_id": "huge", "version": 9}, headers={"If-Match": "*"})
    assert "found no version 9 of rule huge" in detail(missing, 404)
