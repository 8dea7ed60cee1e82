"""Results of the library: tables for any Arrow library, which notebooks display."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from crossline.api.extras import require_library
from crossline.basics.deadletter import DeadLetter
from crossline.evaluate.alerts.alert import alert_table
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.base import LateRecord

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SHOWN_ROWS, SHOWN_CHARACTERS = 20, 120  # of a table in a notebook
_TIME = pa.timestamp("ms", tz="UTC")
# Columns for what programs compare; ``reasons`` and the whole decision as JSON.
DECISION_SCHEMA = pa.schema(
    [
        *(("decision_id", pa.string()), ("kind", pa.string()), ("revision", pa.int32()), ("stream", pa.string())),
        *(("record_id", pa.string()), ("decision", pa.string()), ("score", pa.int64()), ("reasons", pa.string())),
        *(("policy_version", pa.int32()), ("event_time", _TIME), ("ingest_time", _TIME), ("decided_at", _TIME)),
        ("json", pa.string()),
    ]
)


class Result:
    """A table. Any library that takes Arrow's C stream takes it as it is.

    ``shown``: its columns in a notebook.
    """

    shown: Sequence[str] = ()

    def to_arrow(self) -> pa.Table:
        """As a pyarrow Table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas DataFrame. Raises UsageError if pandas is not installed."""
        require_library("pandas", "to_pandas()")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """As a Polars DataFrame. Raises UsageError if Polars is not installed."""
        polars = require_library("polars", "to_polars()")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C stream: ``pl.DataFrame(result)``, ``pa.table(result)``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.to_arrow())

    def _summary(self) -> str:
        return f"{len(self):,} rows"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def _repr_html_(self) -> str:
        """A table for notebooks; every text is escaped."""
        table = self.to_arrow()
        names = list(self.shown or table.column_names)
        rows = table.select(names).slice(0, SHOWN_ROWS).to_pylist()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{_cell(row[name])}</td>" for name in names) + "</tr>" for row in rows)
        more = f"<p>{len(table) - len(rows):,} more rows</p>" if len(table) > len(rows) else ""
        text = escape(self._summary())
        return f"<p>{text}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class Alerts(Result):
    """Alerts in the order of their records: items are the alerts as JSON values, columns those of ``ALERT_SCHEMA``.

    Attributes:
        records: the number of judged records.
        dead_letters: the records that could not be decoded, each with its reason; ``offset`` is its row.
        late_records: the records that were too late to be judged.
    """

    shown = ("event_time", "rule_id", "severity", "key", "value", "record_id", "message")

    def __init__(
        self,
        alerts: Sequence[Mapping[str, Any]],
        *,
        records: int = 0,
        dead_letters: Sequence[DeadLetter] = (),
        late_records: Sequence[LateRecord] = (),
    ) -> None:
        self._alerts = alerts
        self.records = records
        self.dead_letters = dead_letters
        self.late_records = late_records

    @cached_property
    def _table(self) -> pa.Table:
        return alert_table(self._alerts)

    def to_arrow(self) -> pa.Table:
        """As a pyarrow Table with the columns of ``ALERT_SCHEMA``."""
        return self._table

    def __len__(self) -> int:
        return len(self._alerts)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._alerts)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        return self._alerts[number]

    def _summary(self) -> str:
        parts = [f"{len(self):,} alerts of {self.records:,} records"]
        if self.dead_letters:
            first = self.dead_letters[0]
            parts.append(f"{len(self.dead_letters):,} dead letters (row {first.offset}: {first.detail})")
        if self.late_records:
            parts.append(f"{len(self.late_records):,} late records")
        return ", ".join(parts)


class Decisions(Result):
    """Decisions in the order of their records: items are JSON values, columns those of ``DECISION_SCHEMA``."""

    shown = ("event_time", "record_id", "decision", "score", "reasons")

    def __init__(self, decisions: Sequence[Mapping[str, Any]]) -> None:
        self._decisions = decisions

    @cached_property
    def _table(self) -> pa.Table:
        return decision_table(self._decisions)

    def to_arrow(self) -> pa.Table:
        """As a pyarrow Table with the columns of ``DECISION_SCHEMA``."""
        return self._table

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._decisions)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        return self._decisions[number]

    def _summary(self) -> str:
        return f"{len(self):,} decisions"


class Figures(Result):
    """A row for each record, in order: its id, its event time, and its figures, null if it has no value.

    Attributes:
        records: the number of records.
        dead_letters: the records that could not be decoded, each with its reason.
    """

    def __init__(self, table: pa.Table, *, records: int, dead_letters: Sequence[DeadLetter] = ()) -> None:
        self._table = table
        self.records = records
        self.dead_letters = dead_letters

    def to_arrow(self) -> pa.Table:
        """As a pyarrow Table."""
        return self._table

    def _summary(self) -> str:
        dead = f", {len(self.dead_letters):,} dead letters" if self.dead_letters else ""
        return f"figures of {len(self):,} records{dead}"


def decision_table(decisions: Sequence[Mapping[str, Any]]) -> pa.Table:
    """``decisions`` as a table of ``DECISION_SCHEMA``."""
    columns = {
        field.name: [each.get(field.name) for each in decisions] for field in DECISION_SCHEMA if field.type != _TIME
    }
    columns |= {"reasons": [orjson.dumps(each["reasons"]).decode() for each in decisions]}
    columns |= {"json": [json_bytes(each).decode() for each in decisions]}
    arrays = []
    for field in DECISION_SCHEMA:
        if field.type == _TIME:
            texts = pa.array([each.get(field.name) for each in decisions], pa.string())
            arrays.append(texts.cast(_TIME))
        else:
            arrays.append(pa.array(columns[field.name], field.type))
    return pa.Table.from_arrays(arrays, schema=DECISION_SCHEMA)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value.isoformat(timespec="milliseconds") if hasattr(value, "isoformat") else str(value)
    return escape(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…")
