"""A file of version 1, as the code of that time wrote it, is migrated and keeps all labels and cases."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.unit.serve.cases.casekit import START, Harness, alert

from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.suppressions import store
from crossline.serve.cases.suppressions.store import NewSuppression

VERSION_1 = Path(__file__).parent / "cases_v1.sql"
FIRST, SECOND = (f"00000000-0000-4000-8000-{number:012}" for number in (1, 2))


def old(folder: Path) -> Harness:
    path = folder / "serve" / "cases.db"
    path.parent.mkdir(mode=0o700)
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.read_text())
    connection.close()
    return Harness(folder)


def test_all_that_was_stated_is_there(tmp_path: Path) -> None:
    harness = old(tmp_path)
    assert [(each.record_id, each.is_fraud) for each in harness.cases.labels()] == [("t9", True), ("t3", False)]
    first, second = harness.service.case(FIRST), harness.service.case("C-2")
    assert (first["number"], first["status"], first["assignee"], first["version"]) == ("C-1", "acknowledged", "bob", 2)
    assert [each["text"] for each in first["notes"]] == ["called the customer"]
    assert first["alerts"] == [
        {"alert_id": "al1", "stream": "payments", "record_id": "t1"},
        {"alert_id": "al2", "stream": None, "record_id": None},
    ]
    assert (second["case_id"], second["status"], second["alert_count"]) == (SECOND, "resolved", 1)
    assert second["resolved_at"] is not None
    assert harness.cases.events(FIRST)[-1].after == {"state": "acknowledged", "assignee": "bob"}
    with sqlite3.connect(harness.path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (6,)
        assert connection.execute("SELECT count(*) FROM identity").fetchone() == (0,)  # the lake knows it without one
    connection.close()
    harness.close()


def test_old_cases_are_found_worked_on_and_joined(tmp_path: Path) -> None:
    harness = old(tmp_path)

    def found(**wanted: str) -> list[str]:
        return [each["number"] for each in harness.service.page(QueueFilter(**wanted), "bob").items]  # type: ignore[arg-type]

    assert found(view="mine") == found(q="customer") == found(q="t1") == found(q="burst") == ["C-1"]
    assert found(q="ring") == found(view="resolved") == ["C-2"]
    harness.take(alert("new", START + 60_000))
    assert harness.service.case("C-1")["alert_ids"] == ["al1", "al2", "new"]
    harness.take(alert("other", START, account="a9"))
    assert found(view="unassigned") == ["C-3"]
    assert harness.service.act(FIRST, CaseAction("resolve", label="fraud"), "bob")["status"] == "resolved"
    harness.close()


def test_it_is_supplied_up_to_date_once(tmp_path: Path) -> None:
    harness = old(tmp_path)
    before = harness.service.changes(0)
    harness.close()
    again = Harness(tmp_path)
    assert again.service.changes(0) == before
    again.close()


def test_what_suppressions_hid_is_counted_in_a_file_of_version_3(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    for rules in (["burst"], ["travel"], ["none"]):
        new = NewSuppression(START + 3_600_000, "a load test", rules=rules)
        store.make(harness.cases.file, new, "ada", harness.now_ms)
    more = {"x1": {}, "x2": {"record_id": "r-x1"}, "x3": {"rule_id": "travel"}, "x4": {"rule_id": "other"}}
    harness.take(*(alert(name, START + number, **each) for number, (name, each) in enumerate(more.items())))
    harness.cases.put_label("payments", "r-x1", True, who="ada")
    harness.close()
    with sqlite3.connect(harness.path) as connection:  # as version 3 had it
        for name in ("hidden", "hidden_ms", "frauds"):
            connection.execute(f"ALTER TABLE suppressions DROP COLUMN {name}")
        for name in ("rule_cooled", "cooled_records"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    harness = Harness(tmp_path)
    reported = store.listed(harness.cases.file, START, None, 9)
    names = ("suppression_id", "hidden_count", "hidden_last_at", "fraud_count")
    assert [tuple(each[name] for name in names) for each in reported] == [
        (3, 0, None, 0),
        (2, 1, "2026-01-01T00:00:00.002Z", 0),
        (1, 2, "2026-01-01T00:00:00.001Z", 1),
    ]
    harness.close()
