"""The queue, acts, views and suppressions over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.cases.casekit import SETTINGS, START, alert
from tests.unit.serve.http.kit import NOW_MS, Client, Someone, client_of, dependencies, detail, example

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.serve.cases.intake.batches import CaseIntake

ANY = {"If-Match": "*"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """The API over three cases: C-1 with two alerts, C-2 and C-3 with one each."""
    deps = dependencies(example(), tmp_path / "serve")
    intake = CaseIntake(tmp_path / "serve/cases.db", SETTINGS, clock_ms=lambda: NOW_MS)
    lines = [alert("x1"), alert("x2", START + 1), alert("y1", account="a2", severity="high"), alert("z1", account="a3")]
    intake.take([("alerts", json_bytes(each)) for each in lines], None)
    with client_of(deps) as made:
        yield made
    intake.close()


def numbers(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["number"] for each in answer.json()["items"]]


def act(client: Client, case_id: str, **wanted: Any) -> Any:
    who = wanted.pop("who", "mary")
    return client.post(f"/v1/cases/{case_id}:act", json=wanted, headers={**ANY, "x-who": who})


def test_the_queue_is_filtered_and_paged(client: Client) -> None:
    assert numbers(client.get("/v1/cases?sort=newest")) == ["C-1", "C-3", "C-2"]
    assert numbers(client.get("/v1/cases?severity=high")) == ["C-2"]
    assert numbers(client.get("/v1/cases?key.account_id=a3&view=unassigned")) == ["C-3"]
    assert numbers(client.get("/v1/cases?q=burst a1")) == ["C-1"]
    first = client.get("/v1/cases?sort=newest&limit=2").json()
    assert first["total"] == 3
    assert numbers(client.get(f"/v1/cases?sort=newest&limit=2&cursor={first['next_cursor']}")) == ["C-2"]
    assert "another list" in detail(client.get(f"/v1/cases?sort=money&cursor={first['next_cursor']}"), 400)
    assert "did you mean severity?" in detail(client.get("/v1/cases?severty=high"), 422)
    assert "?severity" in detail(client.get("/v1/cases?severity=grave"), 422)
    assert client.get("/v1/cases:counts").json()["views"]["unassigned"] == {"count": 3, "more": False}


def test_acts_ask_for_the_state_that_was_looked_at(client: Client) -> None:
    etag = client.get("/v1/cases/C-1").headers["etag"]
    assert "found no If-Match" in detail(client.post("/v1/cases/C-1:act", json={"act": "assign"}), 428)
    taken = client.post("/v1/cases/C-1:act", json={"act": "assign"}, headers={"If-Match": etag})
    assert (taken.json()["status"], taken.json()["assignee"]) == ("acknowledged", "mary")
    assert taken.headers["etag"] == client.get("/v1/cases/C-1").headers["etag"]
    stale = client.post("/v1/cases/C-1:act", json={"act": "unassign"}, headers={"If-Match": etag})
    assert "was changed meanwhile" in detail(stale, 412)
    assert client.post("/v1/cases/C-1:act", json={"act": "note", "text": "seen"}).json()["notes"][0]["text"] == "seen"
    assert "found no case" in detail(act(client, "C-77", act="assign"), 404)
    assert "/act" in detail(act(client, "C-1", act="fly"), 422)
    assert "/until" in detail(act(client, "C-1", act="snooze", until="2020-01-01T00:00:00Z"), 422)
    assert act(client, "C-1", act="snooze", until="2026-01-06T00:00:00Z").json()["status"] == "snoozed"
    assert act(client, "C-1", act="undo").json()["status"] == "acknowledged"


def test_a_label_needs_its_scope(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "write:labels" in detail(act(client, "C-1", act="resolve", label="fraud"), 403)
    assert "write:labels" in detail(
        client.post("/v1/cases:bulk", json={"case_ids": ["C-1"], "act": {"act": "resolve", "label": "fraud"}}), 403
    )
    monkeypatch.setattr("tests.unit.serve.http.kit.Someone", lambda name: Someone(name, frozenset({"write:labels"})))
    assert act(client, "C-1", act="resolve", label="fraud").json()["label"] == "fraud"
    assert client.get("/v1/labels/payments/r-x2").json()["is_fraud"] is True


def test_merged_cases_answer_with_where_they_went(client: Client) -> None:
    merged = act(client, "C-1", act="merge", case_ids=["C-2"]).json()
    assert (merged["merged"], merged["alert_count"], merged["severity"]) == (["C-2"], 3, "high")
    assert client.get("/v1/cases/C-2").json()["merged_into"] == "C-1"
    parted = act(client, "C-1", act="detach", alert_id="y1").json()
    assert parted["alert_ids"] == ["x1", "x2"]
    assert numbers(client.get("/v1/cases/C-1/linked")) == []
    act(client, "C-3", act="resolve")
    assert numbers(client.get("/v1/cases/C-1/similar")) == ["C-3"]
    assert detail(client.get("/v1/cases/C-99/similar"), 404)


def test_many_at_once(client: Client) -> None:
    wanted: dict[str, Any] = {"filter": {"view": "open"}, "act": {"act": "assign"}, "expected_count": 2}
    assert "/expected_count: found 2; expected 3" in detail(client.post("/v1/cases:bulk", json=wanted), 422)
    done = client.post("/v1/cases:bulk", json={**wanted, "expected_count": 3}).json()
    assert (done["count"], done["refused"]) == (3, [])
    assert numbers(client.get("/v1/cases?view=mine")) == ["C-3", "C-2", "C-1"]
    for both in ({}, {"case_ids": ["C-1"], "filter": {}}):
        assert "one of them" in detail(client.post("/v1/cases:bulk", json={"act": {"act": "assign"}, **both}), 422)


def test_views_are_saved_by_each_person(client: Client) -> None:
    query = {"view": "open", "severity": "high", "from": "2026-01-01T00:00:00Z"}
    made = client.put("/v1/views/grave", json={"query": query, "default": True})
    assert (made.status_code, made.json()) == (201, {"name": "grave", "query": query, "default": True})
    assert client.get("/v1/cases:counts").json()["saved"] == {"grave": {"count": 1, "more": False}}
    (view,) = client.get("/v1/views").json()["items"]
    assert client.get("/v1/views", headers={"x-who": "tom"}).json()["items"] == []
    assert "found no If-Match" in detail(client.put("/v1/views/grave", json={"query": {}}), 428)
    assert client.put("/v1/views/grave", json={"query": {}}, headers={"If-Match": view["etag"]}).status_code == 200
    assert client.delete("/v1/views/grave", headers=ANY).status_code == 204
    assert "found no view" in detail(client.delete("/v1/views/grave", headers=ANY), 404)
    assert "/query/severity" in detail(client.put("/v1/views/x", json={"query": {"severity": "x"}}), 422)


def test_suppressions_are_made_listed_and_ended(client: Client) -> None:
    body = {"rules": ["burst"], "until": "2026-01-06T00:00:00Z", "reason": "a load test"}
    made = client.post(
        "/v1/suppressions", json={**body, "conditions": [{"field": "value", "operator": ">", "value": 5}]}
    )
    assert (made.status_code, made.headers["location"]) == (201, "/v1/suppressions/1")
    assert made.json()["in_force"] is True
    client.post("/v1/suppressions", json=body)
    first = client.get("/v1/suppressions?limit=1").json()
    assert [each["suppression_id"] for each in first["items"]] == [2]
    second = client.get(f"/v1/suppressions?limit=1&cursor={first['next_cursor']}").json()
    assert ([each["suppression_id"] for each in second["items"]], second["next_cursor"]) == ([1], None)
    assert "found no If-Match" in detail(client.delete("/v1/suppressions/1"), 428)
    ended = client.delete("/v1/suppressions/1", headers={"If-Match": made.headers["etag"]})
    assert (ended.status_code, ended.json()["in_force"], ended.json()["ended_by"]) == (200, False, "mary")
    assert detail(client.delete("/v1/suppressions/1", headers=ANY), 422)
    assert detail(client.get("/v1/suppressions/9"), 404)
    assert "/until" in detail(client.post("/v1/suppressions", json={**body, "until": "2025-01-01T00:00:00Z"}), 422)
