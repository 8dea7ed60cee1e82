"""Decisions are found by the start of their id through table ``delivered``, in stores of before too."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from dev.services.postgres import LocalPostgres

from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.decision_ids import decision_identities
from crossline.io.postgres.decision_lookup import decisions_named
from crossline.io.postgres.migrate import migrate, migrations
from crossline.io.sinks.base import Delivery

from .decision_lines import as_lines
from .postgres_kit import opened, place_in, read, rows
from .test_decisions import decision

# Two share the first two digits, two the first sixteen; the third has another time.
IDS = [
    "6f0e5c55-8f0a-5d6f-9b1f-7c21b0a3a2d4",
    "6f1e5c55-8f0a-5d6f-9b1f-7c21b0a3a2d4",
    "a00e5c55-8f0a-5d6f-9b1f-7c21b0a3a2d4",
    "a00e5c55-8f0a-5d6f-ab1f-7c21b0a3a2d5",
]
TIMES = ["2026-01-01T00:00:07.120Z", "2026-01-01T00:00:06.001Z", "2025-11-30T23:59:59.999Z", "2026-01-01T00:00:07.120Z"]
MADE = [decision(f"t{n}", decision_id=own, event_time=at) for n, (own, at) in enumerate(zip(IDS, TIMES, strict=True))]
OTHER = decision("t9", decision_id="d-9")


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


def found(place: DatabaseAddress, name: str, limit: int = 10) -> list[str]:
    with read(place) as reader:
        return [each["decision_id"] for each in reader.find_decisions(name, limit)]


def as_before(place: DatabaseAddress, *decisions: Mapping[str, Any], pipeline: str = "p") -> None:
    """Decisions in tables of version 1, as the sink of then wrote them."""
    with place.connect() as connection:
        migrate(connection, place, migrations()[:1])
        for each in decisions:
            name = json.dumps([pipeline, "decisions", each["decision_id"]]).encode()
            identity = hashlib.blake2b(name, digest_size=16).hexdigest()
            month = f"{each['event_time'][:7]}-01"
            connection.execute("INSERT INTO delivered (identity, month) VALUES (%s, %s)", (identity, month))
            columns = ("decision_id", "kind", "decision", "score", "policy_version", "revision", "stream", "record_id")
            values = [*(each[name] for name in columns), each["event_time"], pipeline, json.dumps(each)]
            connection.execute(
                f"INSERT INTO decisions ({', '.join(columns)}, event_time, pipeline, body, delivered_at, batch_id) "  # noqa: S608 - of ours
                f"VALUES ({', '.join(['%s'] * len(values))}, now(), 0)",
                values,
            )


def check_lookups(place: DatabaseAddress) -> None:
    """By starts of every length, in the order of time, and up to a limit."""
    assert [found(place, own) for own in IDS] == [[own] for own in IDS]
    assert found(place, "6f") == [IDS[1], IDS[0]]
    assert found(place, "6F0E") == [IDS[0]]
    assert found(place, IDS[2][:18]) == [IDS[2], IDS[3]]
    assert found(place, IDS[3][:20]) == [IDS[3]]
    assert found(place, "a00e5c558f0a") == found(place, "7") == found(place, "d-8") == []
    assert (found(place, "d"), found(place, "t1"), found(place, "", 2)) == (["d-9"], [IDS[1]], [IDS[2], IDS[1]])


def test_they_are_found_by_the_start_of_their_id(place: DatabaseAddress) -> None:
    with opened(place) as sink:
        sink.deliver(Delivery("p", 0, decisions=as_lines(MADE)))
        sink.deliver(Delivery("p", 1, decisions=[*MADE, OTHER]))
    check_lookups(place)
    for own, made in zip(IDS, MADE, strict=True):
        query = f"SELECT record_id FROM decision_of('{own}')"  # noqa: S608 - of ours
        assert rows(place, query) == [(made["record_id"],)]
    assert rows(place, f"SELECT seq FROM decision_of('{uuid.uuid4()}')") == []  # noqa: S608 - as above


def test_pipelines_of_one_schema_have_each_its_own(place: DatabaseAddress) -> None:
    for pipeline in ("p", "q\0", "p"):
        with opened(place, pipeline) as sink:
            sink.deliver(Delivery(pipeline, 0, decisions=MADE))
    assert found(place, IDS[0]) == [IDS[0]] * 2
    assert rows(place, "SELECT count(*) FROM decisions") == [(2 * len(MADE),)]
    assert rows(place, f"SELECT count(*) FROM decision_of('{IDS[0]}')") == [(2,)]  # noqa: S608 - of ours


def test_a_store_of_before_is_read_as_it_is_and_migrated_by_the_sink(place: DatabaseAddress) -> None:
    as_before(place, *MADE, OTHER)
    as_before(place, MADE[0], pipeline="q")
    assert (found(place, "6f1"), found(place, "t2"), found(place, "d-")) == ([IDS[1]], [IDS[2]], ["d-9"])
    with opened(place) as sink:
        sink.deliver(Delivery("p", 0, decisions=[OTHER, *MADE]))
    assert rows(place, "SELECT count(*) FROM decisions") == [(len(MADE) + 2,)]
    with opened(place, "q") as sink:
        sink.deliver(Delivery("q", 0, decisions=MADE[:2]))
    assert rows(place, "SELECT pipeline, count(*) FROM decisions GROUP BY 1 ORDER BY 1") == [("p", 5), ("q", 2)]
    with place.connect() as connection:
        connection.execute("DELETE FROM decisions WHERE pipeline = 'q'")
    check_lookups(place)


def test_a_sink_of_before_that_still_runs_writes_nothing_more(place: DatabaseAddress) -> None:
    as_before(place)
    with place.connect() as connection:
        migrate(connection, place)
        query = "INSERT INTO delivered (identity, month) VALUES (%s, '2026-01-01')"
        with pytest.raises(psycopg.errors.CheckViolation, match="written_by_a_crossline_of_these_tables"):
            connection.execute(query, (uuid.uuid4(),))


def test_identities_are_those_of_the_database(place: DatabaseAddress) -> None:
    with opened(place):
        pass
    names = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))) for n in range(200)]
    names += [str(uuid.UUID(int=each)) for each in (0, 2**128 - 1, 2**63, 2**64 - 1, 2**127)]
    for pipeline in ("p", "zahlungen-ü", ""):
        with place.connect() as connection:
            every = "unnest(%s::text[]) WITH ORDINALITY AS n (name, at)"
            query = f"SELECT identity_of_decision(name, %s) FROM {every} ORDER BY at"  # noqa: S608 - of ours
            made = [row[0].bytes for row in connection.execute(query.encode(), (pipeline, names)).fetchall()]
        assert made == decision_identities(pipeline, pipeline, [each.encode() for each in names])


def test_no_lookup_reads_a_table_as_a_whole(place: DatabaseAddress) -> None:
    """Also where the planner knows nothing of the tables, and where it does."""
    names = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))) for n in range(3_000)]
    many = [
        decision(f"r{n}", decision_id=own, event_time=f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z")
        for n, own in enumerate(names)
    ]
    with opened(place) as sink:
        sink.deliver(Delivery("p", 0, decisions=[*many, *MADE]))
    for analyzed in (False, True):
        with place.connect() as connection:
            if analyzed:
                connection.execute("ANALYZE")
            for query, values in decisions_named(IDS[0], 2):
                plan = connection.execute(f"EXPLAIN (COSTS OFF) {query}".encode(), [*values, 10]).fetchall()
                text = "\n".join(str(line[0]) for line in plan)
                assert "Seq Scan on decisions_y2026m01" not in text, text
                assert "Seq Scan on delivered" not in text, text
