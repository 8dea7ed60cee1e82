"""``/v1/holds``: the keys held by the alert of the example, until a release."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.http.kit import NOW_MS, Client, detail, served

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import DirectoryRuleLog


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


HOLD = {"key": {"account_id": "a1"}, "action": "block", "until": "2026-01-06T00:00:00Z", "reason": "looked at"}


def test_a_hold_placed_by_a_person_stands_until_it_is_released(writing: Client, folder: Path) -> None:
    """As the pipeline loads it: asked for, held, seen at its entity, released; all of it in the rule log."""
    done = writing.post("/v1/holds", json=HOLD)
    hold_id = done.json()["hold_id"]
    assert (done.status_code, done.headers["location"]) == (202, f"/v1/holds/{hold_id}")
    assert (done.json()["change"], done.json()["who"], done.json()["until"]) == (
        "held",
        "mary",
        "2026-01-06T00:00:00.000Z",
    )
    at = f"/v1/holds/{hold_id}"
    assert writing.get(at).status_code == 404, "no pipeline has taken it up"
    pipeline_takes_up(folder, NOW_MS + 1_000)
    held = writing.get(at).json()
    me = getpass.getuser()
    wanted = {
        "hold_id": hold_id,
        "rule_id": None,
        "rule_version": None,
        "key": {"account_id": "a1"},
        "action": "block",
        "score": 0,
        "since": "2026-01-05T09:15:01.000Z",
        "until": "2026-01-06T00:00:00.000Z",
        "alert_id": None,
        "message": f"held by {me} until 2026-01-06T00:00:00.000Z",
        "placed_by": me,
        "reason": "looked at (asked for by mary)",
        "streams": ["payments"],
    }
    assert {name: held[name] for name in wanted} == wanted
    assert writing.get("/v1/entities/account_id/a1").json()["holds"][-1] == wanted
    assert writing.get("/v1/holds?key.account_id=a1").json()["items"][-1] == held
    assert [each["hold_id"] for each in writing.get("/v1/holds?at=2026-01-06T00:00:00Z").json()["items"]] == []
    assert hold_id not in {each["hold_id"] for each in writing.get("/v1/holds?at=2026-01-05T09:15:00Z").json()["items"]}
    gone = writing.request("DELETE", at, json={"reason": "it was him"}, headers={"If-Match": held["etag"]})
    assert (gone.status_code, gone.json()["released"], gone.json()["who"]) == (200, {"account_id": "a1"}, "mary")
    pipeline_takes_up(folder, NOW_MS + 2_000)
    assert writing.get(at).status_code == 404
    assert hold_id not in {each["hold_id"] for each in writing.get("/v1/holds").json()["items"]}


def test_the_same_key_is_the_same_hold(folder: Path, tmp_path: Path) -> None:
    """Also through another server, which does not know what the first one answered."""
    one = {"Idempotency-Key": "one"}
    with served(folder, tmp_path / "first") as first:
        given = first.post("/v1/holds", json=HOLD, headers=one).json()
    with served(folder, tmp_path / "second") as second:
        other = second.post("/v1/holds", json={**HOLD, "action": "review"}, headers=one)
        assert "asks for something else; expected an id of its own" in detail(other, 409)
        again = second.post("/v1/holds", json=HOLD, headers={"Idempotency-Key": "two"}).json()
        assert again["hold_id"] != given["hold_id"]
    with served(folder, tmp_path / "third") as third:
        same = third.post("/v1/holds", json=HOLD, headers=one).json()
    assert (same["hold_id"], same["change"], given["change"]) == (given["hold_id"], "unchanged", "held")
    assert len(list((folder / "rules/.holds").iterdir())) == 2


def test_a_hold_of_a_rule_has_its_action(writing: Client, folder: Path) -> None:
    (alert,) = writing.get("/v1/alerts?rule_id=card_testing").json()["items"]
    asked = {**HOLD, "rule_id": "card_testing", "key": alert["key"], "action": None}
    hold_id = writing.post("/v1/holds", json=asked).json()["hold_id"]
    pipeline_takes_up(folder, NOW_MS + 1_000)
    held = writing.get(f"/v1/holds/{hold_id}").json()
    assert (held["rule_id"], held["action"], held["score"]) == ("card_testing", alert["action"], alert["score"])


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("past", {"until": "2026-01-05T09:15:00Z"}, "expected an instant to come"),
    ("long", {"until": "2027-02-01T00:00:00Z"}, "expected at most 366 d from when it is asked"),
    ("no_instant", {"until": "tomorrow"}, "an instant such as 2026-01-01T00:00:00Z"),
    ("action", {"action": "allow"}, "/action"),
    ("no_action", {"action": None}, "expected one of review, step_up, block"),
    ("reason", {"reason": "  "}, "found no reason"),
    ("field", {"key": {"nope": "x"}}, "found field nope; expected a field of the stream"),
    ("no_key", {"key": {}}, "/key"),
    ("stream", {"stream": "nope"}, "found stream nope; expected one of payments"),
    ("rule", {"rule_id": "nope", "action": None}, "found rule nope, which is not loaded"),
    ("more", {"score": 7}, "/score"),
    ("list", {"key": {"account_id": ["a1"]}}, "/key/account_id"),
]


@pytest.mark.parametrize(("body", "text"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_what_is_no_hold_is_refused_and_says_why(
    writing: Client, folder: Path, body: dict[str, Any], text: str
) -> None:
    assert text in detail(writing.post("/v1/holds", json={**HOLD, **body}), 422)
    assert not (folder / "rules/.holds").exists()


def test_no_other_id_is_a_hold(writing: Client) -> None:
    for wrong in ("x", "card_testing.0", "../x", "{{7*7}}", "' OR 1=1 --", "0" * 32):
        answer = writing.request("DELETE", f"/v1/holds/{wrong}", json={"reason": "x"}, headers={"If-Match": "*"})
        assert answer.status_code == 404
