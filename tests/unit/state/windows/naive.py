"""Detection in one key space by scanning all earlier records, and batches made of plain rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.formula.naive import evaluate
from crossline.plan.spaces import AggregateSpec, ComparisonPlan, FeatureQueryPlan, FormulaPlan, KeySpacePlan, WindowSpec
from crossline.programs.aggregate import Scanned
from crossline.programs.registry import declared
from crossline.state.batch import Hits, KeyedBatch
from crossline.state.memory.hashing import xxh64_many

FACTS = {"x": pa.int64(), "y": pa.float64(), "s": pa.string(), "b": pa.bool_()}
FOREVER = (-(2**63), 2**63 - 1)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Row:
    key: str
    id: str
    clock: int
    values: tuple[Any, ...] = ()
    filters: tuple[int, ...] = (0,)
    ingest: int | None = None
    lateness: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ingest_ms(self) -> int:
        return self.clock if self.ingest is None else self.ingest


@dataclass(frozen=True)
class Hit:
    line: int
    row: int
    value: Any
    count: int
    start: int
    end: int
    evidence: tuple[str, ...]


@dataclass
class Naive:
    """``rows`` in ingest order, over any number of calls."""

    plan: KeySpacePlan
    rows: list[Row] = field(default_factory=list)
    satisfied: dict[tuple[int, str], int] = field(
        default_factory=dict
    )  # clock at which the last judged record was satisfied
    emitted: dict[tuple[int, str], int] = field(default_factory=dict)
    features_out: list[Any] = field(default_factory=list)  # of the batch judged last, as ``feature_values`` has it

    def judge(self, rows: Sequence[Row]) -> tuple[list[Hit], list[bool]]:
        hits, duplicates = [], []
        self.features_out = []
        for number, row in enumerate(rows):
            duplicates.append(any(r.key == row.key and r.id == row.id for r in self.rows))
            if duplicates[-1] or not row.filters:
                continue
            for i, line in enumerate(self.plan.lines):
                hit = self._line(i, line, row, number)
                hits += [hit] if hit else []
            for i, formula in enumerate(self.plan.formulas, len(self.plan.lines)):
                hit = self._formula(i, formula, row, number)
                hits += [hit] if hit else []
            self.features_out += [
                (i, number, name, self.value(self.plan.aggregates[group], cursor, row), len(self.window(cursor, row)))
                for i, feature_query in enumerate(self.plan.feature_queries)
                for name, group, _ in feature_query.figures
                if self._judges(feature_query, feature_query.filter, row) and (cursor := self._cursor(group))
            ]
            self.rows.append(row)
        return hits, duplicates

    def _line(self, i: int, line: ComparisonPlan, row: Row, number: int) -> Hit | None:
        group = self.plan.aggregates[line.aggregate]
        cursor = self.plan.windows[group.window]
        if not self._judges(line, cursor.filter, row):
            return None
        value = self.value(group, cursor, row)
        holds = value is not None and OPERATORS[line.operator](value, line.threshold)
        if not self._emits(i, line, row, holds, cursor.window_ms + cursor.left_closed):
            return None
        return self._hit(i, number, value, cursor, row)

    def _formula(self, i: int, formula: FormulaPlan, row: Row, number: int) -> Hit | None:
        if not self._judges(formula, formula.filter, row):
            return None
        groups = {name: self.plan.aggregates[group] for name, group, _ in formula.figures}
        read = {name: self.value(group, self.plan.windows[group.window], row) for name, group in groups.items()}
        read |= row.facts
        if not self._emits(i, formula, row, evaluate(formula.verdict.when.root, read) is True, formula.rearm_ms):
            return None
        shown = formula.verdict.value
        value = evaluate(shown.root, read) if shown else None
        return self._hit(i, number, value, self.plan.windows[self.plan.aggregates[formula.figures[0][2]].window], row)

    def _cursor(self, group: int) -> WindowSpec:
        return self.plan.windows[self.plan.aggregates[group].window]

    def _judges(self, line: ComparisonPlan | FormulaPlan | FeatureQueryPlan, entry: int, row: Row) -> bool:
        late = line.judge_lateness_ms is not None and row.lateness > line.judge_lateness_ms
        effective = any(start <= row.ingest_ms < end for start, end in line.spans)
        return entry in row.filters and not late and effective

    def _emits(self, i: int, line: ComparisonPlan | FormulaPlan, row: Row, holds: bool, rearm_ms: int) -> bool:
        before = self.satisfied.pop((i, row.key), None)
        if not holds:
            return False
        self.satisfied[i, row.key] = row.clock
        if not line.emit_every and before is not None and before > row.clock - rearm_ms:
            return False
        if line.cooldown_ms:
            if (i, row.key) in self.emitted and row.clock < self.emitted[i, row.key] + line.cooldown_ms:
                return False
            self.emitted[i, row.key] = row.clock
        return True

    def _hit(self, i: int, number: int, value: Any, cursor: WindowSpec, row: Row) -> Hit:
        window, end = self.window(cursor, row), row.clock - cursor.delay_ms
        evidence = tuple(r.id for r in window[-50:])
        return Hit(i, number, value, len(window), end - cursor.window_ms, end, evidence)

    def window(self, cursor: WindowSpec, row: Row) -> list[Row]:
        high = row.clock - cursor.delay_ms
        low = high - cursor.window_ms
        found = [
            r
            for r in self.rows
            if r.key == row.key
            and cursor.filter in r.filters
            and (low <= r.clock if cursor.left_closed else low < r.clock)
            and (r.clock < high if cursor.right_open else r.clock <= high)
        ]
        itself = cursor.include_current and not cursor.delay_ms and cursor.filter in row.filters
        return sorted(found + [row] * itself, key=lambda r: r.clock)  # stable: ties by ingest order

    def value(self, group: AggregateSpec, cursor: WindowSpec, row: Row) -> Any:
        """By the twin that the aggregate declares."""
        window, aggregate = self.window(cursor, row), declared(group.aggregate)
        of_field = group.column >= 0 and not aggregate.meets
        scanned = Scanned(
            values=[r.values[group.column] if of_field else 1 for r in window],
            clocks_ms=[r.clock for r in window],
            now_ms=row.clock,
            meets=[group.column in r.filters for r in window],
            real=of_field and self.plan.columns[group.column][1] == "float",
            rank=group.rank,
            half_life_ms=group.half_life_ms,
        )
        return aggregate.by_twin(scanned)


def strings(items: Sequence[str]) -> tuple[Any, Any]:
    raw = [x.encode() for x in items]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


def batch_of(plan: KeySpacePlan, rows: Sequence[Row]) -> KeyedBatch:
    keys = sorted({r.key for r in rows})
    key_bytes, key_offsets = strings(keys)
    id_bytes, id_offsets = strings([r.id for r in rows])
    entries = np.zeros((len(rows), (plan.filters + 7) // 8), np.uint8)
    for i, row in enumerate(rows):
        for e in row.filters:
            entries[i, e >> 3] |= 1 << (e & 7)
    return KeyedBatch(
        clock_ms=np.array([r.clock for r in rows], np.int64),
        ingest_ms=np.array([r.ingest_ms for r in rows], np.int64),
        lateness_ms=np.array([r.lateness for r in rows], np.int64),
        key_index=np.array([keys.index(r.key) for r in rows], np.int32),
        key_bytes=key_bytes,
        key_offsets=key_offsets,
        key_hash=xxh64_many(key_bytes, key_offsets),
        id_bytes=id_bytes,
        id_offsets=id_offsets,
        values=tuple(
            np.array([r.values[i] for r in rows], np.float64 if kind == "float" else np.int64)
            for i, (_, kind) in enumerate(plan.columns)
        ),
        filters=entries,
        facts={name: pa.array([r.facts[name] for r in rows], FACTS[name]) for name in (rows[0].facts if rows else ())},
    )


def plain(hits: Hits) -> list[Hit]:
    """The kernel's hits as the naive ones are."""
    out = []
    for i in range(len(hits)):
        at = range(hits.evidence_offsets[i], hits.evidence_offsets[i + 1])
        ids = [
            hits.evidence_id_bytes[hits.evidence_id_offsets[k] : hits.evidence_id_offsets[k + 1]].tobytes().decode()
            for k in at
        ]
        whole = int(hits.value_i[i]) + int(hits.value_up[i]) * 2**64
        value = whole if hits.is_int[i] else float(hits.value_f[i])
        value = hits.formula_reads[i].value if i in hits.formula_reads else value
        out.append(
            Hit(
                int(hits.line[i]),
                int(hits.row[i]),
                value,
                int(hits.count[i]),
                int(hits.window_start_ms[i]),
                int(hits.window_end_ms[i]),
                tuple(ids),
            )
        )
    return sorted(out, key=lambda h: (h.row, h.line))


