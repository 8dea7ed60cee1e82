"""docs/postgres.md: its SQL runs on tables as they are, and names all of them."""

from __future__ import annotations

import re

import psycopg
from dev.services.postgres import LocalPostgres

from connectors.makers import alert, delivery
from connectors.postgres_kit import opened, place_in, rows
from crossline.io.postgres.partitions import MONTHS_AHEAD, MONTHS_BACK
from crossline.io.postgres.rows import PARTITIONED
from crossline.io.sinks.base import Delivery

from .pages import ROOT, all_blocks

PAGE = (ROOT / "docs" / "postgres.md").read_text()


def test_its_sql_runs_and_its_tables_are_there(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    place = place_in(postgres_server, postgres_schema)
    with opened(place) as sink:
        sink.deliver(delivery(0, "t1"))
        sink.deliver(Delivery("p", 1, alerts=[alert("t2", event_time="2026-03-01T00:00:00.000Z")]))
    blocks = all_blocks("sql")
    assert len(blocks) > 8
    with place.connect() as connection:
        for block in blocks:
            with connection.transaction(force_rollback=True):
                try:
                    connection.execute(block.text.encode())
                except psycopg.Error as error:
                    raise AssertionError(f"{block}: {error}") from error
    reported = re.findall(r"^\| `(\w+)` \| .* \|(?: `(\w+)`)? \|$", PAGE, re.MULTILINE)
    query = """SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p')
        AND NOT relispartition""".replace("%s", f"'{postgres_schema}'")
    assert sorted(name for name, _ in reported) == sorted(name for (name,) in rows(place, query))
    assert {name: column for name, column in reported if column} == PARTITIONED


def test_its_bounds_are_those_of_the_code() -> None:
    assert f"from {MONTHS_BACK} before to {MONTHS_AHEAD} after now" in PAGE
