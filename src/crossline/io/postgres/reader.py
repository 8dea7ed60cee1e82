"""Reads what the sink of a PostgreSQL database stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import UsageError
from crossline.basics.times import instant_text
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.postgres.client import Connection, DatabaseAddress, translated_errors
from crossline.io.postgres.decision_lookup import decisions_named, starts_with
from crossline.io.postgres.migrate import version_of
from crossline.io.postgres.rows import entity
from crossline.io.postgres.text_escapes import MARK, escape, indexed, unescape, unescape_value
from crossline.io.stores.protocol import AlertFilter, DecisionFilter, Mark, StoredAlert

_PIECE = 1_000  # rows in one query

_NOT_INDEXED = frozenset({"stream", "kind", "severity", "decision"})

Where = tuple[str, list[Any]]


class PostgresReader:
    """A store (``stores.Store``) in a schema of a database, read-only; errors are the sink's.

    Raises UsageError where there are no tables, StateError where they are those of a newer crossline.
    """

    def __init__(self, place: DatabaseAddress) -> None:
        self.name = place.name
        self.files: tuple[Path, ...] = ()
        self._place = place
        with translated_errors(place, writing=False, opening=True):
            self._connection: Connection = place.connect()
            try:
                self._connection.execute("SET default_transaction_read_only = on")
                version = version_of(self._connection, place)
            except BaseException:
                self._connection.close()
                raise
        self._version = version or 0
        if not version:
            self._connection.close()
            raise UsageError(f"there is no store at {place.name}; a pipeline makes it when it starts")

    def alerts(
        self, which: AlertFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Alerts as delivered, in order of event time, the first ``limit`` in that order."""
        for body in self._bodies("alerts", _of_alerts(which), limit, newest_first=newest_first):
            yield _alert(body)

    def alerts_before(self, which: AlertFilter, before: Mark | None, limit: int) -> list[tuple[Mark, dict[str, Any]]]:
        """The first ``limit`` alerts before a mark, the latest first; None: from the latest on."""
        return [(mark, _alert(body)) for mark, body in self._before("alerts", _of_alerts(which), before, limit)]

    def decisions_before(
        self, which: DecisionFilter, before: Mark | None, limit: int
    ) -> list[tuple[Mark, dict[str, Any]]]:
        """As ``alerts_before``, of decisions and revisions."""
        found = self._before("decisions", _of_decisions(which), before, limit)
        return [(mark, _decision(body)) for mark, body in found]

    def count(self, which: AlertFilter) -> int:
        """How many alerts there are."""
        where, values = _of_alerts(which)
        return int(self._all(f"SELECT count(*) FROM alerts WHERE {where}", values)[0][0])  # noqa: S608 - ours

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        where, values = starts_with("alert_id", prefix)
        query = f"""SELECT body::text, pipeline, at_partition, at_offset FROM alerts WHERE {where}
            ORDER BY alert_id, seq LIMIT %s"""  # noqa: S608 - as above
        return [
            StoredAlert(_alert(body), unescape(pipeline), None if offset is None else (unescape(partition), offset))
            for body, pipeline, partition, offset in self._all(query, [*values, limit])
        ]

    def decisions(
        self, which: DecisionFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Decisions and revisions as delivered, in order of event time, the first ``limit`` in that order."""
        for body in self._bodies("decisions", _of_decisions(which), limit, newest_first=newest_first):
            yield _decision(body)

    def count_decisions(self, which: DecisionFilter) -> int:
        """How many decisions there are, revisions among them."""
        where, values = _of_decisions(which)
        return int(self._all(f"SELECT count(*) FROM decisions WHERE {where}", values)[0][0])  # noqa: S608 - as above

    def find_decisions(self, name: str, limit: int = 10) -> list[dict[str, Any]]:
        """Decisions whose id starts with ``name``, and those on the record whose id it is; at most ``limit``."""
        found = [self._all(query, [*values, limit]) for query, values in decisions_named(name, self._version)]
        every = {seq: (at, seq, body) for rows in found for at, seq, body in rows}
        return [_decision(body) for _, _, body in sorted(every.values())[:limit]]

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """A version of a rule as ``pipeline`` took it up; None where the store does not have it."""
        query = """SELECT body::text FROM rule_events WHERE pipeline = %s AND rule_id = %s AND version = %s
            ORDER BY seq DESC"""
        rows = self._all(query, [indexed(pipeline), indexed(rule_id), version])
        events: list[Mapping[str, Any]] = [unescape_value(orjson.loads(body)) for (body,) in rows]
        return next((event["body"] for event in events if event.get("body")), None)

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Partitions and offsets of records of ``stream`` with these ids that were refused, or came too late."""
        which = "WHERE pipeline = %s AND stream = %s AND record_id = ANY(%s)"
        tables = [f'SELECT "partition", "offset" FROM {name} {which}' for name in ("dead_letters", "late_records")]  # noqa: S608 - as above
        values = [indexed(pipeline), escape(stream), list(map(indexed, record_ids))]
        return {(unescape(row[0]), row[1]) for row in self._all(" UNION ".join(tables), values * 2)}

    def rule_ids(self) -> list[str]:
        """The rules that have alerts here: from one to the next by the index, whatever each has."""
        query = """WITH RECURSIVE rule AS (
                (SELECT rule_id FROM alerts ORDER BY rule_id LIMIT 1)
                UNION ALL
                SELECT (SELECT a.rule_id FROM alerts AS a WHERE a.rule_id > rule.rule_id ORDER BY a.rule_id LIMIT 1)
                FROM rule WHERE rule.rule_id IS NOT NULL
            ) SELECT rule_id FROM rule WHERE rule_id IS NOT NULL"""
        return sorted(unescape(row[0]) for row in self._all(query))

    def batch_figures(self, pipeline: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """When the last batches of ``pipeline`` were delivered, and what each measured, the latest first."""
        query = """SELECT (extract(epoch FROM delivered_at) * 1000)::bigint, figures::text FROM batches
            WHERE pipeline = %s ORDER BY batch_id DESC LIMIT %s"""
        rows = self._all(query, [indexed(pipeline), limit])
        return [(str(instant_text(at_ms)), unescape_value(orjson.loads(figures))) for at_ms, figures in rows]

    def dead_counts(self) -> dict[str, int]:
        """Dead letters by reason, most first."""
        query = "SELECT reason, count(*) AS n FROM dead_letters GROUP BY reason ORDER BY n DESC, reason"
        return {unescape(reason): number for reason, number in self._all(query)}

    def dead_letters(self, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Dead letters in the order of their delivery; ``raw`` is bytes, or None where only the source has them."""
        names = ("stream", "partition", "offset", "reason", "detail", "record_id", "raw", "delivered_at")
        where, values = ("reason = %s", [indexed(reason)]) if reason is not None else ("true", [])
        query = f"""SELECT stream, "partition", "offset", reason, detail, record_id, raw,
            (extract(epoch FROM delivered_at) * 1000)::bigint FROM dead_letters WHERE {where} ORDER BY seq LIMIT %s"""  # noqa: S608 - as above
        found = [dict(zip(names, row, strict=True)) for row in self._all(query, [*values, limit])]
        return [{name: _read(name, value) for name, value in letter.items()} for letter in found]

    def dead_numbers(self) -> tuple[int, int]:
        """The numbers of the first and of the last dead letter of all pipelines; (0, -1) where there is none."""
        first, last = self._all("SELECT min(seq), max(seq) FROM dead_letters")[0]
        return (0, -1) if first is None else (first, last)

    def dead_between(
        self, pipeline: str, numbers: range, reason: str | None, limit: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Dead letters of a pipeline with these numbers, the latest first, at most ``limit``, each with its number."""
        names = ("stream", "partition", "offset", "reason", "detail", "record_id", "raw", "delivered_at")
        where, values = ("AND reason = %s", [indexed(reason)]) if reason is not None else ("", [])
        query = f"""SELECT seq, stream, "partition", "offset", reason, detail, record_id, raw,
            (extract(epoch FROM delivered_at) * 1000)::bigint FROM dead_letters
            WHERE seq >= %s AND seq < %s AND pipeline = %s {where} ORDER BY seq DESC LIMIT %s"""  # noqa: S608 - as above
        rows = self._all(query, [numbers.start, numbers.stop, indexed(pipeline), *values, limit])
        return [
            (row[0], {name: _read(name, value) for name, value in zip(names, row[1:], strict=True)}) for row in rows
        ]

    def dead_reasons(self, pipeline: str, numbers: range) -> dict[str, int]:
        """How many dead letters of a pipeline with these numbers there are, by reason, most first."""
        query = """SELECT reason, count(*) AS n FROM dead_letters WHERE seq >= %s AND seq < %s AND pipeline = %s
            GROUP BY reason ORDER BY n DESC, reason"""
        values = [numbers.start, numbers.stop, indexed(pipeline)]
        return {unescape(reason): number for reason, number in self._all(query, values)}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _before(self, table: str, which: Where, before: Mark | None, limit: int) -> list[tuple[Mark, str]]:
        where, values = which
        if before is not None:
            where, values = f"{where} AND (event_time, seq) < (%s::timestamptz, %s)", [*values, *before]
        query = f"""SELECT (extract(epoch FROM event_time) * 1000)::bigint, seq, body::text FROM {table} WHERE {where}
            ORDER BY event_time DESC, seq DESC LIMIT %s"""  # noqa: S608 - as above
        return [((instant_text(at_ms), seq), body) for at_ms, seq, body in self._all(query, [*values, limit])]

    def _bodies(self, table: str, which: Where, limit: int | None, *, newest_first: bool) -> Iterator[str]:
        """In pieces, as one answer: what is delivered meanwhile is not in it."""
        where, values = which
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT body::text FROM {table} WHERE {where} ORDER BY event_time {order}, seq {order} LIMIT %s"  # noqa: S608 - as above
        if limit is not None and limit <= _PIECE:
            yield from (row[0] for row in self._all(query, [*values, limit]))
            return
        # On a connection of its own: other queries may begin before this one is read to its end.
        with (
            translated_errors(self._place, writing=False),
            self._place.connect() as connection,
            connection.transaction(),
        ):
            connection.execute("SET TRANSACTION READ ONLY")
            with connection.cursor(name="pieces") as cursor:
                cursor.itersize = _PIECE
                cursor.execute(query.encode(), [*values, limit])
                yield from (row[0] for row in cursor)

    def _all(self, query: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        with translated_errors(self._place, writing=False):
            return self._connection.execute(query.encode(), values).fetchall()


def _alert(body: str) -> dict[str, Any]:
    alert = read_alert(body)
    return unescape_value(alert) if MARK in body else alert


def _decision(body: str) -> dict[str, Any]:
    decision: dict[str, Any] = orjson.loads(body)
    return unescape_value(decision) if MARK in body else decision


def _read(name: str, value: Any) -> Any:
    if name == "delivered_at":
        return instant_text(value)
    return unescape(value) if isinstance(value, str) else value


def _of_alerts(which: AlertFilter) -> Where:
    columns = {
        "rule_id": which.rule_id,
        "kind": which.kind,
        "severity": which.severity,
        "corrects": which.corrects,
    }
    where, values = _equal(columns, which.since_ms, which.until_ms)
    if which.key:
        where += " AND entities @> %s"
        values.append([entity(name, value) for name, value in which.key.items()])
    if which.version is not None:
        where += " AND rule_version = %s"
        values.append(which.version)
    return _of_batches(where, values, which.batches)


def _of_decisions(which: DecisionFilter) -> Where:
    columns = {"decision": which.decision, "stream": which.stream, "record_id": which.record_id}
    where, values = _equal(columns, which.since_ms, which.until_ms)
    where += " AND decision <> 'allow'" if which.but_allowed else ""
    return _of_batches(where, values, which.batches)


def _of_batches(where: str, values: list[Any], batches: tuple[str, int, int] | None) -> Where:
    if batches is None:
        return where, values
    pipeline, first, last = batches
    return f"{where} AND pipeline = %s AND batch_id BETWEEN %s AND %s", [*values, indexed(pipeline), first, last]


def _equal(columns: Mapping[str, str | None], since_ms: int | None, until_ms: int | None) -> Where:
    parts, values = ["true"], list[Any]()
    for column, value in columns.items():
        if value is not None:
            parts.append(f"{column} = %s")
            values.append(escape(value) if column in _NOT_INDEXED else indexed(value))
    for operator, instant in ((">=", since_ms), ("<", until_ms)):
        if instant is not None:
            parts.append(f"event_time {operator} %s::timestamptz")
            values.append(instant_text(instant))
    return " AND ".join(parts), values
