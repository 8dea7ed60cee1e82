"""Hits: the rule version, the record and the evidence, found by the kernel or by routing alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.fields import KeyValue
from crossline.basics.frozen import maker_of
from crossline.basics.streams.clocks import EVENT
from crossline.basics.values import I64
from crossline.basics.wire import Arrays
from crossline.evaluate.alerts.hit_columns import evidence_ids, values_of
from crossline.evaluate.alerts.origins import Place, origin_of, record_and_alert_of, rests_on
from crossline.ingest.route.keys import key_values
from crossline.plan.compile import Stateless, StorePlan, StreamPlan
from crossline.plan.pattern_spaces import AbsencePlan, SequencePlan
from crossline.plan.spaces import ComparisonPlan, FormulaPlan
from crossline.rules.entity import entity_of
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Cause, FigureRead, Hits, KeyedBatch, LateContextHit
from crossline.state.windows.verdicts.single_record import context_window


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """A record of a window: its time on the rule's clock, and the aggregated number where there is one."""

    record_id: str
    clock_ms: int
    value: int | float | None


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction of an emitted hit: ``outcome`` is ``retracted``, ``amended`` or ``reinstated``.

    ``caused_by``: the id of the record that changed it. ``before``: the hit as it was; None where it is reinstated.
    """

    outcome: str
    caused_by: str
    before: Hit | None


@dataclass(frozen=True, slots=True)
class Trigger:
    """The record that triggered a hit, and its place; ``order``: the sort key among triggers."""

    place: Place
    cause: Cause
    order: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A hit of a rule version at a record; with a share of keys, the hit of the version that judges this key.

    ``key``: fields in the order of ``group_by``. ``value`` may be an integer of any size or infinite; it and the window
    are None for a rule that looks at the record alone, and the value where a formula has none to show. ``record_ids``:
    the records that it rests on, oldest first. ``fields``: what its alert shows of the record. ``records``: the
    window's, where the rule lists them. ``figures``: those that a formula read; None for other rules. ``shows``: the
    values of further formulas. ``rests_on``: the alerts in its evidence, where its rule reads hits; ``record_ids`` are
    then their records. ``carried``: fields of the record, for rules that read this hit. ``reached_ms``: the highest
    ingest time that the record's log had reached by it. ``known_ms``: for a hit by time alone (an absence), the first
    instant of the stream's clock at which it is one. ``correction``: for a hit that was emitted before and changed; a
    retracted hit keeps all other fields. ``cause``: the record that triggered it, if it is not its own. ``adds``: how
    often its score is added to its entities; -1 subtracts it. ``very_late``: it only adds its score, since its record
    came too late to be judged.
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
    known_ms: int | None = None
    adds: int = 1
    very_late: bool = False
    cause: Trigger | None = None
    correction: Correction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", self.version.of_key(self.key))


# As ``Hit``, but the version has to be that of the key.
quick_hit = maker_of(Hit)


def emission_order(hit: Hit) -> tuple[Any, ...]:
    """The sort key of emitted hits: the place of the trigger, and then of the hit's own record.

    Of the own record it has offset and partition; where that is the trigger, the place is the whole key.
    """
    return hit.place if hit.cause is None else (*hit.cause.order, *hit.place[4:])


def once(hits: Iterable[Hit]) -> Iterable[Hit]:
    """Of hits that are one alert the last, which has seen most: several rules that one reads may hit a record."""
    found: dict[tuple[Any, ...], Hit] = {}
    for hit in hits:
        alert = (hit.version.rule.rule_id, hit.version.rule.version, tuple(hit.key.items()), hit.record_id)
        found.pop(alert, None)
        found[alert] = hit
    return found.values()


class _RowRead(NamedTuple):
    """What a hit says of the record of its row."""

    place: Place
    record_id: str
    event_ms: int
    ingest_ms: int
    reached_ms: int


@dataclass(slots=True)
class JudgedRows:
    """A store's part of a batch, judged: its rows in ingest order; ``chunks``: log, sequence, partition of each."""

    plan: StreamPlan
    store_plan: StorePlan
    batch: KeyedBatch
    rows: Arrays
    chunks: Sequence[tuple[str, int, str]]
    _keys: dict[int, dict[str, KeyValue]] = field(default_factory=dict)

    def window_hits(self, hits: Hits) -> Sequence[Hit]:
        """The kernel's hits, in its order; of those that are known to be the same one object."""
        lines = [_PredicateOf(self, number, line) for number, line in enumerate(self.store_plan.plan.judging)]
        which = np.arange(len(hits))
        if hits.same is not None:
            which = np.flatnonzero(hits.same == which)
        columns = (hits.line, hits.row, hits.count, hits.window_start_ms, hits.window_end_ms)
        numbers = zip(which.tolist(), *(each[which].tolist() for each in columns), strict=True)
        given = zip(numbers, self._read(hits.row[which].astype(np.int64)), values_of(hits, which), strict=True)
        found = list[Hit]()
        for ((i, number, row, count, start_ms, end_ms), at, value), ids in zip(
            given, evidence_ids(hits, which), strict=True
        ):
            line, read, key = lines[number], hits.formula_reads.get(i), self.key_of(row)
            record_ids, alerts = rests_on(self.plan, ids)
            hit = quick_hit(
                version=line.version(at.ingest_ms).of_key(key),
                place=at.place,
                key=key,
                record_id=at.record_id,
                event_ms=at.event_ms,
                ingest_ms=at.ingest_ms,
                value=read.value if read else value,
                count=count,
                window_start_ms=start_ms,
                window_end_ms=end_ms,
                record_ids=record_ids,
                fields=read.fields if read else {},
                records=line.records(hits, record_ids, i) if line.lists else None,
                figures=read.figures if read else None,
                shows=read.shows if read else {},
                rests_on=alerts,
                carried={name: self.batch.facts[name][row].as_py() for name in line.carried} if line.carried else {},
                reached_ms=at.reached_ms,
            )
            found.append(line.of_record(hit, self.batch.facts, row) if line.alone else hit)
        return found if hits.same is None else [found[i] for i in np.searchsorted(which, hits.same).tolist()]

    def late_context_hit(self, met: LateContextHit) -> Hit:
        """The hit at a record whose context came after it."""
        number, row, read = met.line, met.row, met.read
        kernel, line = self.store_plan.plan.windowed, dict(self.store_plan.plan.waiting)[number]
        assert kernel is not None  # noqa: S101 - others wait for nothing
        of, ingest_ms = _PredicateOf(self, number, line), int(self.batch.ingest_ms[row])
        start_ms, end_ms = context_window(kernel, line).span_ms(int(self.batch.clock_ms[row]))
        record_ids, alerts = rests_on(self.plan, [self._id(met.other)])
        known_ms = self.reached_ms(met.other)
        return Hit(
            version=of.version(ingest_ms),
            place=self.place(row),
            key=self.key_of(row),
            record_id=self.record_id(row),
            event_ms=self.event_ms(row),
            ingest_ms=ingest_ms,
            value=read.value,
            count=1,
            window_start_ms=start_ms,
            window_end_ms=end_ms,
            record_ids=record_ids,
            fields=read.fields,
            records=None,
            figures=read.figures,
            shows=read.shows,
            rests_on=alerts,
            carried={name: self.batch.facts[name][row].as_py() for name in of.carried},
            reached_ms=known_ms,
            known_ms=known_ms,
        )

    def stateless_hits(self, duplicates: np.ndarray[Any, Any]) -> Iterator[Hit]:
        """Of the rules that look at the record alone, at records that are no duplicates."""
        holds = np.unpackbits(self.rows["stateless"], axis=1, bitorder="little").astype(np.bool_)
        for number, rule in enumerate(self.plan.stateless):
            judged = holds[:, number] & ~duplicates & _in_force(rule, self.batch)
            for row in np.flatnonzero(judged).tolist():
                yield self._stateless_hit(rule, row)

    def very_late_hits(self) -> Iterator[Hit]:
        """Of rules whose hits are part of risk scores, at records that are too late for them, copies included."""
        holds = None
        for number, rule in enumerate(self.plan.stateless):
            if rule.scored_after_ms is None:
                continue
            beyond = (self.batch.lateness_ms > rule.scored_after_ms) & _live(rule, self.batch)
            if beyond.any():
                if holds is None:
                    holds = np.unpackbits(self.rows["stateless"], axis=1, bitorder="little").astype(np.bool_)
                for row in np.flatnonzero(beyond & holds[:, number]).tolist():
                    yield replace(self._stateless_hit(rule, row), very_late=True)

    def _stateless_hit(self, rule: Stateless, row: int) -> Hit:
        start, end = self.rows["figure_offsets"][row], self.rows["figure_offsets"][row + 1]
        fields = orjson.loads(self.rows["figure_bytes"][start:end].tobytes())
        record_id = self.record_id(row)
        _, alerts = rests_on(self.plan, [self._id(row)])
        carried = self.plan.carried.get(rule.version.rule.rule_id, ())
        return Hit(
            version=rule.version,
            place=self.place(row),
            key=entity_of(rule.key_fields, fields),
            record_id=record_id,
            event_ms=self.event_ms(row),
            ingest_ms=int(self.batch.ingest_ms[row]),
            value=None,
            count=1,
            window_start_ms=None,
            window_end_ms=None,
            record_ids=[record_id],
            fields={name: fields[name] for name in rule.shown_fields if name in fields},
            records=None,
            rests_on=alerts,
            carried={name: fields.get(name) for name in carried},
            reached_ms=self.reached_ms(row),
        )

    def event_ms(self, row: int) -> int:
        """The event time of the record of ``row``, whatever clock it is judged by."""
        if self.plan.clock is not None:
            return int(self.batch.facts[EVENT][row].as_py())
        return int(self.batch.ingest_ms[row]) - int(self.batch.lateness_ms[row])

    def events_ms(self, rows: I64) -> I64:
        """The event times of many rows."""
        if self.plan.clock is not None:
            found: I64 = self.batch.facts[EVENT].take(pa.array(rows)).to_numpy(zero_copy_only=False).astype(np.int64)
            return found
        return self.batch.ingest_ms[rows] - self.batch.lateness_ms[rows]

    def reached_ms(self, row: int) -> int:
        """The highest ingest time that the log of ``row`` had reached by it."""
        return int(self.rows["reached"][row]) if "reached" in self.rows else int(self.batch.ingest_ms[row])

    def _read(self, rows: I64) -> Iterator[_RowRead]:
        """What hits say of the records of ``rows``; read for all together, since a batch may have very many."""
        batch, chunks = self.batch, [self._chunk(each) for each in self.chunks]
        events_ms, ingest_ms = self.events_ms(rows).tolist(), batch.ingest_ms[rows].tolist()
        reached_ms = self.rows["reached"][rows].tolist() if "reached" in self.rows else ingest_ms
        starts, ends = batch.id_offsets[rows].tolist(), batch.id_offsets[rows + 1].tolist()
        ids, reports = batch.id_bytes.tobytes(), self.plan.reports
        where = (self.rows[name][rows].tolist() for name in ("place_ms", "offsets", "chunk"))
        for i, (place_ms, offset, number) in enumerate(zip(*where, strict=True)):
            stream, log, sequence, partition = chunks[number]
            known = ids[starts[i] : ends[i]].decode()
            yield _RowRead(
                place=(place_ms, stream, log, sequence, offset, partition),
                record_id=known if reports else record_and_alert_of(self.plan, known)[0],
                event_ms=events_ms[i],
                ingest_ms=ingest_ms[i],
                reached_ms=reached_ms[i],
            )

    def _chunk(self, chunk: tuple[str, int, str]) -> tuple[str, str, int, str]:
        log, sequence, partition = chunk
        return *origin_of(self.plan, log), sequence, partition

    def place(self, row: int) -> Place:
        """Where the record of ``row`` stands among all."""
        stream, log, sequence, partition = self._chunk(self.chunks[self.rows["chunk"][row]])
        offset = int(self.rows["offsets"][row])
        return int(self.rows["place_ms"][row]), stream, log, sequence, offset, partition

    def key_of(self, row: int) -> dict[str, KeyValue]:
        """The key of ``row``."""
        return self._key(int(self.batch.key_index[row]))

    def record_id(self, row: int) -> str:
        """The id of the record of ``row``; of a hit, that of the record that was hit."""
        known = self._id(row)
        return known if self.plan.reports else record_and_alert_of(self.plan, known)[0]

    def _id(self, row: int) -> str:
        start, end = self.batch.id_offsets[row], self.batch.id_offsets[row + 1]
        return self.batch.id_bytes[start:end].tobytes().decode()

    def ids(self, rows: I64) -> pa.Array:
        """The ids of many rows as text; of hits, see ``id_of_hit``."""
        arrays = (np.ascontiguousarray(each) for each in (self.batch.id_offsets, self.batch.id_bytes))
        texts = pa.Array.from_buffers(pa.large_string(), len(self.batch), [None, *map(pa.py_buffer, arrays)])
        return (texts if len(rows) == len(texts) else texts.take(pa.array(rows))).cast(pa.string())

    def _key(self, number: int) -> dict[str, KeyValue]:
        """Key ``number`` of the batch; each is read once."""
        known = self._keys.get(number)
        if known is None:
            start, end = self.batch.key_offsets[number], self.batch.key_offsets[number + 1]
            raw = self.batch.key_bytes[start:end].tobytes()
            known = self._keys[number] = key_values(self.plan.spec, self.store_plan.state_store.group_fields, raw)
        return known


