"""Hits: which rule version met which record, on what evidence, as typed values before anything is written of them.

They come from the kernel's numbers, or from the bits that routing gave to rules that look at the record alone; from
here on nobody needs to know which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from crossline.core.basics.fields import KeyValue
from crossline.core.basics.values import I64
from crossline.core.basics.wire import Arrays
from crossline.core.figures.kinds import ColumnKind
from crossline.core.plan.compile import LayerPlan, Stateless, StreamPlan
from crossline.core.plan.spaces import FormulaLine, KeySpacePlan, Line, Pattern
from crossline.core.route.keys import key_values
from crossline.core.rules.ruleset import RuleVersion
from crossline.core.windows.batch import FigureRead, Hits, KeyedBatch

# Of the record that was hit (ingest time, stream, log, sequence, offset, partition): what hits of several shards are
# put in order by, and where it stands. Where a stream is one log the time is 0, for then the log has the order.
Place = tuple[int, str, str, int, int, str]


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """A record of a window: its time on the rule's clock, and the aggregated number where there is one."""

    record_id: str
    clock_ms: int
    value: int | float | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule version's hit at a record.

    ``key``: fields in the order of ``group_by``. ``value`` may be an integer of any size or infinite; it and the window
    are None for a rule that looks at the record alone, and the value where a formula has none to show.
    ``record_ids``: the records that it rests on, oldest first. ``fields``: what its alert shows of the record.
    ``records``: the window's, where the rule lists them. ``figures``: those that a formula read; None for other rules.
    ``shows``: what came of further formulas. ``rests_on``: where its rule reads hits, the alerts of those that it rests
    on; ``record_ids`` are then the records that were hit. ``carried``: fields of the record, for rules that read this
    hit. ``reached_ms``: the highest ingest time that the record's log had reached by it.
    """

    version: RuleVersion
    place: Place
    key: Mapping[str, KeyValue]
    record_id: str
    event_ms: int
    ingest_ms: int
    value: float | None
    count: int
    window_start_ms: int | None
    window_end_ms: int | None
    record_ids: Sequence[str]
    fields: Mapping[str, Any]
    records: Sequence[WindowRecord] | None
    figures: Mapping[str, FigureRead] | None = None
    shows: Mapping[str, Any] = field(default_factory=dict)
    rests_on: Sequence[str] | None = None
    carried: Mapping[str, Any] = field(default_factory=dict)
    reached_ms: int = 0


def id_of_hit(alert_id: str, record_id: str) -> str:
    """What a hit is known by among the hits that a rule reads: its alert, and the record that was hit."""
    return f"{alert_id}{_BETWEEN}{record_id}"


_BETWEEN = "\x1f"


@dataclass(slots=True)
class JudgedRows:
    """A layer's part of a batch, judged: its rows in ingest order; ``chunks``: log, sequence, partition of each."""

    plan: StreamPlan
    layer_plan: LayerPlan
    batch: KeyedBatch
    rows: Arrays
    chunks: Sequence[tuple[str, int, str]]
    _keys: dict[int, dict[str, KeyValue]] = field(default_factory=dict)

    def window_hits(self, hits: Hits) -> Iterator[Hit]:
        """What the kernel found, in its order."""
        lines = [_LineOf(self, number, line) for number, line in enumerate(self.layer_plan.kernel.judging)]
        integral, whole, up, real = (a.tolist() for a in (hits.is_int, hits.value_i, hits.value_up, hits.value_f))
        ids = _texts(hits.evidence_id_bytes, hits.evidence_id_offsets)
        rows = hits.row.tolist()
        bounds = hits.evidence_offsets.tolist()
        for i, (number, row) in enumerate(zip(hits.line.tolist(), rows, strict=True)):
            line, first, last = lines[number], bounds[i], bounds[i + 1]
            ingest_ms = int(self.batch.ingest_ms[row])
            read = hits.formed.get(i)
            record_ids, rests_on = self._rests_on(ids[first:last])
            yield Hit(
                version=line.version(ingest_ms),
                place=self.place(row),
                key=self._key(int(self.batch.key_index[row])),
                record_id=self.record_id(row),
                event_ms=ingest_ms - int(self.batch.lateness_ms[row]),
                ingest_ms=ingest_ms,
                value=read.value if read else whole[i] + (up[i] << 64) if integral[i] else real[i],
                count=int(hits.count[i]),
                window_start_ms=int(hits.window_start_ms[i]),
                window_end_ms=int(hits.window_end_ms[i]),
                record_ids=record_ids,
                fields=read.fields if read else {},
                records=line.records(hits, record_ids, first, last),
                figures=read.figures if read else None,
                shows=read.shows if read else {},
                rests_on=rests_on,
                carried={name: self.batch.facts[name][row].as_py() for name in line.carried},
                reached_ms=self._reached_ms(row),
            )

    def stateless_hits(self, duplicates: np.ndarray[Any, Any]) -> Iterator[Hit]:
        """Of the rules that look at the record alone, at records that are no duplicates."""
        holds = np.unpackbits(self.rows["stateless"], axis=1, bitorder="little").astype(np.bool_)
        for number, rule in enumerate(self.plan.stateless):
            judged = holds[:, number] & ~duplicates & _in_force(rule, self.batch)
            for row in np.flatnonzero(judged).tolist():
                yield self._stateless_hit(rule, row)

    def _stateless_hit(self, rule: Stateless, row: int) -> Hit:
        start, end = self.rows["figure_offsets"][row], self.rows["figure_offsets"][row + 1]
        fields = orjson.loads(self.rows["figure_bytes"][start:end].tobytes())
        record_id = self.record_id(row)
        _, rests_on = self._rests_on([self._id(row)])
        carried = self.plan.carried.get(rule.version.rule.rule_id, ())
        return Hit(
            version=rule.version,
            place=self.place(row),
            key={},
            record_id=record_id,
            event_ms=int(self.rows["event_ms"][row]),
            ingest_ms=int(self.batch.ingest_ms[row]),
            value=None,
            count=1,
            window_start_ms=None,
            window_end_ms=None,
            record_ids=[record_id],
            fields={name: fields[name] for name in rule.shown_fields if name in fields},
            records=None,
            rests_on=rests_on,
            carried={name: fields.get(name) for name in carried},
            reached_ms=self._reached_ms(row),
        )

    def _rests_on(self, ids: list[str]) -> tuple[list[str], list[str] | None]:
        """The records of ``ids``, and, of hits, their alerts."""
        if not self.plan.of_hits:
            return ids, None
        known = [each.split(_BETWEEN, 1) for each in ids]
        return [record for _, record in known], [alert for alert, _ in known]

    def _reached_ms(self, row: int) -> int:
        return int(self.rows["reached"][row]) if "reached" in self.rows else int(self.batch.ingest_ms[row])

    def place(self, row: int) -> Place:
        """Where the record of ``row`` stands among all."""
        log, sequence, partition = self.chunks[self.rows["chunk"][row]]
        offset = int(self.rows["offsets"][row])
        return int(self.rows["place_ms"][row]), self.plan.base, log, sequence, offset, partition

    def record_id(self, row: int) -> str:
        """The id of the record of ``row``; of a hit, that of the record that was hit."""
        known = self._id(row)
        return known.split(_BETWEEN, 1)[1] if self.plan.of_hits else known

    def _id(self, row: int) -> str:
        start, end = self.batch.id_offsets[row], self.batch.id_offsets[row + 1]
        return self.batch.id_bytes[start:end].tobytes().decode()

    def _key(self, number: int) -> dict[str, KeyValue]:
        """Key ``number`` of the batch; each is read once."""
        known = self._keys.get(number)
        if known is None:
            start, end = self.batch.key_offsets[number], self.batch.key_offsets[number + 1]
            raw = self.batch.key_bytes[start:end].tobytes()
            known = self._keys[number] = key_values(self.plan.spec, self.layer_plan.layer.group_fields, raw)
        return known


