"""Positions of alerts, and of rejected records, in the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from crossline.basics.deadletter import DeadLetter
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sqlite.reader import StoreReader
from crossline.io.sqlite.sink import SqliteSink

from .makers import alert


def test_a_store_of_version_2_gets_the_places_of_alerts(tmp_path: Path) -> None:
    path = tmp_path / "crossline.db"
    sink = SqliteSink(path, "p")
    sink.open()
    sink.deliver(Delivery("p", 0, [alert("t1", alert_id="a1")], positions=[("in/a", 7)]))
    sink.close()
    with closing(sqlite3.connect(path)) as connection:  # version 2 is this version without them
        for column in ("at_partition", "at_offset"):
            connection.execute(f"ALTER TABLE alerts DROP COLUMN {column}")
        for what in ("TABLE decisions", "TRIGGER alerts_have_keys", "TABLE alert_keys"):
            connection.execute(f"DROP {what}")
        connection.execute("UPDATE meta SET value = '2' WHERE name = 'schema_version'")
        connection.commit()
    old = StoreReader(path)
    assert [(each.pipeline, each.position) for each in old.find("a")] == [("p", None)]
    old.close()
    again = SqliteSink(path, "p")
    again.open()
    again.deliver(
        Delivery("p", 1, [alert("t1", alert_id="a1"), alert("t2", alert_id="a2")], positions=[("in/a", 7), ("in/b", 0)])
    )
    again.close()
    reader = StoreReader(path)
    assert {each.alert["record_id"]: each.position for each in reader.find("a")} == {"t1": None, "t2": ("in/b", 0)}
    reader.close()


def test_positions_of_records_that_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "crossline.db"
    dead = [DeadLetter("s", "duplicate_id", "", "in/a", n, None, name) for n, name in enumerate(("t1", "t2", "t1"))]
    dead += [
        DeadLetter("other", "duplicate_id", "", "in/a", 9, None, "t1"),
        DeadLetter("s", "bad", "", "in/a", 8, b"{"),
    ]
    late = [LateRecord("s", name, 0, 0, 0, "in/b", 5) for name in ("t1", "t3")]
    for name, delivery in (("p", Delivery("p", 0, dead=dead, late=late)), ("q", Delivery("q", 0, dead=dead[:1]))):
        sink = SqliteSink(path, name)
        sink.open()
        sink.deliver(delivery)
        sink.close()
    reader = StoreReader(path)
    assert reader.refused("p", "s", ["t1", "t9"]) == {("in/a", 0), ("in/a", 2), ("in/b", 5)}
    assert reader.refused("q", "s", ["t1"]) == {("in/a", 0)}
    assert reader.refused("p", "s", []) == set()
    reader.close()


def test_the_body_of_a_rule_is_that_of_its_last_event(tmp_path: Path) -> None:
    path = tmp_path / "crossline.db"
    sink = SqliteSink(path, "p")
    sink.open()
    lines = [("published", {"n": 1}), ("status_changed", {"n": 2}), ("ended", None)]
    events = [{"event": event, "rule_id": "r", "version": 1, "body": body} for event, body in lines]
    sink.deliver(Delivery("p", 0, rule_events=events))
    sink.close()
    reader = StoreReader(path)
    assert reader.rule_body("p", "r", 1) == {"n": 2}
    assert [reader.rule_body(*asked) for asked in (("p", "r", 2), ("p", "q", 1), ("q", "r", 1))] == [None] * 3
    reader.close()
