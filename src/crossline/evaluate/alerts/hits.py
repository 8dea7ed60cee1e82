"""Hits: the rule version, the record and the evidence, found by the kernel or by routing alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.fields import KeyValue
from crossline.basics.frozen import maker_of
from crossline.basics.streams.clocks import EVENT
from crossline.basics.values import I64
from crossline.basics.wire import Arrays
from crossline.evaluate.alerts.origins import Place, origin_of, record_and_alert_of, rests_on
from crossline.ingest.route.keys import key_values
from crossline.plan.compile import Stateless, StorePlan, StreamPlan
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Cause, FigureRead, KeyedBatch


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
quick_correction = maker_of(Correction)


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


@dataclass(slots=True)
class JudgedRows:
    """A store's part of a batch, judged: its rows in ingest order; ``chunks``: log, sequence, partition of each."""

    plan: StreamPlan
    store_plan: StorePlan
    batch: KeyedBatch
    rows: Arrays
    chunks: Sequence[tuple[str, int, str]]
    _keys: dict[int, dict[str, KeyValue]] = field(default_factory=dict)

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
        _, alerts = rests_on(self.plan, [self.id_of(row)])
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

    def places(self, rows: I64) -> list[Place]:
        """Where the records of many rows stand among all."""
        chunks = [self._chunk(each) for each in self.chunks]
        given = [self.rows[name][rows].tolist() for name in ("place_ms", "offsets", "chunk")]
        return [
            (place_ms, (chunk := chunks[number])[0], chunk[1], chunk[2], offset, chunk[3])
            for place_ms, offset, number in zip(*given, strict=True)
        ]

    def record_ids(self, rows: I64) -> list[str]:
        """As ``record_id``, of many rows."""
        starts, ends = self.batch.id_offsets[rows].tolist(), self.batch.id_offsets[rows + 1].tolist()
        ids = self.batch.id_bytes.tobytes()
        known = [ids[start:end].decode() for start, end in zip(starts, ends, strict=True)]
        return known if self.plan.reports else [record_and_alert_of(self.plan, each)[0] for each in known]

    def reached_by(self, rows: I64) -> list[int]:
        """As ``reached_ms``, of many rows."""
        numbers: list[int] = self.rows.get("reached", self.batch.ingest_ms)[rows].tolist()
        return numbers

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

    def keys_of(self, rows: I64) -> list[dict[str, KeyValue]]:
        """The keys of many rows."""
        return [self._key(number) for number in self.batch.key_index[rows].tolist()]

    def record_id(self, row: int) -> str:
        """The id of the record of ``row``; of a hit, that of the record that was hit."""
        known = self.id_of(row)
        return known if self.plan.reports else record_and_alert_of(self.plan, known)[0]

    def id_of(self, row: int) -> str:
        """What ``row`` itself is known by; of a hit, see ``id_of_hit``."""
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


def _live(rule: Stateless, batch: KeyedBatch) -> Any:
    version = rule.version
    return (batch.ingest_ms >= version.effective_from_ms) & (batch.ingest_ms < version.effective_until_ms)


def _in_force(rule: Stateless, batch: KeyedBatch) -> Any:
    mask = _live(rule, batch)
    if rule.judge_lateness_ms is not None:
        mask &= batch.lateness_ms <= rule.judge_lateness_ms
    return mask


def entity_of(fields: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a hit: ``fields`` by their ``values`` in the record; empty where it lacks one."""
    key = {name: values.get(name) for name in fields}
    return {} if None in key.values() else key
