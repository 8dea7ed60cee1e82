"""Queries for decisions by the start of their id, or by their record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crossline.io.postgres.decision_ids import begins_uuid, identity_range
from crossline.io.postgres.text_escapes import escape, indexed

WITH_IDENTITIES = 2  # the version of the tables from which on ``delivered`` finds decisions by their id
_COLUMNS = "SELECT extract(epoch FROM event_time) AS at, seq, body::text FROM decisions WHERE"
_ORDER = "ORDER BY event_time, seq LIMIT %s"
# From the identities to the time of each decision, and from there by the index of times. OFFSET 0 keeps the planner,
# which knows little of either, from reading a table as a whole.
_BY_IDENTITY = """SELECT extract(epoch FROM d.event_time) AS at, d.seq, d.body::text FROM (
        SELECT DISTINCT at FROM delivered WHERE identity BETWEEN %s::uuid AND %s::uuid AND at IS NOT NULL ORDER BY at
    ) AS n CROSS JOIN LATERAL (
        SELECT event_time, seq, body FROM decisions
        WHERE event_time = n.at AND decision_id >= %s AND decision_id < %s OFFSET 0
    ) AS d ORDER BY d.event_time, d.seq LIMIT %s"""

Query = tuple[str, list[Any]]


def decisions_named(name: str, version: int) -> Iterator[Query]:
    """Queries whose results together are the decisions whose id starts with ``name``, or that are on this record.

    Each takes a limit as its last value, and gives times, numbers and bodies. ``version``: of the tables.
    """
    yield f"{_COLUMNS} record_id = %s {_ORDER}", [indexed(name)]
    where, values = starts_with("decision_id", name)
    if version < WITH_IDENTITIES:
        yield f"{_COLUMNS} {where} {_ORDER}", values
        return
    yield f"{_COLUMNS} {where} AND octet_length(decision_id) <> 36 {_ORDER}", values
    if begins_uuid(name.lower()):
        yield _BY_IDENTITY, [*identity_range(name.lower()), *values]


def starts_with(column: str, prefix: str) -> Query:
    """Ids have no character above f, so that g bounds them; the range uses the index."""
    low = escape(prefix.lower())
    return f"({column} >= %s AND {column} < %s)", [low, f"{low}g"]
