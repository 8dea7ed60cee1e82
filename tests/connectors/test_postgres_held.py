"""A PostgreSQL that hangs, trickles, or has changed tables holds the batch until it is fixed."""

from __future__ import annotations

import os
import signal

import pytest
from dev.services.postgres import LocalPostgres
from structlog.testing import capture_logs

from crossline.basics.errors import SinkError
from crossline.io.postgres import client
from crossline.io.postgres import sink as module
from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.sink import PostgresSink

from .makers import delivery
from .postgres_kit import ids, opened, place_in
from .trickling import trickling


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


def test_a_frozen_server_is_left_at_the_deadline(place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(place) as sink:
        sink.deliver(delivery(0, "a"))
        assert sink._connection is not None
        pid = sink._connection.info.backend_pid
        monkeypatch.setattr(sink, "_answer_s", 0.5)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SinkError, match=r"cannot be written now: no whole answer in 0\.5 s"):
                sink.deliver(delivery(1, "b"))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert sink._answer_s == 1.0, "a server that is slow has twice as long the next time"
        monkeypatch.setattr(sink, "_answer_s", module.ANSWER_S_MAX)
        sink.deliver(delivery(1, "b"))
    assert ids(place) == ["id-a", "id-b"]


def test_a_greeting_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "GREET_S_MAX", 0.5)
    # It accepts the connection, and then sends a parameter, 28 KB long.
    with trickling(b"R\0\0\0\x08\0\0\0\0S\0\0\x70\0") as slow:
        sink = PostgresSink(
            DatabaseAddress({"host": "127.0.0.1", "port": slow.port, "user": "u", "sslmode": "disable"}, "s"), "p"
        )
        with capture_logs() as logs:
            sink.open()
        assert "no whole answer in 0.5 s" in logs[0]["error"]
        with pytest.raises(SinkError, match=r"cannot be written now: no whole answer in 0\.5 s"):
            sink.deliver(delivery(0, "a"))
        sink.close()


@pytest.mark.parametrize(
    ("change", "back", "advice"),
    [
        (
            "ALTER TABLE alerts RENAME severity TO gravity",
            "ALTER TABLE alerts RENAME gravity TO severity",
            "put it back",
        ),
        ("ALTER TABLE alerts RENAME TO hidden", "ALTER TABLE hidden RENAME TO alerts", "restore it"),
        (
            "ALTER TABLE alerts ADD CONSTRAINT ours CHECK (rule_id = 'x') NOT VALID",
            "ALTER TABLE alerts DROP CONSTRAINT ours",
            "take it away",
        ),
        ("CREATE UNIQUE INDEX ours ON alerts (severity, event_time)", "DROP INDEX ours", "take it away"),
        (
            "ALTER TABLE alerts ADD mine int NOT NULL",
            "ALTER TABLE alerts DROP mine",
            "take it away",
        ),
        (
            "ALTER TABLE delivered RENAME identity TO named",
            "ALTER TABLE delivered RENAME named TO identity",
            "put it back",
        ),
    ],
)
def test_a_changed_table_holds_the_batch_until_it_is_repaired(
    place: DatabaseAddress, change: str, back: str, advice: str
) -> None:
    with opened(place) as sink, place.connect() as other:
        other.execute(change.encode())
        for _ in range(2):
            with pytest.raises(SinkError, match=f"cannot be written: .*; .*{advice}"):
                sink.deliver(delivery(0, "a", "b"))
        other.execute(back.encode())
        sink.deliver(delivery(0, "a", "b"))
        sink.deliver(delivery(1, "c"))
    assert ids(place) == ["id-a", "id-b", "id-c"]
