"""Detection of sequences with plain lists of plain rows, and batches made of such rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossline.plan.pattern_spaces import PatternSpacePlan, SequencePlan, StepPlan
from crossline.state.batch import Hits, KeyedBatch
from crossline.state.memory.hashing import xxh64_many

FOREVER = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Row:
    key: str
    id: str
    clock: int
    filters: tuple[int, ...] = (0,)
    ingest: int | None = None
    lateness: int = 0

    @property
    def ingest_ms(self) -> int:
        return self.clock if self.ingest is None else self.ingest


@dataclass(frozen=True)
class Hit:
    line: int
    row: int
    count: int
    start: int
    end: int
    evidence: tuple[str, ...]


Match = list[Row]


@dataclass
class Naive:
    """``rows`` in ingest order, over any number of calls. It forgets nothing."""

    plan: PatternSpacePlan
    rows: list[Row] = field(default_factory=list)
    under_way: dict[tuple[str, int, str], list[Match]] = field(default_factory=dict)  # by rule id, version and key
    last_hit_ms: dict[tuple[str, int, str], int] = field(default_factory=dict)  # the clock of the last emitted hit

    def judge(self, rows: Sequence[Row]) -> tuple[list[Hit], list[bool]]:
        hits, duplicates = [], []
        for number, row in enumerate(rows):
            duplicates.append(any(r.key == row.key and r.id == row.id for r in self.rows))
            if duplicates[-1] or not row.filters:
                continue
            for i, line in enumerate(self.plan.lines):
                match = self._offer(line, row)
                evidence = tuple(r.id for r in match[-50:])
                if match and judged(line, row) and self._is_outside_cooldown(line, row):
                    hits.append(Hit(i, number, len(match), match[0].clock, row.clock, evidence))
            self.rows.append(row)
        return hits, duplicates

    def _is_outside_cooldown(self, line: SequencePlan, row: Row) -> bool:
        name = (line.rule_id, line.version, row.key)
        if line.cooldown_ms and name in self.last_hit_ms and row.clock < self.last_hit_ms[name] + line.cooldown_ms:
            return False
        self.last_hit_ms[name] = row.clock
        return True

    def _offer(self, line: SequencePlan, row: Row) -> Match:
        """The match that the record completes; of a probe the longest that it carries on or begins."""
        entries = expanded(line)
        waiting = self.under_way.setdefault((line.rule_id, line.version, row.key), [])
        complete: Match = []
        for match in [*sorted(waiting, key=len, reverse=True), []]:
            if entries[len(match)] in row.filters and timely(line, match, row):
                longer = [*match, row]
                remove(waiting, match)
                if len(longer) == len(entries) or (line.probes and not complete):
                    complete = longer
                if len(longer) < len(entries):
                    arrive(waiting, longer)
            elif line.strict in row.filters and match and match[0].clock <= row.clock:
                remove(waiting, match)
        if line.until in row.filters:
            waiting[:] = [match for match in waiting if match[0].clock > row.clock]
        return complete

    def replan(self, plan: PatternSpacePlan) -> None:
        """A pattern that is new knows all that came before."""
        known = {(line.rule_id, line.version) for line in self.plan.lines}
        self.plan = plan
        for line in plan.lines:
            if (line.rule_id, line.version) not in known:
                for row in self.rows:
                    self._offer(line, row)


def judged(line: SequencePlan, row: Row) -> bool:
    late = line.judge_lateness_ms is not None and row.lateness > line.judge_lateness_ms
    return not late and any(start <= row.ingest_ms < end for start, end in line.spans)


def expanded(line: SequencePlan) -> list[int]:
    return [step.filter for step in line.steps for _ in range(step.times)]


def timely(line: SequencePlan, match: Match, row: Row) -> bool:
    return not match or match[-1].clock <= row.clock <= match[0].clock + line.within_ms


def remove(waiting: list[Match], match: Match) -> None:
    waiting[:] = [other for other in waiting if other is not match]


def arrive(waiting: list[Match], match: Match) -> None:
    """One match waits after each number of steps: that which began later, or came later."""
    for other in waiting:
        if len(other) == len(match):
            if other[0].clock > match[0].clock:
                return
            remove(waiting, other)
    waiting.append(match)


def strings(items: Sequence[str]) -> tuple[Any, Any]:
    raw = [x.encode() for x in items]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


def batch_of(plan: PatternSpacePlan, rows: Sequence[Row]) -> KeyedBatch:
    keys = sorted({r.key for r in rows})
    key_bytes, key_offsets = strings(keys)
    id_bytes, id_offsets = strings([r.id for r in rows])
    entries = np.zeros((len(rows), (plan.filters + 7) // 8 * 8), np.bool_)
    for i, row in enumerate(rows):
        entries[i, list(row.filters)] = True
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
        values=(),
        filters=np.packbits(entries, axis=1, bitorder="little"),
    )


def plain(hits: Hits) -> list[Hit]:
    """The kernel's hits as the naive ones are, in the kernel's order."""
    out = []
    for i in range(len(hits)):
        at = range(hits.evidence_offsets[i], hits.evidence_offsets[i + 1])
        ends = hits.evidence_id_offsets
        ids = tuple(hits.evidence_id_bytes[ends[k] : ends[k + 1]].tobytes().decode() for k in at)
        assert hits.is_int[i]
        assert hits.value_i[i] + int(hits.value_up[i]) * 2**64 == hits.count[i]
        numbers = (hits.line[i], hits.row[i], hits.count[i], hits.window_start_ms[i], hits.window_end_ms[i])
        out.append(Hit(*map(int, numbers), ids))
    return out


def pattern(*entries: int, within: int = 100, **changes: Any) -> SequencePlan:
    """A pattern of these entries, always in force."""
    given = {
        "rule_id": "r",
        "version": 1,
        "steps": tuple(StepPlan(entry) for entry in entries),
        "until": None,
        "strict": None,
        "spans": (FOREVER,),
        "judge_lateness_ms": None,
    }
    return SequencePlan(within_ms=within, **(given | changes))


def plan_of(*lines: SequencePlan, filters: int = 4, retention_ms: int = 100) -> PatternSpacePlan:
    return PatternSpacePlan(filters, lines, retention_ms)
