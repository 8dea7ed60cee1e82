"""Reads the store in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.sqlite.schema import KEY_VALUE, check_schema
from crossline.io.sqlite.sink import OPEN_MS, translated_errors
from crossline.io.stores.protocol import AlertFilter, DecisionFilter, Mark, StoredAlert

_KEY_HAS = "seq IN (SELECT seq FROM alert_keys WHERE field = ? AND value = ?)"
_OLD_KEY_HAS = f"EXISTS (SELECT 1 FROM json_each(alerts.key) AS k WHERE k.key = ? AND {KEY_VALUE} = ?)"  # noqa: S608


class StoreReader:
    """Reads a store, also while a pipeline writes to it. Raises UsageError where there is no file at ``path``."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no store at {path}; give the path of a pipeline's sqlite sink")
        self.path = path
        self.name = str(path)
        self.files: tuple[Path, ...] = (path,)
        with translated_errors(path):
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=OPEN_MS / 1000)
            self._connection.row_factory = sqlite3.Row
            self._version = check_schema(self._connection, path)
            self._decides = self._version not in {"1", "2", "3"}  # older stores have no decisions
            self._keyed = self._version not in {"1", "2", "3", "4"}  # older stores have keys in alerts alone

    def alerts(
        self, which: AlertFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Alerts as delivered, in order of event time, the first ``limit`` in that order."""
        where, values = _of_alerts(which, self._keyed)
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT body FROM alerts WHERE {where} ORDER BY event_time {order}, seq {order} LIMIT ?"  # noqa: S608
        values.append(-1 if limit is None else limit)
        with translated_errors(self.path):
            for row in self._connection.execute(query, values):
                yield read_alert(row["body"])

    def alerts_before(self, which: AlertFilter, before: Mark | None, limit: int) -> list[tuple[Mark, dict[str, Any]]]:
        """The first ``limit`` alerts before a mark, the latest first; None: from the latest on."""
        rows = self._all(*_before("alerts", _of_alerts(which, self._keyed), before, limit))
        return [((row["event_time"], row["seq"]), read_alert(row["body"])) for row in rows]

    def decisions_before(
        self, which: DecisionFilter, before: Mark | None, limit: int
    ) -> list[tuple[Mark, dict[str, Any]]]:
        """As ``alerts_before``, of decisions and revisions."""
        rows = self._all(*_before("decisions", _of_decisions(which), before, limit)) if self._decides else []
        return [((row["event_time"], row["seq"]), orjson.loads(row["body"])) for row in rows]

    def count(self, which: AlertFilter) -> int:
        """How many alerts there are."""
        where, values = _of_alerts(which, self._keyed)
        return int(self._one(f"SELECT count(*) FROM alerts WHERE {where}", values))  # noqa: S608

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        where = "NULL, NULL" if self._version in {"1", "2"} else "at_partition, at_offset"
        # Ids have no character above f, so that g bounds them; the range uses the index, LIKE would not.
        query = f"""SELECT body, pipeline, {where} FROM alerts WHERE alert_id >= ? AND alert_id < ?
            ORDER BY alert_id LIMIT ?"""  # noqa: S608
        low = prefix.lower()
        return [
            StoredAlert(read_alert(body), pipeline, None if offset is None else (partition, offset))
            for body, pipeline, partition, offset in self._all(query, [low, f"{low}g", limit])
        ]

    def decisions(
        self, which: DecisionFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Decisions and revisions as delivered, in order of event time, the first ``limit`` in that order."""
        where, values = _of_decisions(which)
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT body FROM decisions WHERE {where} ORDER BY event_time {order}, seq {order} LIMIT ?"  # noqa: S608
        if not self._decides:
            return
        with translated_errors(self.path):
            for row in self._connection.execute(query, [*values, -1 if limit is None else limit]):
                yield orjson.loads(row["body"])

    def count_decisions(self, which: DecisionFilter) -> int:
        """How many decisions there are, revisions among them."""
        where, values = _of_decisions(which)
        return int(self._one(f"SELECT count(*) FROM decisions WHERE {where}", values)) if self._decides else 0  # noqa: S608

    def find_decisions(self, name: str, limit: int = 10) -> list[dict[str, Any]]:
        """Decisions whose id starts with ``name``, and those on the record whose id it is; at most ``limit``."""
        query = """SELECT body FROM decisions WHERE (decision_id >= ? AND decision_id < ?) OR record_id = ?
            ORDER BY event_time, seq LIMIT ?"""
        low = name.lower()
        rows = self._all(query, [low, f"{low}g", name, limit]) if self._decides else []
        return [orjson.loads(row["body"]) for row in rows]

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """A version of a rule as ``pipeline`` took it up; None where the store does not have it."""
        query = "SELECT body FROM rule_history WHERE pipeline = ? AND rule_id = ? AND version = ? ORDER BY seq DESC"
        events = [orjson.loads(row["body"]) for row in self._all(query, [pipeline, rule_id, version])]
        return next((event["body"] for event in events if event.get("body")), None)

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Partitions and offsets of records of ``stream`` with these ids that were refused, or came too late."""
        which = """FROM {} WHERE pipeline = ? AND stream = ? AND record_id IN (SELECT value FROM json_each(?))"""
        tables = [f'SELECT "partition", "offset" {which.format(name)}' for name in ("dead_letters", "late_records")]
        values = [pipeline, stream, orjson.dumps(list(record_ids)).decode()]
        return {(row[0], row[1]) for row in self._all(" UNION ".join(tables), values * 2)}

    def rule_ids(self) -> list[str]:
        """The rules that have alerts here."""
        return [row["rule_id"] for row in self._all("SELECT DISTINCT rule_id FROM alerts ORDER BY rule_id")]

    def batch_figures(self, pipeline: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """When the last batches of ``pipeline`` were delivered, and what each measured, the latest first."""
        query = "SELECT delivered_at, figures FROM batches WHERE pipeline = ? ORDER BY batch_id DESC LIMIT ?"
        return [(at, orjson.loads(figures)) for at, figures in self._all(query, [pipeline, limit])]

    def dead_counts(self) -> dict[str, int]:
        """Dead letters by reason, most first."""
        query = "SELECT reason, count(*) AS n FROM dead_letters GROUP BY reason ORDER BY n DESC, reason"
        return {row["reason"]: row["n"] for row in self._all(query)}

    def dead_letters(self, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Dead letters in the order of their delivery; ``raw`` is bytes, or None where only the source has them."""
        query = """SELECT stream, "partition", "offset", reason, detail, record_id, raw, delivered_at FROM dead_letters
            WHERE ? IS NULL OR reason = ? ORDER BY seq LIMIT ?"""
        return [dict(row) for row in self._all(query, [reason, reason, -1 if limit is None else limit])]

    def dead_numbers(self) -> tuple[int, int]:
        """The numbers of the first and of the last dead letter of all pipelines; (0, -1) where there is none."""
        first, last = self._all("SELECT min(seq), max(seq) FROM dead_letters")[0]
        return (0, -1) if first is None else (first, last)

    def dead_between(
        self, pipeline: str, numbers: range, reason: str | None, limit: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Dead letters of a pipeline with these numbers, the latest first, at most ``limit``, each with its number."""
        query = """SELECT seq, stream, "partition", "offset", reason, detail, record_id, raw, delivered_at
            FROM dead_letters WHERE seq >= ? AND seq < ? AND pipeline = ? AND (? IS NULL OR reason = ?)
            ORDER BY seq DESC LIMIT ?"""
        rows = self._all(query, [numbers.start, numbers.stop, pipeline, reason, reason, limit])
        return [(row["seq"], {name: row[name] for name in row.keys() if name != "seq"}) for row in rows]  # noqa: SIM118 - a row has values

    def dead_reasons(self, pipeline: str, numbers: range) -> dict[str, int]:
        """How many dead letters of a pipeline with these numbers there are, by reason, most first."""
        query = """SELECT reason, count(*) AS n FROM dead_letters WHERE seq >= ? AND seq < ? AND pipeline = ?
            GROUP BY reason ORDER BY n DESC, reason"""
        return {row["reason"]: row["n"] for row in self._all(query, [numbers.start, numbers.stop, pipeline])}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _all(self, query: str, values: list[Any] | None = None) -> list[sqlite3.Row]:
        with translated_errors(self.path):
            return self._connection.execute(query, values or []).fetchall()

    def _one(self, query: str, values: list[Any]) -> Any:
        return self._all(query, values)[0][0]


Where = tuple[str, list[Any]]


def _before(table: str, which: Where, before: Mark | None, limit: int) -> Where:
    """A query for what stands before a mark in the order of event time and number, and its parameters."""
    where, values = which
    if before is not None:
        where, values = f"{where} AND (event_time, seq) < (?, ?)", [*values, *before]
    query = f"SELECT event_time, seq, body FROM {table} WHERE {where} ORDER BY event_time DESC, seq DESC LIMIT ?"  # noqa: S608
    return query, [*values, limit]


def _of_alerts(which: AlertFilter, keyed: bool) -> Where:
    """The SQL condition and its parameters."""
    columns = {
        "rule_id": which.rule_id,
        "kind": which.kind,
        "severity": which.severity,
        "json_extract(body, '$.corrects')": which.corrects,
    }
    parts, values = _equal(columns, which.since_ms, which.until_ms)
    for name, value in which.key.items():
        parts.append(_KEY_HAS if keyed else _OLD_KEY_HAS)
        values += [name, value]
    if which.version is not None:
        parts.append("rule_version = ?")
        values.append(which.version)
    return _of_batches(" AND ".join(parts), values, which.batches)


def _of_decisions(which: DecisionFilter) -> Where:
    columns = {"decision": which.decision, "stream": which.stream, "record_id": which.record_id}
    parts, values = _equal(columns, which.since_ms, which.until_ms)
    where = " AND ".join([*parts, *(["decision <> 'allow'"] if which.but_allowed else [])])
    return _of_batches(where, values, which.batches)


def _of_batches(where: str, values: list[Any], batches: tuple[str, int, int] | None) -> Where:
    if batches is None:
        return where, values
    return f"{where} AND pipeline = ? AND batch_id BETWEEN ? AND ?", [*values, *batches]


def _equal(columns: dict[str, str | None], since_ms: int | None, until_ms: int | None) -> tuple[list[str], list[Any]]:
    given = {column: value for column, value in columns.items() if value is not None}
    parts, values = ["1", *(f"{column} = ?" for column in given)], list[Any](given.values())
    for operator, instant in ((">=", since_ms), ("<", until_ms)):
        if instant is not None:
            parts.append(f"event_time {operator} ?")
            values.append(format_instant(instant))
    return parts, values
