"""The SQLite store: its rows, its errors, its locks."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import PermanentError, SinkError, StateError, UsageError
from crossline.io.sinks.base import Delivery, LateRecord, deliver_all
from crossline.io.sqlite import sink as module
from crossline.io.sqlite.reader import StoreReader
from crossline.io.sqlite.sink import SqliteSink
from crossline.io.stores.protocol import AlertFilter

from .makers import alert, delivery, waits_ms

VERSION_1 = Path(__file__).parent / "store_version_1.sql"  # a dump of what the version before wrote
OF_VERSION_1 = {
    "alerts": "seq, alert_id, kind, key, value, batch_id, body",
    "dead_letters": 'seq, stream, "partition", "offset", reason, detail, record_id, raw, delivered_at, batch_id',
    "late_records": 'seq, stream, "partition", "offset", record_id, event_time, raw, batch_id',
    "rule_history": "seq, rule_id, version, body",
    "batches": "batch_id, alerts, figures",
    "runs": "run_id, started_at",
}
T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class Clock:
    """Wall clock of the test, one second on at every look."""

    def __init__(self) -> None:
        self.now_ms = T0

    def __call__(self) -> int:
        self.now_ms += 1000
        return self.now_ms


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crossline.db"


@pytest.fixture
def sink(path: Path) -> Iterator[SqliteSink]:
    sink = SqliteSink(path, "p", clock_ms=Clock())
    sink.open()
    yield sink
    sink.close()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As while another program writes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_an_alert_keeps_its_form_and_gets_the_time_of_its_delivery(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1"))
    [(body, delivered)] = rows(path, "SELECT body, delivered_at FROM alerts")
    # The clock was looked at once when the run began.
    assert delivered == "2026-01-01T00:00:02.000Z"
    assert json.loads(body) == alert("t1", delivered_at=delivered)
    assert list(json.loads(body)) == list(alert("t1"))


def test_the_first_delivery_stays(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1"))
    sink.deliver(delivery(0, "t1"))
    assert rows(path, "SELECT delivered_at FROM alerts") == [("2026-01-01T00:00:02.000Z",)]


def test_the_columns_for_filters(path: Path, sink: SqliteSink) -> None:
    shadow = alert("t1", kind="shadow", value=2.5, threshold=None, key={"a": "x", "b": 1})
    sink.deliver(Delivery("p", 7, alerts=[shadow, alert("t2", emit_to_sink=False)]))
    query = "SELECT alert_id, kind, rule_id, rule_version, severity, key, value, threshold, batch_id FROM alerts"
    assert rows(path, query) == [
        ("id-t1", "shadow", "card_burst", 3, "high", '{"a":"x","b":1}', 2.5, None, 7),
        ("id-t2", "alert", "card_burst", 3, "high", '{"account_id":"a1"}', 10, 10, 7),
    ]


def test_evidence_by_alert(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t9", "t8"))
    query = "SELECT position, record_id FROM evidence WHERE alert_id = 'id-t8' ORDER BY position"
    assert rows(path, query) == [(0, "t1"), (1, "t2"), (2, "t8")]


def test_all_else_that_a_batch_gave_is_stored_once(path: Path, sink: SqliteSink) -> None:
    batch = Delivery(
        "p",
        3,
        alerts=[alert("t1")],
        dead=[
            DeadLetter("payments", "bad_json", "no end", "in/a", 5, b"\xff{", None),
            DeadLetter("payments", "duplicate_id", "came before", "in/a", 5, None, "t0"),
        ],
        late=[LateRecord("payments", "t5", T0, T0 + 180_000, 180_000, "in/a", 9, b"{}")],
        figures={"records": 100, "judge_ms": 12.5},
        rule_events=[{"rule_id": "r", "version": 2, "event": "published", "effective_from_ms": T0}],
    )
    for _ in range(2):
        sink.deliver(batch)
    assert rows(path, 'SELECT reason, "partition", "offset", record_id, raw FROM dead_letters ORDER BY seq') == [
        ("bad_json", "in/a", 5, None, b"\xff{"),
        ("duplicate_id", "in/a", 5, "t0", None),
    ]
    assert rows(path, "SELECT record_id, event_time, ingest_time, lateness_ms, raw FROM late_records") == [
        ("t5", "2026-01-01T00:00:00.000Z", "2026-01-01T00:03:00.000Z", 180_000, b"{}")
    ]
    [(rule_id, version, body)] = rows(path, "SELECT rule_id, version, body FROM rule_history")
    assert (rule_id, version, json.loads(body)) == ("r", 2, batch.rule_events[0])
    [(*sizes, figures)] = rows(path, "SELECT batch_id, alerts, dead_letters, late_records, figures FROM batches")
    assert (sizes, json.loads(figures)) == ([3, 1, 2, 1], batch.figures)


def test_a_run_that_was_killed_has_no_end(path: Path, sink: SqliteSink) -> None:
    sink.close()
    killed = SqliteSink(path, "p", clock_ms=Clock())
    killed.open()
    assert [end is None for (end,) in rows(path, "SELECT ended_at FROM runs ORDER BY run_id")] == [False, True]
    killed.close()


def test_a_delivery_that_fails_leaves_nothing(path: Path, sink: SqliteSink) -> None:
    broken = alert("t2", stream=None)
    with pytest.raises(StateError):
        sink.deliver(Delivery("p", 0, alerts=[alert("t1"), broken]))
    assert rows(path, "SELECT count(*) FROM alerts") == [(0,)]
    sink.deliver(delivery(0, "t1"))
    assert rows(path, "SELECT count(*) FROM alerts") == [(1,)]


def test_a_store_that_another_holds_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_MS", 1)
    sink = SqliteSink(path, "p")
    sink.open()
    with locked(path), pytest.raises(SinkError, match="locked"):
        sink.deliver(delivery(0, "t1"))
    sink.deliver(delivery(0, "t1"))
    assert rows(path, "SELECT count(*) FROM alerts") == [(1,)]
    sink.close()


def test_a_held_store_heeds_a_stop_within_a_second(path: Path, sink: SqliteSink) -> None:
    stop = threading.Event()
    stop.set()
    waits = waits_ms(sink)
    with locked(path):
        with pytest.raises(SinkError, match="locked"):
            deliver_all([sink], delivery(0, "t1"), stop=stop)
        with pytest.raises(SinkError, match="locked"):
            sink.close()
    assert len(waits) == 2, "one attempt each"
    assert sum(waits) <= 1_000
    sink.close()  # it is closed, only the end of the run is not noted
    assert rows(path, "SELECT ended_at FROM runs") == [(None,)]


def test_a_store_that_is_locked_when_it_is_opened(
    path: Path, sink: SqliteSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_MS", 1)
    monkeypatch.setattr(module, "OPEN_MS", 1)
    late = SqliteSink(path, "q")
    with locked(path), pytest.raises(SinkError, match="locked"):
        late.open()
    late.open()
    late.close()


@pytest.mark.parametrize("which", ["crossline.db", "crossline.db-wal"])
def test_a_store_that_is_moved_away_holds_the_batch_until_it_is_back(path: Path, sink: SqliteSink, which: str) -> None:
    sink.deliver(delivery(0, "t1"))
    file, moved = path.with_name(which), path.with_name("moved")
    file.rename(moved)
    with pytest.raises(SinkError, match=f"{which} was deleted or moved away .* move it back"):
        sink.deliver(delivery(1, "t2"))
    moved.rename(file)
    sink.deliver(delivery(1, "t2"))
    assert rows(path, "SELECT record_id FROM alerts ORDER BY seq") == [("t1",), ("t2",)]


@pytest.mark.parametrize("there", [False, True])
def test_the_log_of_a_store_that_was_moved_away_is_not_thrown_away(
    path: Path, sink: SqliteSink, tmp_path: Path, *, there: bool
) -> None:
    sink.deliver(delivery(0, "t1"))
    new, kept = tmp_path / "killed" / "crossline.db", tmp_path / "kept.db"
    new.parent.mkdir()
    shutil.copy(path, kept)  # as a kill leaves them, and only the one moved away
    log = Path(shutil.copy(f"{path}-wal", new.parent))
    if there:
        new.touch()
    before = log.read_bytes()
    with pytest.raises(PermanentError, match=r"crossline\.db-wal belongs to the store that was moved away"):
        SqliteSink(new, "p").open()
    assert log.read_bytes() == before
    log.rename(f"{kept}-wal")
    assert rows(kept, "SELECT record_id FROM alerts") == [("t1",)]
    begun = SqliteSink(new, "p")
    begun.open()
    begun.close()


def test_a_closed_store_is_whole_without_its_log_though_it_is_read(
    path: Path, sink: SqliteSink, tmp_path: Path
) -> None:
    sink.deliver(delivery(0, "t1"))
    reader = StoreReader(path)
    sink.close()
    assert rows(Path(shutil.copy(path, tmp_path / "kept.db")), "SELECT record_id FROM alerts") == [("t1",)]
    reader.close()


def test_who_is_in_the_midst_of_reading_holds_up_no_close(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1", "t2"))
    reader = StoreReader(path)
    alerts = reader.alerts(AlertFilter())
    next(alerts)
    waits = waits_ms(sink)
    sink.close()
    assert 0 < sum(waits) <= 1_000
    reader.close()
    del alerts
    assert rows(path, "SELECT count(*) FROM alerts") == [(2,)]


def test_a_store_deleted_between_the_look_and_the_commit_holds_the_batch(path: Path) -> None:
    class Deleting(Clock):
        """Asked for the time once the file was looked at."""

        def __call__(self) -> int:
            if self.now_ms > T0:
                path.unlink()
            return super().__call__()

    sink = SqliteSink(path, "p", clock_ms=Deleting())
    sink.open()
    with pytest.raises(SinkError, match="deleted or moved away"):
        sink.deliver(delivery(0, "t1"))


def test_pipelines_that_share_a_store_take_nothing_from_each_other(path: Path) -> None:
    letter = DeadLetter("payments", "bad_json", "no end", "in/a", 5, b"{", None)
    late = LateRecord("payments", "t5", T0, T0 + 180_000, 180_000, "in/a", 9, b"{}")
    for name in ("p", "q", "p"):
        sink = SqliteSink(path, name)
        sink.open()
        sink.deliver(Delivery(name, 0, [alert("t1")], [letter], [late], {}, [{"event": "published"}]))
        sink.close()
    for table in ("alerts", "dead_letters", "late_records", "rule_history", "batches"):
        assert rows(path, f"SELECT pipeline FROM {table} ORDER BY pipeline") == [("p",), ("q",)], table  # noqa: S608
    assert rows(path, "SELECT pipeline, count(*) FROM evidence GROUP BY pipeline") == [("p", 3), ("q", 3)]


def test_records_of_a_file_that_took_the_place_of_another(path: Path, sink: SqliteSink) -> None:
    bad = [DeadLetter("payments", "bad_json", "no end", "in/a", 0, raw, None) for raw in (b"{old", b"{new", b"{new")]
    twice = [DeadLetter("payments", "duplicate_id", "", "in/a", 9, raw, "t1") for raw in (b"{}", None)]
    late = [LateRecord("payments", name, T0, T0 + 180_000, 180_000, "in/a", 9, b"{}") for name in ("t5", "t6", "t6")]
    sink.deliver(Delivery("p", 0, dead=[*bad, *twice], late=late))
    assert rows(path, "SELECT raw FROM dead_letters ORDER BY seq") == [(b"{old",), (b"{new",), (b"{}",)]
    assert rows(path, "SELECT record_id FROM late_records ORDER BY seq") == [("t5",), ("t6",)]


def test_a_value_past_64_bits_is_stored(path: Path, sink: SqliteSink) -> None:
    sink.deliver(Delivery("p", 0, alerts=[alert("t1", value=2**64 - 1, threshold=2**63)]))
    assert rows(path, "SELECT value, threshold FROM alerts") == [(2.0**64, 2.0**63)]
    [(body,)] = rows(path, "SELECT body FROM alerts")
    assert json.loads(body)["value"] == 2**64 - 1


def test_a_full_disk_holds_the_batch_until_there_is_room(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1"))
    assert sink._connection is not None
    sink._connection.execute("PRAGMA max_page_count = 1")  # as many as there are
    batch = Delivery("p", 1, alerts=[alert(f"t{n}", message="x" * 1_000) for n in range(2, 50)])
    for _ in range(2):
        with pytest.raises(SinkError, match="full"):
            sink.deliver(batch)
    sink._connection.execute("PRAGMA max_page_count = 1000000")
    sink.deliver(batch)
    assert rows(path, "SELECT count(*) FROM alerts") == [(49,)]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot be written now"):
        SqliteSink(tmp_path / "file" / "crossline.db", "p").open()


def test_a_store_of_the_version_before_keeps_all_and_gets_the_new_keys(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1.read_text())
    before = {table: rows(path, f"SELECT {columns} FROM {table} ORDER BY 1") for table, columns in OF_VERSION_1.items()}  # noqa: S608
    assert all(before.values())
    reader = StoreReader(path)  # who only reads brings nothing to a new version
    assert reader.count(AlertFilter()) == 2
    assert [each["reason"] for each in reader.dead_letters()] == ["bad_json", "duplicate_id"]
    reader.close()
    sink = SqliteSink(path, "q")
    sink.open()
    assert {
        table: rows(path, f"SELECT {columns} FROM {table} WHERE pipeline = 'p' ORDER BY 1")  # noqa: S608
        for table, columns in OF_VERSION_1.items()
    } == before
    old = DeadLetter("payments", "bad_json", "no end", "in/a", 5, b"\xff{", None)
    for name in ("p", "q"):  # p's stands there, q's does not
        sink.deliver(Delivery(name, 9, alerts=[alert("t1")], dead=[old]))
    for table in ("alerts", "dead_letters"):
        query = f"SELECT pipeline, count(*) FROM {table} GROUP BY pipeline ORDER BY pipeline"  # noqa: S608
        assert rows(path, query) == [("p", 2), ("q", 1)], table
    sink.close()
    again = SqliteSink(path, "q")
    again.open()
    again.close()
    assert not rows(path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '*_1'")


def test_a_store_of_another_version_is_refused(path: Path, sink: SqliteSink) -> None:
    sink.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
        connection.commit()
    for use in (SqliteSink(path, "p").open, lambda: StoreReader(path)):
        with pytest.raises(StateError, match="schema version 99; this crossline reads and writes version 5"):
            use()


def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    with pytest.raises(StateError, match="something else"):
        SqliteSink(path, "p").open()
    assert rows(path, "SELECT name FROM sqlite_schema") == [("customers",)]


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"alerts, alerts, alerts" * 100)
    with pytest.raises(StateError, match="not a readable SQLite file"):
        SqliteSink(path, "p").open()


def test_delivering_to_a_store_that_is_not_open(path: Path) -> None:
    with pytest.raises(StateError, match="not open"):
        SqliteSink(path, "p").deliver(delivery(0, "t1"))


def test_reading_while_a_pipeline_writes(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1"))
    reader = StoreReader(path)
    sink.deliver(delivery(1, "t2"))
    assert reader.count(AlertFilter()) == 2
    assert [a["record_id"] for a in reader.alerts(AlertFilter(), newest_first=False)] == ["t1", "t2"]
    reader.close()


def test_a_key_is_found_by_its_values_as_text(path: Path, sink: SqliteSink) -> None:
    keys = [{"user.id": "1"}, {"user.id": 1}, {"user.id": 1.5}, {"user.id": True}, {"other": "1"}]
    sink.deliver(Delivery("p", 0, alerts=[alert(f"t{i}", key=key) for i, key in enumerate(keys)]))
    reader = StoreReader(path)

    def found(text: str) -> list[str]:
        which = AlertFilter(key={"user.id": text})
        return [a["record_id"] for a in reader.alerts(which, newest_first=False)]

    assert [found(text) for text in ("1", "1.5", "true", "x")] == [["t0", "t1"], ["t2"], ["t3"], []]
    reader.close()


def test_there_is_nothing_to_read(path: Path) -> None:
    with pytest.raises(UsageError, match="no store"):
        StoreReader(path)


def test_a_reader_may_be_closed_before_all_is_read(path: Path, sink: SqliteSink) -> None:
    sink.deliver(delivery(0, "t1", "t2", "t3"))
    reader = StoreReader(path)
    alerts = reader.alerts(AlertFilter())
    next(alerts)
    reader.close()
    del alerts
