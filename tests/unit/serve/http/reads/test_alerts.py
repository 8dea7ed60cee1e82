"""``/v1/alerts`` over the store of a run: the example has one alert of each of its three rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.alertkit import alert
from tests.unit.serve.http.kit import Client, detail, example, served

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink


def rules(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"/v1/alerts{query}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["next_cursor"] is None
    return [each["rule_id"] for each in answer.json()["items"]]


def test_alerts_are_those_that_the_run_gave(reading: Client) -> None:
    reported = reading.get("/v1/alerts").json()["items"]
    given = [json.loads(line) for line in (example() / "alerts.jsonl").read_text().splitlines()]
    assert sorted(each["alert_id"] for each in reported) == sorted(each["alert_id"] for each in given)
    assert [each["event_time"] for each in reported] == sorted((each["event_time"] for each in given), reverse=True)
    assert {each["status"] for each in reported} == {"standing"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?rule_id=large_payment", {"large_payment"}),
        ("?rule_id=none", set()),
        ("?severity=high", {"card_testing"}),
        ("?kind=shadow", {"spending"}),
        ("?status=retracted", set()),
        ("?from=2027-01-01T00:00:00Z", set()),
        ("?to=2026-01-01T00:00:00Z", set()),
        ("?from=2026-01-05T09:00:00Z&to=1767700000000", {"card_testing", "large_payment", "spending"}),
        ("?q=SMALL+CARD", {"card_testing"}),
        ("?q='; DROP TABLE alerts; --", set()),
        ("?key.account_id=nobody' OR '1'='1", set()),
    ],
)
def test_filters(reading: Client, query: str, found: set[str]) -> None:
    assert set(rules(reading, query)) == found


def test_a_key_of_the_alert_is_a_filter(reading: Client) -> None:
    for each in reading.get("/v1/alerts").json()["items"]:
        query = "&".join(f"key.{name}={value}" for name, value in each["key"].items())
        if query:
            assert each["rule_id"] in rules(reading, f"?{query}")


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("?rule=x", 422, 'found the parameter "rule"; expected one of cursor, from'),
        ("?severty=high", 422, "did you mean severity?"),
        ("?severity=grave", 422, "?severity: found"),
        ("?limit=0", 422, "?limit"),
        ("?limit=501", 422, "?limit"),
        ("?limit=1&limit=2", 422, "several times"),
        ("?from=yesterday", 422, 'found "yesterday"'),
        ("?from=99999999999999999", 422, "?from"),
        ("?cursor=zzz", 400, "no cursor of this API"),
        ("?cursor=WzFd", 400, "no cursor of this API"),
        ("?key.=a", 422, "found no field"),
        ("?key.a=1&key.a=2", 422, "expected one value"),
        ("?q=%00", 422, "without a NUL"),
        (f"?q={'x' * 201}", 422, "?q"),
        (f"?q={'x' * 5000}", 414, "too long"),
    ],
)
def test_what_is_wrong_with_a_query_is_reported(reading: Client, query: str, status: int, text: str) -> None:
    assert text in detail(reading.get(f"/v1/alerts{query}"), status)


def deliver(folder: Path, batch: int, *alerts: dict[str, object]) -> None:
    sink = SqliteSink(folder / "out/crossline.db", "payments")
    sink.open()
    sink.deliver(Delivery("payments", batch, alerts=alerts))
    sink.close()


def numbered(number: int, **changes: object) -> dict[str, object]:
    return alert(f"{number:08x}-0000-5000-8000-000000000000", rule_id="burst", **changes)


def test_pages_hold_while_alerts_come(folder: Path, tmp_path: Path) -> None:
    """Twelve alerts at three instants, in pages of five; between the pages earlier and later ones come."""
    first = [numbered(n, event_time=f"2026-02-01T00:00:0{n % 3}.000Z") for n in range(12)]
    deliver(folder, 1, *first)
    expected = [each["alert_id"] for each in sorted(first, key=lambda each: each["event_time"], reverse=True)]
    seen, cursor, batch = list[str](), "", 2
    with served(folder, tmp_path / "serve") as client:
        while cursor is not None:
            answer = client.get(f"/v1/alerts?rule_id=burst&limit=5{cursor and f'&cursor={cursor}'}").json()
            seen += [each["alert_id"] for each in answer["items"]]
            cursor = answer["next_cursor"]
            deliver(folder, batch, numbered(100 + batch, event_time="2026-02-01T00:00:09.000Z"))
            batch += 1
    assert len(seen) == len(set(seen)) == 12
    times = {each["alert_id"]: each["event_time"] for each in first}
    assert [times[each] for each in seen] == [times[each] for each in expected]


def test_a_cursor_is_of_its_filters(folder: Path, tmp_path: Path) -> None:
    with served(folder, tmp_path / "serve") as client:
        cursor = client.get("/v1/alerts?limit=1").json()["next_cursor"]
        assert "another list" in detail(client.get(f"/v1/alerts?limit=1&severity=high&cursor={cursor}"), 400)


def test_corrections_say_what_became_of_an_alert(folder: Path, tmp_path: Path) -> None:
    first, other = numbered(1), numbered(2)
    more = {"kind": "correction", "corrects": first["alert_id"], "caused_by": "t9"}
    deliver(folder, 1, first, other, numbered(3, outcome="amended", value_before=10, **more))
    deliver(folder, 2, numbered(4, outcome="retracted", value_before=10, **more))
    with served(folder, tmp_path / "serve") as client:
        body = client.get(f"/v1/alerts/{first['alert_id']}").json()
        assert (body["status"], [each["outcome"] for each in body["corrections"]]) == (
            "retracted",
            ["amended", "retracted"],
        )
        found = client.get("/v1/alerts?rule_id=burst&kind=alert&status=retracted").json()["items"]
        assert [each["alert_id"] for each in found] == [first["alert_id"]]


def test_one_alert_by_the_start_of_its_id(reading: Client) -> None:
    for each in reading.get("/v1/alerts").json()["items"]:
        body = reading.get(f"/v1/alerts/{each['alert_id'][:8].upper()}").json()
        assert body["alert_id"] == each["alert_id"]
        assert body["corrections"] == []
    for wrong in ("ffffffff", "x", "...", "1' OR '1'='1", "%0A%1B[2J", "{{7*7}}", "a" * 2000, "-h", "--help"):
        assert "found no alert" in detail(reading.get(f"/v1/alerts/{wrong}"), 404)
    assert "found a NUL" in detail(reading.get("/v1/alerts/%00"), 400)


def test_several_alerts_with_one_start_are_reported(folder: Path, tmp_path: Path) -> None:
    deliver(folder, 1, numbered(0xAB), numbered(0xAC))
    with served(folder, tmp_path / "serve") as client:
        assert "with which several alerts start" in detail(client.get("/v1/alerts/000000a"), 409)


def test_the_records_of_an_alert_are_read_from_their_source(reading: Client) -> None:
    """As ``crossline alerts show --json`` reads them: those that the evidence names, in its order."""
    (each,) = reading.get("/v1/alerts?rule_id=card_testing").json()["items"]
    body = reading.get(f"/v1/alerts/{each['alert_id']}/records").json()
    assert [record["record_id"] for record in body["records"]] == each["evidence"]["record_ids"]
    assert {record["fields"]["account_id"] for record in body["records"]} == {each["key"]["account_id"]}
    assert body["records_missing"] == []
    assert "found no alert ffffffff" in detail(reading.get("/v1/alerts/ffffffff/records"), 404)


def test_without_a_store_it_is_stated(folder: Path, tmp_path: Path) -> None:
    with served(folder, tmp_path / "serve", open_store=lambda _: None) as client:
        assert "has no sink of kind sqlite or postgres" in detail(client.get("/v1/alerts"), 409)
    (folder / "out/crossline.db").unlink()
    with served(folder, tmp_path / "serve") as client:
        assert "there is no store at" in detail(client.get("/v1/alerts"), 400)
