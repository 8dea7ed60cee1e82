"""``/v1/holds``: what is held by the alert of the example, until somebody releases it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.serve.http.kit import NOW_MS, Client, detail

from crossline.rulelog.content import read_pipeline_in_place
from crossline.rulelog.directory import DirectoryRuleLog


def pipeline_takes_up(folder: Path, now_ms: int) -> None:
    config = read_pipeline_in_place(folder / "pipeline.yaml")
    log = DirectoryRuleLog(config.rules.path, config.name, config.streams, lambda: ["accounts", "cards"])
    log.start(now_ms)
    log.take_up(log.poll(), {}, now_ms)
    log.close()


def test_what_is_held_is_released(writing: Client, folder: Path) -> None:
    (alert,) = writing.get("/v1/alerts?rule_id=card_testing").json()["items"]
    (held,) = writing.get("/v1/holds").json()["items"]
    assert (held["rule_id"], held["key"], held["since"]) == ("card_testing", alert["key"], alert["event_time"])
    assert writing.get("/v1/holds?at=2026-01-05T09:39:59Z").json()["items"] == [held], "30 minutes from the alert on"
    assert writing.get("/v1/holds?at=2026-01-05T09:45:00Z").json()["items"] == []
    assert writing.get("/v1/holds?key.account_id=a99").json()["items"] == []
    at = f"/v1/holds/{held['hold_id']}"
    etag = writing.get(at).headers["etag"]
    assert etag == held["etag"]
    assert "found no If-Match" in detail(writing.request("DELETE", at, json={"reason": "x"}), 428)
    wrong = writing.request("DELETE", at, json={"reason": "x"}, headers={"If-Match": '"x"'})
    assert "was changed meanwhile" in detail(wrong, 412)
    assert "no reason" in detail(writing.request("DELETE", at, json={"reason": "  "}, headers={"If-Match": etag}), 422)
    done = writing.request("DELETE", at, json={"reason": "the customer called"}, headers={"If-Match": etag})
    assert (done.status_code, done.json()["who"]) == (200, "mary")
    assert done.json()["released"] == alert["key"]
    pipeline_takes_up(folder, NOW_MS + 1_000)
    assert writing.get("/v1/holds").json()["items"] == []
    assert "it may have ended, or been released" in detail(writing.get(at), 404)
    events = writing.get("/v1/rules/card_testing/versions").json()["events"]
    (released,) = [each for each in events if each["event"] == "released"]
    assert (released["key"], released["text"]) == (alert["key"], "the customer called (asked for by mary)")


def test_nobody_places_a_hold_by_hand(writing: Client) -> None:
    said = detail(writing.post("/v1/holds", json={"key": {"account_id": "a1"}, "action": "block"}), 405)
    assert "a hold is placed by an alert of a rule" in said
    for wrong in ("x", "card_testing.0", "../x", "{{7*7}}", "' OR 1=1 --"):
        answer = writing.request("DELETE", f"/v1/holds/{wrong}", json={"reason": "x"}, headers={"If-Match": "*"})
        assert answer.status_code == 404