def feature_values(hits: Hits) -> list[Any]:
    """The figures that the kernel emitted: number of the feature query, row, name, value, records in the window."""
    out = []
    for i, reported in enumerate(hits.features):
        for name, figure in reported.figures.items():
            for k, row in enumerate(reported.rows.tolist()):
                value = figure.values[k].item() + (0 if figure.up is None else int(figure.up[k]) * 2**64)
                out.append((i, row, name, value if figure.defined[k] else None, int(figure.counts[k])))
    return out


def line(group: int = 0, op: Any = ">=", threshold: float = 0, **changes: Any) -> ComparisonPlan:
    """A threshold that is judged at every record and emits at each by default."""
    given = {
        "rule_id": "r",
        "version": 1,
        "emit_every": True,
        "cooldown_ms": 0,
        "spans": (FOREVER,),
        "judge_lateness_ms": None,
    }
    return ComparisonPlan(aggregate=group, operator=op, threshold=threshold, **(given | changes))


def count_plan(
    window_ms: int, *lines: ComparisonPlan, left: bool = False, right: bool = False, include: bool = True
) -> KeySpacePlan:
    """Counts in one window."""
    cursor = WindowSpec(0, window_ms, left, right, include)
    return KeySpacePlan((), 1, (cursor,), (AggregateSpec(0, -1, "count"),), lines, window_ms)
