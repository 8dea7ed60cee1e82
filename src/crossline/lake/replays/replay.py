"""Replay: rules over the records of a lake, with the same ids, values and evidence as in the stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.backtest.backtest import BacktestSpec
from crossline.basics.times import parse_instant_ms
from crossline.evaluate.alerts.alert_json import json_bytes, read_alert
from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import between
from crossline.lake.tables.table_layouts import ALERTS, BATCH, CORRECTIONS, DELIVERED
from crossline.lake.time_travel import read_body

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


@dataclass(frozen=True, slots=True)
class IngestSpan:
    """Records whose ingest time is at or after ``from_ms`` and before ``to_ms``; None: without a bound."""

    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, instant: str) -> bool:
        """Whether an instant is within."""
        if self.from_ms is None and self.to_ms is None:
            return True
        ms = parse_instant_ms(instant)
        return (self.from_ms is None or ms >= self.from_ms) and (self.to_ms is None or ms < self.to_ms)

    def condition(self) -> BooleanExpression:
        """Rows of alerts and decisions on records within."""
        return between("ingest_time", self.from_ms, None if self.to_ms is None else self.to_ms - 1)


def reach_ms(judged: BacktestSpec) -> int:
    """How long before a record the records are that its rules may read: the longest memory of their state stores."""
    plans = judged.snapshot(judged.rules, 1).plans()
    stores = (each.state_store for plan in plans for each in plan.state_stores)
    return max((store.remembers_ms for store in stores), default=0) + judged.bounds.partition_lag_ms


def keep_span(source: Path, output: Path, span: IngestSpan) -> int:
    """Copy the alerts or decisions of a span from JSON lines to a file of their own; how many there are."""
    count = 0
    with source.open("rb") as lines, output.open("wb") as out:
        for line in lines:
            if span.has(read_alert(line)["ingest_time"]):
                out.write(line)
                count += 1
    return count


def write_delivered(reader: LakeReader, span: IngestSpan, output: Path) -> int:
    """Write the alerts and corrections that the stream gave for the records of a span, as JSON lines; how many."""
    count = 0
    with output.open("wb") as out:
        for alert in delivered_alerts(reader, span):
            out.write(json_bytes(alert) + b"\n")
            count += 1
    return count


def delivered_alerts(
    reader: LakeReader, span: IngestSpan, where: Iterable[BooleanExpression] = ()
) -> Iterator[dict[str, Any]]:
    """The alerts and corrections of the records of a span, in the order of their batches, alerts first."""
    conditions = list(where)
    known_ms = reader.known_ms()
    if known_ms is not None:
        conditions.append(between(DELIVERED, None, known_ms))
    if span.from_ms is not None or span.to_ms is not None:
        conditions.append(span.condition())
    found: list[tuple[Any, int, int, str]] = []
    for order, name in enumerate((ALERTS.name, CORRECTIONS.name)):
        rows = reader.rows(name, conditions, (BATCH, DELIVERED, "body"))
        columns = (rows.column(each).to_pylist() for each in (DELIVERED, BATCH, "body"))
        found += [(at, batch, order, body) for at, batch, body in zip(*columns, strict=True)]
    for *_, body in sorted(found, key=lambda each: each[:3]):
        yield read_body(body)
