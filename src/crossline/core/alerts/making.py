"""From the kernel's hits, which are numbers, to alerts, which people and programs read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from crossline.core.alerts.alert import AlertMaker
from crossline.core.basics.times import format_instant
from crossline.core.basics.values import KeyValue
from crossline.core.basics.wire import Arrays
from crossline.core.figures.kinds import ColumnKind
from crossline.core.plan.compile import LayerPlan, Stateless, StreamPlan
from crossline.core.route.keys import key_values
from crossline.core.windows.batch import Hits, KeyedBatch


@dataclass(slots=True)
class LayerAlerts:
    """Makes the alerts of one layer and batch; keys are read once each."""

    plan: StreamPlan
    layer_plan: LayerPlan
    batch: KeyedBatch
    detected_ms: int
    _keys: dict[int, dict[str, KeyValue]] = field(default_factory=dict)

    def make(self, hits: Hits) -> Iterator[tuple[int, dict[str, Any]]]:
        """The row and the alert of each hit, in the order of hits."""
        listing = [getattr(v[0].rule, "emit_mode", None) == "window" for v in self.layer_plan.versions]
        columns = [self._column_kind(line.group) for line in self.layer_plan.kernel.lines]
        integral, whole, up, real = (a.tolist() for a in (hits.is_int, hits.value_i, hits.value_up, hits.value_f))
        ids = _texts(hits.evidence_id_bytes, hits.evidence_id_offsets)
        rows = hits.row.tolist()
        triggers = _texts_at(self.batch.id_bytes, self.batch.id_offsets, rows)
        event = self._event_ms()
        bounds = hits.evidence_offsets.tolist()
        for i, (line, row) in enumerate(zip(hits.line.tolist(), rows, strict=True)):
            first, last = bounds[i], bounds[i + 1]
            alert = self._maker(line, int(self.batch.ingest_ms[row])).make(
                key=self._key(int(self.batch.key_index[row])),
                record_id=triggers[i],
                event_ms=int(event[row]),
                ingest_ms=int(self.batch.ingest_ms[row]),
                value=whole[i] + (up[i] << 64) if integral[i] else real[i],
                count=int(hits.count[i]),
                window_start_ms=int(hits.window_start_ms[i]),
                window_end_ms=int(hits.window_end_ms[i]),
                record_ids=ids[first:last],
                figures={},
                records=_records(hits, ids, first, last, columns[line]) if listing[line] else None,
                detected_ms=self.detected_ms,
            )
            yield row, alert

    def _maker(self, line: int, ingest_ms: int) -> AlertMaker:
        versions = self.layer_plan.versions[line]
        return maker_of(self.plan, next(v for v in versions if ingest_ms < v.effective_until_ms))

    def _event_ms(self) -> Any:
        return self.batch.ingest_ms - self.batch.lateness_ms

    def _column_kind(self, group_number: int) -> ColumnKind | None:
        column = self.layer_plan.kernel.groups[group_number].column
        return self.layer_plan.kernel.columns[column][1] if column >= 0 else None

    def _key(self, number: int) -> dict[str, KeyValue]:
        known = self._keys.get(number)
        if known is None:
            start, end = self.batch.key_offsets[number], self.batch.key_offsets[number + 1]
            raw = self.batch.key_bytes[start:end].tobytes()
            known = self._keys[number] = key_values(self.plan.spec, self.layer_plan.layer.group_fields, raw)
        return known


def _records(hits: Hits, ids: list[str], first: int, last: int, column: ColumnKind | None) -> list[dict[str, Any]]:
    """The window's records, for a rule that lists them.

    Each has its id, its time on the rule's clock, and the aggregated number where there is one.
    """
    rows = []
    for i in range(first, last):
        record: dict[str, Any] = {"record_id": ids[i], "time": format_instant(int(hits.evidence_clock_ms[i]))}
        if column == "int":
            record["value"] = int(hits.evidence_value_i[i])
        elif column == "float":
            record["value"] = float(hits.evidence_value_f[i])
        rows.append(record)
    return rows


def stateless_alerts(
    plan: StreamPlan, batch: KeyedBatch, rows: Arrays, duplicates: np.ndarray[Any, Any], detected_ms: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows and alerts of the rules that look at the record alone, for records that are no duplicates."""
    holds = np.unpackbits(rows["stateless"], axis=1, bitorder="little").astype(np.bool_)
    for number, rule in enumerate(plan.stateless):
        judged = holds[:, number] & ~duplicates & _in_force(rule, batch)
        for row in np.flatnonzero(judged).tolist():
            yield row, _stateless_alert(plan, rule, batch, rows, row, detected_ms)


def _in_force(rule: Stateless, batch: KeyedBatch) -> Any:
    version = rule.version
    mask = (batch.ingest_ms >= version.effective_from_ms) & (batch.ingest_ms < version.effective_until_ms)
    if rule.judge_lateness_ms is not None:
        mask &= batch.lateness_ms <= rule.judge_lateness_ms
    return mask


def _stateless_alert(
    plan: StreamPlan, rule: Stateless, batch: KeyedBatch, rows: Arrays, row: int, detected_ms: int
) -> dict[str, Any]:
    start, end = rows["figure_offsets"][row], rows["figure_offsets"][row + 1]
    figures = orjson.loads(rows["figure_bytes"][start:end].tobytes())
    record_id = _texts_at(batch.id_bytes, batch.id_offsets, [row])[0]
    return maker_of(plan, rule.version).make(
        key={},
        record_id=record_id,
        event_ms=int(rows["event_ms"][row]),
        ingest_ms=int(batch.ingest_ms[row]),
        value=None,
        count=1,
        window_start_ms=None,
        window_end_ms=None,
        record_ids=[record_id],
        figures={f: figures[f] for f in rule.figure_fields if f in figures},
        records=None,
        detected_ms=detected_ms,
    )


def maker_of(plan: StreamPlan, version: Any) -> AlertMaker:
    """The maker of a rule version's alerts, made once per plan."""
    known = plan.makers.get(id(version))
    if known is None:
        known = plan.makers[id(version)] = AlertMaker(version)
    return known


def _texts(data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> list[str]:
    raw = data.tobytes()
    ends = offsets.tolist()
    return [raw[a:b].decode() for a, b in pairwise(ends)]


def _texts_at(data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], rows: list[int]) -> list[str]:
    return [data[offsets[row] : offsets[row + 1]].tobytes().decode() for row in rows]