class _PredicateOf:
    """What hits of one line, formula, pattern or absence have in common."""

    def __init__(
        self, judged: JudgedRows, number: int, line: ComparisonPlan | FormulaPlan | SequencePlan | AbsencePlan
    ) -> None:
        self._versions = judged.store_plan.versions[number]
        self._kind = judged.store_plan.plan.listed_kind(number)
        self.lists = judged.plan.programs[line.rule_id, line.version].evidence.lists
        self.carried = judged.plan.carried.get(line.rule_id, ())
        self._shown = judged.plan.programs[line.rule_id, line.version].evidence.fields
        self._entity = judged.plan.programs[line.rule_id, line.version].entity
        self.alone = judged.plan.programs[line.rule_id, line.version].verdict is None

    def of_record(self, hit: Hit, facts: Mapping[str, Any], row: int) -> Hit:
        """The hit of a single-record rule that is a predicate of the plan because its hits may be retracted."""
        found = {name: facts[name][row].as_py() for name in self._shown if name in facts}
        fields = {name: value for name, value in found.items() if value is not None}
        return replace(
            hit,
            key=entity_of(self._entity, {name: facts[name][row].as_py() for name in self._entity}),
            value=None,
            count=1,
            window_start_ms=None,
            window_end_ms=None,
            record_ids=[hit.record_id],
            fields=fields,
            figures=None,
            shows={},
        )

    def version(self, ingest_ms: int) -> RuleVersion:
        """The version in force at an ingest time."""
        if len(self._versions) == 1:
            return self._versions[0]
        return next(version for version in self._versions if ingest_ms < version.effective_until_ms)

    def records(self, hits: Hits, record_ids: list[str], i: int) -> list[WindowRecord]:
        """The records of the window of hit ``i``, for a rule that lists them."""
        first, last = hits.evidence_offsets[i : i + 2].tolist()
        values: list[Any] = [None] * (last - first)
        if self._kind == "int":
            values = hits.evidence_value_i[first:last].tolist()
        elif self._kind == "float":
            values = hits.evidence_value_f[first:last].tolist()
        clocks = hits.evidence_clock_ms[first:last].tolist()
        return [
            WindowRecord(record_id=record_id, clock_ms=clock_ms, value=value)
            for record_id, clock_ms, value in zip(record_ids, clocks, values, strict=True)
        ]


def _live(rule: Stateless, batch: KeyedBatch) -> Any:
    version = rule.version
    return (batch.ingest_ms >= version.effective_from_ms) & (batch.ingest_ms < version.effective_until_ms)


def _in_force(rule: Stateless, batch: KeyedBatch) -> Any:
    mask = _live(rule, batch)
    if rule.judge_lateness_ms is not None:
        mask &= batch.lateness_ms <= rule.judge_lateness_ms
    return mask
