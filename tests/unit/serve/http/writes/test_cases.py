"""Labels and cases, over their store."""

from __future__ import annotations

from pathlib import Path

from tests.unit.serve.http.kit import Client, detail, example, served

from crossline.serve.app.store_reads import StoredCases
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.service import CaseService
from crossline.serve.http.writes.casework import VersionConflictError


def test_a_label_is_put_and_changed(reading: Client) -> None:
    at = "/v1/labels/payments/p0001"
    assert "found no label" in detail(reading.get(at), 404)
    made = reading.put(at, json={"is_fraud": True, "reason": "chargeback"})
    assert made.status_code == 201
    assert made.json() == {
        "is_fraud": True,
        "known_at": "2026-01-05T09:15:00.000Z",
        "reason": "chargeback",
        "stream": "payments",
        "record_id": "p0001",
        "who": "mary",
        "by": "mary",
        "at": "2026-01-05T09:15:00.000Z",
        "case_id": None,
        "version": 1,
    }
    assert reading.get(at).headers["etag"] == made.headers["etag"]
    assert "found no If-Match" in detail(reading.put(at, json={"is_fraud": False}), 428)
    known = {"is_fraud": False, "known_at": "2026-01-04T00:00:00Z"}
    changed = reading.put(at, json=known, headers={"If-Match": made.headers["etag"], "x-who": "tom"})
    assert (changed.status_code, changed.json()["who"], changed.json()["version"]) == (200, "tom", 2)
    stale = reading.put(at, json=known, headers={"If-Match": made.headers["etag"]})
    assert "was changed meanwhile" in detail(stale, 412)
    assert "did you mean payments?" in detail(reading.put("/v1/labels/payment/p1", json={"is_fraud": True}), 404)
    assert "/is_fraud" in detail(reading.put(at, json={"is_fraud": "yes"}, headers={"If-Match": "*"}), 422)
    hostile = "/v1/labels/payments/'; DROP TABLE labels; --%2F..%2F{{7*7}}"
    assert reading.put(hostile, json={"is_fraud": True}).json()["record_id"] == "'; DROP TABLE labels; --/../{{7*7}}"


def test_a_case_is_opened_changed_and_noted(reading: Client) -> None:
    made = reading.post("/v1/cases", json={"title": "Card testing", "key": {"account_id": "a1"}, "alert_ids": ["11aa"]})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/cases/C-1")
    at = made.headers["location"]
    etag = reading.get(at).headers["etag"]
    assert "found no If-Match" in detail(reading.patch(at, json={"status": "resolved"}), 428)
    taken = reading.patch(at, json={"assignee": "mary", "status": "acknowledged"}, headers={"If-Match": etag})
    assert (taken.json()["assignee"], taken.json()["title"], taken.json()["version"]) == ("mary", "Card testing", 2)
    assert "was changed meanwhile" in detail(
        reading.patch(at, json={"status": "resolved"}, headers={"If-Match": etag}), 412
    )
    left = reading.patch(at, json={"assignee": None}, headers={"If-Match": taken.headers["etag"]})
    assert left.json()["assignee"] is None
    assert reading.patch(at, json={}, headers={"If-Match": "*"}).json()["version"] == 3, "nothing changes"
    noted = reading.post(f"{at}/notes", json={"text": "<script>called</script>"})
    assert (noted.status_code, noted.json()["notes"]) == (
        201,
        [{"at": "2026-01-05T09:15:00.000Z", "by": "mary", "text": "<script>called</script>"}],
    )
    assert "/title" in detail(reading.patch(at, json={"title": None}, headers={"If-Match": "*"}), 422)
    assert "/state" in detail(reading.patch(at, json={"state": "x"}, headers={"If-Match": "*"}), 422)
    assert "found no case" in detail(reading.get("/v1/cases/none"), 404)


def test_cases_are_listed_page_by_page(reading: Client) -> None:
    for number in range(5):
        made = reading.post("/v1/cases", json={"title": f"case {number}"})
        if number % 2:
            reading.patch(made.headers["location"], json={"status": "resolved"}, headers={"If-Match": "*"})
    first = reading.get("/v1/cases?status=open&limit=2").json()
    second = reading.get(f"/v1/cases?status=open&limit=2&cursor={first['next_cursor']}").json()
    assert [each["title"] for each in first["items"] + second["items"]] == ["case 4", "case 2", "case 0"]
    assert second["next_cursor"] is None
    assert "another list" in detail(reading.get(f"/v1/cases?limit=2&cursor={first['next_cursor']}"), 400)


def test_the_first_write_is_not_overwritten(tmp_path: Path) -> None:
    class Racing(StoredCases):
        def change_case(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise VersionConflictError(7)

    desk = CaseService(Cases(tmp_path / "cases.db"))
    with served(example(), tmp_path / "serve", cases=Racing(desk), desk=desk) as client:
        made = client.post("/v1/cases", json={"title": "x"})
        answer = client.patch(made.headers["location"], json={"title": "y"}, headers={"If-Match": made.headers["etag"]})
        assert "is version 7: look at it again" in detail(answer, 412)


def test_without_a_store_of_cases_it_is_stated(tmp_path: Path) -> None:
    with served(example(), tmp_path / "serve", cases=None, desk=None) as client:
        assert "has no store of cases" in detail(client.get("/v1/cases"), 409)


def test_who_asks_is_known(reading: Client) -> None:
    answer = reading.post("/v1/cases", json={"title": "x"}, headers={"x-who": "nobody"})
    assert "found no credential" in detail(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
