"""Migrations: from nothing, concurrent, interrupted, newer versions, foreign tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from dev.services.postgres import LocalPostgres

from crossline.basics.errors import StateError, UsageError
from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.migrate import Migration, migrate, migrations, newest
from crossline.io.postgres.reader import PostgresReader
from crossline.io.postgres.sink import PostgresSink

from .makers import delivery
from .postgres_kit import opened, place_in, rows

VERSIONS = "SELECT version, name FROM schema_version ORDER BY version"
MORE = Migration(newest() + 1, "more", "CREATE TABLE more (one integer); INSERT INTO more VALUES (1)")


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


def test_they_are_numbered_without_a_gap() -> None:
    assert [each.number for each in migrations()] == list(range(1, newest() + 1))


def test_many_at_once_make_them_once(place: DatabaseAddress) -> None:
    def work(_: int) -> None:
        with place.connect() as connection:
            migrate(connection, place, (*migrations(), MORE))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert rows(place, VERSIONS) == [(each.number, each.name) for each in (*migrations(), MORE)]
    assert rows(place, "SELECT one FROM more") == [(1,)]


def test_one_that_fails_leaves_what_was_before_it(place: DatabaseAddress) -> None:
    broken = Migration(MORE.number, "broken", f"{MORE.text}; SELECT no_such_thing")
    with place.connect() as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            migrate(connection, place, (*migrations(), broken))
        assert rows(place, VERSIONS) == [(each.number, each.name) for each in migrations()]
        migrate(connection, place, (*migrations(), MORE))
    assert rows(place, "SELECT one FROM more") == [(1,)]


def test_a_start_that_was_cut_off_is_gone_on_with(place: DatabaseAddress) -> None:
    with place.connect() as connection:
        connection.execute(f"CREATE SCHEMA {place.schema}".encode())
        connection.execute(
            "CREATE TABLE schema_version (version integer PRIMARY KEY, name text, applied_at timestamptz)"
        )
    with pytest.raises(UsageError, match="there is no store"):
        PostgresReader(place)
    with opened(place) as sink:
        sink.deliver(delivery(0, "a"))
    assert rows(place, "SELECT alert_id FROM alerts") == [("id-a",)]


def test_tables_of_a_newer_crossline_are_refused(place: DatabaseAddress) -> None:
    with place.connect() as connection:
        migrate(connection, place, (*migrations(), MORE))
    text = f"has version {MORE.number}; this crossline knows version {newest()} and older ones"
    for use in (PostgresSink(place, "p").open, lambda: PostgresReader(place)):
        with pytest.raises(StateError, match=text):
            use()


def test_a_schema_of_something_else_is_refused(place: DatabaseAddress) -> None:
    with place.connect() as connection:
        connection.execute(f"CREATE SCHEMA {place.schema}".encode())
        connection.execute("CREATE TABLE alerts (mine text)")
    for use in (PostgresSink(place, "p").open, lambda: PostgresReader(place)):
        with pytest.raises(StateError, match=r"holds something else \(alerts\); give the sink a schema of its own"):
            use()
