"""``/v1/decisions`` and ``/v1/entities``: the ledger's answers, then the store's; a revision beside its decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.serve.http.kit import Client, FakeLedger, detail, example, served

from crossline.basics.errors import RetryableError
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.replica.entity import KeyFigures


def decided(folder: Path | None = None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ((folder or example()) / "decisions.jsonl").read_text().splitlines()]


def test_a_decision_of_the_stream_is_found_by_id_and_by_record(reading: Client) -> None:
    blocked = next(each for each in decided() if each["decision"] == "block")
    assert reading.get(f"/v1/decisions/{blocked['decision_id']}").json() == {**blocked, "revisions": []}
    page = reading.get("/v1/decisions", params={"record_id": blocked["record_id"], "stream": "payments"}).json()
    assert page == {"items": [{**blocked, "revisions": []}], "next_cursor": None}
    assert reading.get(f"/v1/decisions?record_id={blocked['record_id']}&stream=other").json()["items"] == []
    assert "found no decision" in detail(reading.get("/v1/decisions/00000000"), 404)
    assert "?record_id: found nothing" in detail(reading.get("/v1/decisions"), 422)
    assert "has no ledger" in detail(reading.get(f"/v1/decisions/{blocked['decision_id']}/receipt"), 409)


def test_a_revision_stands_beside_what_it_revises(folder: Path, tmp_path: Path) -> None:
    first = decided(folder)[0]
    later = {**first, "decision_id": "0" * 36, "kind": "revision", "revision": 1, "decision": "review"}
    sink = SqliteSink(folder / "out/crossline.db", "payments")
    sink.open()
    sink.deliver(Delivery("payments", 1, decisions=[{**later, "revises": first["decision_id"], "because": "x"}]))
    sink.close()
    with served(folder, tmp_path / "serve") as client:
        body = client.get(f"/v1/decisions/{first['decision_id']}").json()
        assert [(each["decision"], each["revises"]) for each in body["revisions"]] == [("review", first["decision_id"])]
        (listed,) = client.get(f"/v1/decisions?record_id={first['record_id']}").json()["items"]
        assert listed == body


def answer(number: int, record_id: str = "t1") -> dict[str, Any]:
    named = {"decision_id": f"d{number:03}", "record_id": record_id, "stream": "payments"}
    return {**named, "decision": "allow", "answered": "peek", "policy_version": 1}


def test_what_was_answered_goes_before_what_the_store_has(tmp_path: Path) -> None:
    first = decided()[0]
    ledger = FakeLedger({first["decision_id"]: {**first, "answered": "fallback"}})
    ledger.revised[first["decision_id"]] = [{"decision": "block"}]
    ledger.receipts[first["decision_id"]] = {"digest": "abc"}
    with served(example(), tmp_path / "serve", decisions=ledger) as client:
        body = client.get(f"/v1/decisions/{first['decision_id']}").json()
        assert (body["answered"], body["revisions"]) == ("fallback", [{"decision": "block"}])
        (listed,) = client.get(f"/v1/decisions?record_id={first['record_id']}").json()["items"]
        assert listed == body
        assert client.get(f"/v1/decisions/{first['decision_id']}/receipt").json() == {"digest": "abc"}
        assert "a dry run has none" in detail(client.get(f"/v1/decisions/{decided()[1]['decision_id']}/receipt"), 404)
        other = decided()[1]
        assert client.get(f"/v1/decisions/{other['decision_id']}").json()["answered"] == "exact", "of the store alone"


def test_pages_of_decisions(tmp_path: Path) -> None:
    ledger = FakeLedger({f"d{n:03}": answer(n) for n in range(5)})
    seen, cursor = list[str](), ""
    with served(example(), tmp_path / "serve", decisions=ledger) as client:
        while cursor is not None:
            page = client.get(f"/v1/decisions?record_id=t1&limit=2{cursor and f'&cursor={cursor}'}").json()
            seen += [each["decision_id"] for each in page["items"]]
            cursor = page["next_cursor"]
    assert seen == ["d000", "d001", "d002", "d003", "d004"]


class Figures:
    """A replica."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def figures(self, field: str, value: str) -> KeyFigures:
        if self.error is not None:
            raise self.error
        return KeyFigures([{"name": "count", "field": field, "of": value, "value": 3}], [{"rule_id": "r", "why": "so"}])


def test_an_entity_is_all_that_is_known_of_it(reading: Client, tmp_path: Path) -> None:
    (alert,) = reading.get("/v1/alerts?rule_id=card_testing").json()["items"]
    account = alert["key"]["account_id"]
    body = reading.get(f"/v1/entities/account_id/{account}").json()
    assert alert["alert_id"] in [each["alert_id"] for each in body["alerts"]]
    assert all(each["key"]["account_id"] == account for each in body["alerts"])
    assert [each["decision_id"] for each in body["decisions"]] == [
        each["decision_id"] for each in decided() if each["record_id"] in {a["record_id"] for a in body["alerts"]}
    ]
    assert [(each["rule_id"], each["alert_id"]) for each in body["holds"]] == [("card_testing", alert["alert_id"])]
    assert body["figures_as_of"] == "alerts"
    assert (alert["rule_id"], alert["value"]) in [(each["rule_id"], each["value"]) for each in body["figures"]]
    with served(example(), tmp_path / "other", figures=Figures()) as client:
        body = client.get("/v1/entities/account_id/a/b").json()
        assert (body["figures_as_of"], body["figures"][0]["of"]) == ("replica", "a/b")
        assert body["missing"] == [{"rule_id": "r", "why": "so"}]
    with served(example(), tmp_path / "third", figures=Figures(RetryableError("no replica answers"))) as client:
        body = client.get(f"/v1/entities/account_id/{account}").json()
        assert (body["figures_as_of"], body["figures_missing"]) == ("alerts", "no replica answers")


def test_lists_that_the_value_stands_in_now(reading: Client) -> None:
    def lists(value: str) -> list[Any]:
        return list(reading.get(f"/v1/entities/account_id/{value}").json()["lists"])

    assert lists("a1") == [{"list": "accounts", "value": "a1", "until": None}]
    assert lists("7") == [{"list": "accounts", "value": 7, "until": None}]
    assert lists("a9") == [], "it has ended"
    assert lists("'; DROP TABLE alerts; --") == []
