"""The PostgreSQL sink: tables, times, hostile records, concurrent changes."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import count
from typing import Any

import pytest
from dev.services.postgres import LocalPostgres
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import SinkError, StateError
from crossline.io.postgres import partitions
from crossline.io.postgres import sink as module
from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.sink import PostgresSink
from crossline.io.sinks.base import Delivery, LateRecord, RetryPolicy, deliver_all

from .makers import alert, delivery
from .postgres_kit import ids, opened, place_in, read, rows
from .test_decisions import decision

NOW_MS = 1_790_000_000_000  # in September 2026
WAIT_S = 60.0


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


def parts(place: DatabaseAddress, table: str = "alerts") -> dict[str, int]:
    """Rows by the partitions that have any."""
    query = f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1 ORDER BY 1"  # noqa: S608 - of ours
    return {name.rpartition(".")[2].removeprefix(f"{table}_"): number for name, number in rows(place, query)}


def test_what_investigators_find(place: DatabaseAddress) -> None:
    body = {"kind": "correction", "corrects": "id-a", "caused_by": "z"}
    batch = Delivery(
        "p",
        7,
        alerts=[
            alert("a", value=2**80, key={"account_id": "a1", "n": 7, "vip": True, "none": None}),
            alert("b", value=None, threshold=None, emit_to_sink=False),
            alert("a", alert_id="c1", outcome="amended", value_before=2**80, **{**body, "value": 11}),
            alert(
                "a", alert_id="c2", outcome="retracted", value_before=11, **{**body, "value": None, "message": "gone"}
            ),
        ],
        positions=[("in/a", 1), ("in/a", 2), ("in/a", 1), ("in/a", 1)],
        decisions=[
            decision("a"),
            decision("a", decision_id="r1", revision=1, revises="d-a", because="c1", decision="block"),
            decision("a", decision_id="r2", revision=2, revises="d-a", because="c2", decision="allow", score=0),
        ],
    )
    with opened(place) as sink:
        sink.deliver(batch)
    assert rows(
        place, "SELECT entities, value, at_offset, batch_id FROM alerts WHERE alert_id IN ('id-a', 'id-b')"
    ) == [
        (["account_id=a1", "n=7", "vip=true", "none=null"], float(2**80), 1, 7),
        (["account_id=a1"], None, 2, 7),
    ]
    assert rows(place, "SELECT alert_id, outcome, value, message FROM alerts_now ORDER BY seq") == [
        ("id-a", "retracted", None, "gone"),
        ("id-b", None, None, alert("b")["message"]),
    ]
    assert rows(place, "SELECT decision_id, decision, revision FROM decisions_now") == [("d-a", "allow", 2)]
    query = "SELECT position, record_id FROM evidence WHERE alert_id = 'id-b' ORDER BY position"
    assert rows(place, query) == [(0, "t1"), (1, "t2"), (2, "b")]
    assert rows(place, "SELECT alerts, decisions, batch_id FROM batches") == [(4, 3, 7)]
    assert rows(place, "SELECT count(ended_at) FROM runs") == [(1,)]


def test_hostile_texts_stop_no_batch_and_no_question(place: DatabaseAddress) -> None:
    """NUL, halves of surrogate pairs, what ends a statement or a line of a copy."""
    names = [
        "\0",
        "a\0b",
        "\ud800",
        "\udfff\ud800",
        "\\.",
        "\\N",
        "\t",
        "\n",
        "\r\n",
        "'; DROP TABLE alerts; --",
        "%s",
        "\u2028",
    ]
    alerts = [
        alert(f"{n}", record_id=name, message=name, key={name: name}, stream=name) for n, name in enumerate(names)
    ]
    dead = [DeadLetter(name, name, name, name, 1, name.encode(errors="surrogatepass"), name) for name in names]
    late = [LateRecord(name, name, 0, 0, 1, name, 1, b"\0\xff") for name in names]
    events: list[dict[str, Any]] = [
        {"rule_id": name, "version": 1, "event": name, "body": {name: name}} for name in names
    ]
    decisions = [decision(name, decision_id=f"d{n}", reasons=[{name: name}]) for n, name in enumerate(names)]
    batch = Delivery("\0", 0, alerts, dead, late, {"\0": "\0"}, events, decisions=decisions)
    with opened(place, "\0") as sink:
        for _ in range(2):
            sink.deliver(batch)
    counts = [len(names)] * 5 + [1]
    tables = ("alerts", "dead_letters", "late_records", "rule_events", "decisions", "batches")
    assert [rows(place, f"SELECT count(*) FROM {table}")[0][0] for table in tables] == counts  # noqa: S608 - of ours
    # An operator on JSON reads the whole document, so that one row could break it for all.
    for table in ("alerts", "rule_events", "decisions"):
        query = f"SELECT body ->> 'schema_version', body::jsonb FROM {table}"  # noqa: S608 - of ours
        assert len(rows(place, query)) == len(names)
    assert rows(place, "SELECT raw FROM late_records LIMIT 1") == [(b"\0\xff",)]
    with read(place) as reader:
        assert [reader.rule_body("\0", name, 1) for name in names] == [{name: name} for name in names]
        assert reader.refused("\0", "\0", ["\0"]) == {("\0", 1)}


def test_what_no_table_holds_ends_the_pipeline_and_leaves_nothing(place: DatabaseAddress) -> None:
    with opened(place) as sink:
        for broken in ({"event_time": "yesterday"}, {"event_time": None}, {"rule_version": "x"}, {"stream": None}):
            with pytest.raises(StateError, match="cannot hold what it was given"):
                sink.deliver(Delivery("p", 0, alerts=[alert("a"), alert("b", **broken)]))
        sink.deliver(delivery(0, "c"))
    assert ids(place) == ["id-c"]


def test_each_month_has_a_partition_and_absurd_times_make_none(place: DatabaseAddress) -> None:
    times = [
        "2026-09-01T00:00:00.000Z",
        "2026-08-31T23:59:59.999Z",
        "2025-02-28T00:00:00.000Z",
        "2026-12-01T00:00:00.000Z",
    ]
    absurd = ["0001-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]
    sink = PostgresSink(place, "p", clock_ms=lambda: NOW_MS)
    sink.open()
    all_times = [*times, *absurd]
    sink.deliver(Delivery("p", 0, [alert(str(n), event_time=each) for n, each in enumerate(all_times)]))
    sink.close()
    assert parts(place) == {"default": 4, "y2025m02": 1, "y2026m08": 1, "y2026m09": 1}
    assert parts(place, "batches") == {"y2026m09": 1}
    query = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'alerts'::regclass"
    assert rows(place, query) == [(4,)]
    # Time goes on: what lay in the default partition moves when its month is near.
    later = PostgresSink(place, "p", clock_ms=lambda: NOW_MS + 70 * 86_400_000)
    later.open()
    later.deliver(Delivery("p", 1, [alert("9", event_time=times[3])]))
    later.close()
    assert parts(place) == {"default": 3, "y2025m02": 1, "y2026m08": 1, "y2026m09": 1, "y2026m12": 2}
    assert ids(place) == [f"id-{n}" for n in (*range(7), 9)]


def test_a_clock_that_jumps_holds_no_batch(place: DatabaseAddress) -> None:
    clocks = [NOW_MS, -(2**62), 2**62, 0, NOW_MS]
    for number, now_ms in enumerate(clocks):
        sink = PostgresSink(place, "p", clock_ms=lambda now_ms=now_ms: now_ms)
        sink.open()
        sink.deliver(Delivery("p", number, [alert(str(number), event_time="2026-09-05T00:00:00.000Z")]))
        sink.close()
    assert parts(place) == {"y2026m09": 5}
    assert parts(place, "batches") == {"y1970m01": 2, "y2026m09": 2, "y3000m01": 1}


def test_who_reads_for_long_holds_no_batch(place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "LOCK_MS", 20)
    monkeypatch.setattr(partitions, "AGAIN_S", 0.0)
    sink = PostgresSink(place, "p", clock_ms=lambda: NOW_MS)
    sink.open()
    past = [alert("a", event_time="2026-01-05T00:00:00.000Z")]
    with place.connect() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM alerts")
        with capture_logs() as logs:
            sink.deliver(Delivery("p", 0, past))
        assert [each["event"] for each in logs] == [
            "a partition cannot be made now; its rows go to the default partition and move later"
        ]
        assert parts(place) == {"default": 1}
    sink.deliver(Delivery("p", 1, [alert("b", event_time="2026-01-06T00:00:00.000Z")]))
    sink.close()
    assert parts(place) == {"y2026m01": 2}


def test_a_month_that_was_taken_away_holds_no_batch(place: DatabaseAddress) -> None:
    past, next_month = ({"event_time": f"2026-{month}-05T00:00:00.000Z"} for month in ("01", "02"))
    sink = PostgresSink(place, "p", clock_ms=lambda: NOW_MS)
    sink.open()
    sink.deliver(Delivery("p", 0, [alert("a", **past)]))
    with place.connect() as owner:
        owner.execute("ALTER TABLE alerts DETACH PARTITION alerts_y2026m01")
    sink.close()
    sink.open()
    with capture_logs() as logs:
        sink.deliver(Delivery("p", 1, [alert("a", **past), alert("b", **past), alert("c", **next_month)]))
    sink.close()
    assert [each["month"] for each in logs] == ["2026-01"]
    assert parts(place) == {"default": 1, "y2026m02": 1}


def test_a_user_who_may_make_no_tables_stores_all_the_same(
    place: DatabaseAddress, postgres_server: LocalPostgres
) -> None:
    with opened(place):
        pass
    role = f"writer_{place.schema}"
    with place.connect() as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'open sesame'".encode())
        owner.execute(f"GRANT USAGE ON SCHEMA {place.schema} TO {role}".encode())
        owner.execute(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {place.schema} TO {role}".encode())
        owner.execute(f"GRANT UPDATE ON runs TO {role}".encode())
        owner.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {place.schema} TO {role}".encode())
    narrow = DatabaseAddress({**place.options, "user": role, "password": "open sesame"}, place.schema)
    with capture_logs() as logs, opened(narrow) as sink:
        sink.deliver(Delivery("p", 0, [alert("a", event_time="2025-01-05T00:00:00.000Z")]))
    assert [each["error"] for each in logs if "partition" in each["event"]]
    assert (ids(place), parts(place)) == (["id-a"], {"default": 1})


def test_two_that_deliver_the_same_at_once_leave_it_once(place: DatabaseAddress) -> None:
    names = [f"{n:03d}" for n in range(200)]
    cuts = [names[at : at + size] for size in (7, 50) for at in range(0, len(names), size)]
    with opened(place):
        pass

    def work(number: int) -> None:
        with opened(place) as sink:
            for batch, cut in enumerate(cuts if number % 2 else cuts[::-1]):
                order = cut if number < 2 else cut[::-1]
                made = [decision(name) for name in order]
                deliver_all([sink], replace(delivery(batch, *order), decisions=made), RetryPolicy(initial_ms=1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(ids(place)) == [f"id-{name}" for name in names]
    assert rows(place, "SELECT count(*), count(DISTINCT decision_id) FROM decisions") == [(200, 200)]


@pytest.mark.parametrize("way", ["_insert_fresh", "_insert"])
def test_a_backend_that_dies_in_the_midst_leaves_nothing_of_the_batch(
    place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    whole, batch = getattr(module, way), replace(delivery(1, "b", "c"), decisions=[decision("b")])
    after = iter([1, 2, 3])  # tables written before it dies: alerts, decisions, the batch

    with opened(place) as sink, place.connect() as other:
        for _ in range(1 if way == "_insert_fresh" else 2):  # what comes again has the next one asked for, too
            sink.deliver(delivery(0, "a"))
        for tables in after:
            written = iter(range(tables))

            def dying(connection: Any, given: Any, written: Any = written) -> Any:
                done = whole(connection, given)
                next(written)
                if written.__length_hint__() == 0:
                    other.execute("SELECT pg_terminate_backend(%s, 10000)", (connection.info.backend_pid,))
                return done

            monkeypatch.setattr(module, way, dying)
            with pytest.raises(SinkError, match=r"cannot be written now: "):
                sink.deliver(batch)
            assert ids(place) == ["id-a"]
            monkeypatch.setattr(module, way, whole)
        sink.deliver(batch)
    assert ids(place) == ["id-a", "id-b", "id-c"]
    assert rows(place, "SELECT count(*) FROM runs") == [(1,)]


def test_a_commit_whose_answer_is_lost_is_not_done_twice(
    place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as sink:
        sink.deliver(delivery(0, "a"))
        connection = sink._connection
        assert connection is not None
        sink._store(connection, module.rows_of(delivery(1, "b"), NOW_MS), NOW_MS)  # the acknowledgement is lost
        sink._drop()
        sink.deliver(delivery(1, "b"))
    assert ids(place) == ["id-a", "id-b"]


def until_refused(sink: PostgresSink) -> int:
    """Which batch is not taken: processes of a server that was killed take a moment to see that it is gone."""
    for number in count(1):
        try:
            sink.deliver(delivery(number, f"b{number}"))
        except SinkError as error:
            assert "cannot be written now" in str(error)  # noqa: PT017 - which batch raises is not known before
            return number
    raise AssertionError


def test_a_server_that_crashes_holds_the_batch_until_it_is_back(postgres_schema: str) -> None:
    with LocalPostgres(brief=True) as server:
        place = place_in(server, postgres_schema)
        with opened(place) as sink, ThreadPoolExecutor(1) as pool:
            sink.deliver(delivery(0, "a"))
            server.kill()
            number = until_refused(sink)
            last = delivery(number, f"b{number}")
            held = pool.submit(deliver_all, [sink], last, RetryPolicy(initial_ms=10, max_ms=50))
            server.start()
            held.result(WAIT_S)
        server.stop()
        late = PostgresSink(place, "p")
        with capture_logs() as logs:
            late.open()  # a server that is away at the start holds batches, too
        assert [each["log_level"] for each in logs] == ["warning"]
        with pytest.raises(SinkError):
            late.deliver(delivery(2, "c"))
        server.start()
        late.deliver(delivery(2, "c"))
        late.close()
        assert ids(place) == ["id-a", *(f"id-b{n}" for n in range(1, number + 1)), "id-c"]


def test_a_frozen_server_is_left_when_the_pipeline_stops(place: DatabaseAddress) -> None:
    stop = threading.Event()
    with opened(place) as sink, ThreadPoolExecutor(1) as pool:
        sink.deliver(delivery(0, "a"))
        assert sink._connection is not None
        pid = sink._connection.info.backend_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            held = pool.submit(deliver_all, [sink], delivery(1, "b"), RetryPolicy(), stop)
            stop.set()
            with pytest.raises(SinkError, match="cannot be written now"):
                held.result(WAIT_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        sink.use_cancel_token(threading.Event())
        sink.deliver(delivery(1, "b"))
        pid = sink._connection.info.backend_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with capture_logs() as logs:
                sink.close()
        finally:
            os.kill(pid, signal.SIGCONT)
    assert [each["event"] for each in logs] == ["the end of the run could not be noted"]
    assert ids(place) == ["id-a", "id-b"]


def test_a_closed_sink_takes_nothing(place: DatabaseAddress) -> None:
    with opened(place) as sink:
        pass
    with pytest.raises(StateError, match="is not open"):
        sink.deliver(delivery(0, "a"))


def test_months() -> None:
    assert partitions.shift_months(date(2026, 1, 31), -1) == date(2025, 12, 1)
    assert partitions.shift_months(date(2026, 11, 30), 2) == date(2027, 1, 1)
    assert partitions.shift_months(date(2026, 1, 31), -12) == date(2025, 1, 1)
    assert partitions.partition_name("alerts", date(2026, 3, 1)) == "alerts_y2026m03"
    assert datetime.fromtimestamp(NOW_MS / 1000, UTC).date() == date(2026, 9, 21)
