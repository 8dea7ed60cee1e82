"""PostgreSQL sinks for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dev.services.postgres import LocalPostgres

from crossline.io.postgres.client import DatabaseAddress, address_of
from crossline.io.postgres.reader import PostgresReader
from crossline.io.postgres.sink import PostgresSink
from crossline.settings.postgres import PostgresSettings


def settings_of(server: LocalPostgres, schema: str) -> PostgresSettings:
    given = {"host": server.host, "port": server.port, "user": server.user, "dbname": server.dbname}
    return PostgresSettings.model_validate(
        {"kind": "postgres", "behind": False, **given, "password_file": str(server.password_file), "schema": schema}
    )


def place_in(server: LocalPostgres, schema: str) -> DatabaseAddress:
    return address_of(settings_of(server, schema))


@contextmanager
def opened(place: DatabaseAddress, pipeline: str = "p") -> Iterator[PostgresSink]:
    sink = PostgresSink(place, pipeline)
    sink.open()
    try:
        yield sink
    finally:
        sink.close()


@contextmanager
def read(place: DatabaseAddress) -> Iterator[PostgresReader]:
    reader = PostgresReader(place)
    try:
        yield reader
    finally:
        reader.close()


def rows(place: DatabaseAddress, query: str) -> list[tuple[Any, ...]]:
    with place.connect() as connection:
        return connection.execute(query.encode()).fetchall()


def ids(place: DatabaseAddress) -> list[str]:
    """The ids of the alerts, as they were delivered."""
    return [str(row[0]) for row in rows(place, "SELECT alert_id FROM alerts ORDER BY seq")]
