"""Streams with tables, their files, and the twin: for each record, all rows of all contents are looked through."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.enrich.join import Join, held
from crossline.ingest.enrich.messages import last_of_each, read_messages
from crossline.ingest.enrich.overlay import CHANGE, Overlay, overlaid
from crossline.ingest.enrich.rows import TableFile, TableForm, form_of, read_table
from crossline.ingest.enrich.table import Table
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.table_log import TableLog, TableStore

from .conditions import field_value

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """Rows that hold from ``begins_ms`` on, the first ones of a table from the beginning."""

    begins_ms: int | None
    rows: Sequence[Row]


@dataclass
class NaiveTable:
    """A table in Python values. ``key``: by field of the record the column; ``fields``: those that records get."""

    name: str
    key: Mapping[str, str]
    fields: Sequence[str]
    valid_from: str | None = None
    contents: list[Content] = field(default_factory=list)

    def row(self, record: Mapping[str, Any], ingest_ms: int) -> Row | None:
        """The row of a record that came at ``ingest_ms``."""
        wanted = [field_value(record, name) for name in self.key]
        standing = list(self.contents[:1])
        standing += [each for each in self.contents[1:] if each.begins_ms is None or each.begins_ms <= ingest_ms]
        found: Row | None = None
        latest = None
        for row in standing[-1].rows if standing else ():
            since = row.get(self.valid_from) if self.valid_from else None
            if None in wanted or [row[column] for column in self.key.values()] != wanted:
                continue
            if since is not None and since > ingest_ms:
                continue
            if found is None or (since is not None and (latest is None or since > latest)):
                found, latest = row, since
        return found

    def given(self, record: Mapping[str, Any], ingest_ms: int) -> dict[str, Any]:
        """The fields that the record gets."""
        row = self.row(record, ingest_ms) or {}
        return {f"{self.name}.{name}": row.get(name) for name in self.fields}


def lines(rows: Sequence[Row]) -> bytes:
    """As JSON lines."""
    return b"".join(orjson.dumps(dict(row)) + b"\n" for row in rows)


def table_of(form: TableForm, rows: Sequence[Row]) -> Table:
    """Through the reader of files."""
    return Table(read_table(form, [TableFile("rows.jsonl", lines(rows))]))


def joins_of(spec: StreamSpec, stream: str, tables: Sequence[NaiveTable]) -> list[Join]:
    """The same tables for the join."""
    found = []
    for each in tables:
        form = form_of(each.name, spec)
        versions = [
            ({} if content.begins_ms is None else {stream: content.begins_ms}, table_of(form, content.rows))
            for content in each.contents
        ]
        found.append(Join(each.name, tuple(each.key), form.fields, held(versions, stream)))
    return found


def changes_join(spec: StreamSpec, stream: str, table: NaiveTable) -> Join:
    """The same table for the join as its first content and what changed since, row by row, as messages say it."""
    form = form_of(table.name, spec)
    (column,) = table.key.values()
    parts: list[pa.Table] = []
    begins: list[dict[str, int]] = []
    for number, (before, after) in enumerate(itertools.pairwise(table.contents)):
        old, new = ({row[column]: row for row in each.rows} for each in (before, after))
        put = {key: orjson.dumps(dict(row)) for key, row in new.items() if old.get(key) != row}
        body = {**put, **dict.fromkeys(key for key in old if key not in new)}
        keys, values = pa.array([key.encode() for key in body], pa.binary()), pa.array(body.values(), pa.binary())
        read = read_messages(form, "text", keys, values)
        assert not read.refused
        rows = last_of_each(read.rows)
        parts.append(rows.append_column(CHANGE, pa.array([number] * len(rows), pa.int64())))
        begins.append({} if after.begins_ms is None else {stream: after.begins_ms})
    over = {0: Overlay(overlaid(pa.concat_tables(parts), begins, [stream]), stream)} if parts else {}
    versions = [({}, table_of(form, table.contents[0].rows))]
    return Join(table.name, tuple(table.key), form.fields, held(versions, stream, over))


def with_fields(records: Sequence[Mapping[str, Any]], tables: Sequence[NaiveTable]) -> list[dict[str, Any]]:
    """Records of the twin with what tables give them."""
    return [
        {**record, **{name: v for each in tables for name, v in each.given(record, record["_ingest_ms"]).items()}}
        for record in records
    ]


def logged(tables: Sequence[NaiveTable], spec: StreamSpec, stream: str, store: TableStore) -> TableLog:
    """The log that a pipeline has of these contents, each kept in ``store``."""
    log = TableLog(store, {each.name: (stream,) for each in tables})
    for each in tables:
        for content in each.contents:
            file = FileContent(lines(content.rows))
            files = {"rows.jsonl": file}
            store.keep(each.name, files, store.read(each.name, files))
            begins = {} if content.begins_ms is None else {stream: content.begins_ms}
            event = RuleEvent("table_changed", 0, table_name=each.name, files={"rows.jsonl": file.digest})
            log = log.after([replace(event, begins_ms=begins)])
    return log


def store_in(folder: Path, tables: Sequence[NaiveTable], spec: StreamSpec) -> TableStore:
    """A place for contents of ``tables``."""
    return TableStore(folder / "log.jsonl", folder / "sorted", {each.name: form_of(each.name, spec) for each in tables})