class _LineOf:
    """What is asked of a line again and again."""

    def __init__(self, judged: JudgedRows, number: int, line: Line | FormulaLine | Pattern) -> None:
        kernel = judged.layer_plan.kernel
        self._versions = judged.layer_plan.versions[number]
        self._kind: ColumnKind | None = None
        if isinstance(kernel, KeySpacePlan) and isinstance(line, Line) and kernel.groups[line.group].column >= 0:
            self._kind = kernel.columns[kernel.groups[line.group].column][1]
        self._lists = judged.plan.programs[line.rule_id, line.version].evidence.lists
        self.carried = judged.plan.carried.get(line.rule_id, ())

    def version(self, ingest_ms: int) -> RuleVersion:
        """The version in force at an ingest time."""
        return next(version for version in self._versions if ingest_ms < version.effective_until_ms)

    def records(self, hits: Hits, record_ids: list[str], first: int, last: int) -> list[WindowRecord] | None:
        """The window's records, where the rule lists them."""
        if not self._lists:
            return None
        values: list[Any] = [None] * (last - first)
        if self._kind == "int":
            values = hits.evidence_value_i[first:last].tolist()
        elif self._kind == "float":
            values = hits.evidence_value_f[first:last].tolist()
        clocks = hits.evidence_clock_ms[first:last].tolist()
        return [WindowRecord(*each) for each in zip(record_ids, clocks, values, strict=True)]


def _in_force(rule: Stateless, batch: KeyedBatch) -> Any:
    version = rule.version
    mask = (batch.ingest_ms >= version.effective_from_ms) & (batch.ingest_ms < version.effective_until_ms)
    if rule.judge_lateness_ms is not None:
        mask &= batch.lateness_ms <= rule.judge_lateness_ms
    return mask


def _texts(data: np.ndarray[Any, Any], offsets: I64) -> list[str]:
    raw = data.tobytes()
    return [raw[a:b].decode() for a, b in pairwise(offsets.tolist())]
