"""Cross-key figures: computed in the shard of their key, and sent to the records that a rule judges one depth above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.streams.schema import FieldSpec
from crossline.basics.values import I64, Records
from crossline.basics.wire import WirePart
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.evaluate.changes import read_cause
from crossline.evaluate.feature_rows import FeatureRows
from crossline.ingest.route.keys import key_column
from crossline.ingest.route.partitioner import Part
from crossline.ingest.route.plan_inputs import CAUSE, GONE
from crossline.ingest.route.texts import bytes_of
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.spaces import CrossKeyInput, count_of, up_of
from crossline.plan.stream_join import arrow_type, came_log, row_ids
from crossline.state.batch import Cause, RecordUpdate

CROSS_KEY = "told"


def cross_key_parts(
    plans: Sequence[StreamPlan], feature_queries: Iterable[FeatureRows], shards: int
) -> Iterator[tuple[int, Part]]:
    """The parts that ``feature_queries`` are for the shards where their rules judge, each with the depth of these."""
    above = {
        name: plan for plan in plans if plan.met is not None and plan.met.reading.cross_key for name in plan.programs
    }
    by_name = {plan.stream: plan for plan in plans}
    for feature_rows in feature_queries:
        plan = above.get((feature_rows.rule_id, feature_rows.version))
        if plan is not None and len(feature_rows):
            causes = [_sent(each, by_name[feature_rows.stream], plan) for each in feature_rows.causes]
            yield from ((plan.depth, part) for part in _parts(plan, feature_rows, shards, causes))


def _sent(cause: Cause, of: StreamPlan, to: StreamPlan) -> list[Any]:
    """A cause in the form that parts carry, with the name of its log in the plan ``to``."""
    came, sequence, partition = cause.chunk
    log = came_log(to.order, *of.from_came(came))
    return [cause.record_id, cause.ingest_ms, cause.reached_ms, log, sequence, partition, cause.offset]


def _parts(plan: StreamPlan, feature_rows: FeatureRows, shards: int, causes: Sequence[Sequence[Any]]) -> Iterator[Part]:
    assert plan.met is not None  # noqa: S101 - it is one of those above
    keys = plan.programs[feature_rows.rule_id, feature_rows.version].feed.key_fields
    own = Records(
        plan.stream, "", feature_rows.ids, feature_rows.event_ms, None, feature_rows.offsets, feature_rows.facts
    )
    found = key_column(plan.spec, keys, own)
    shard_of_key = np.append((found.hashes % np.uint64(shards)).astype(np.int64), shards)  # the last: of no key
    shard_of = shard_of_key[found.rows]
    # Where several sources met to tell it, records are known as rows of all of them already.
    name = None if feature_rows.stream != plan.met.reading.judges else plan.met.reading.judged[0]
    logs = [log if name is None else plan.met.log(name, name, log) for log, _, _ in feature_rows.chunks]
    chunks = [[log, sequence] for log, (_, sequence, _) in zip(logs, feature_rows.chunks, strict=True)]
    of = [feature_rows.rule_id, feature_rows.version, sorted(feature_rows.figures)]
    meta = {"stream": plan.stream, "state_store": CROSS_KEY, CROSS_KEY: of, "chunks": chunks, "causes": causes}
    for shard in range(shards):
        mine = np.flatnonzero(shard_of == shard)
        if len(mine):
            ids = feature_rows.ids.take(pa.array(mine))
            yield Part(shard, meta, _arrays(feature_rows, mine, ids if name is None else row_ids(name, ids)))


def _arrays(feature_rows: FeatureRows, mine: I64, ids: pa.Array) -> dict[str, Any]:
    arrays: dict[str, Any] = dict(zip(("id_bytes", "id_offsets"), bytes_of(ids), strict=True))
    arrays |= {"chunk": feature_rows.chunk[mine], "offsets": feature_rows.offsets[mine]}
    arrays[CAUSE] = np.full(len(mine), -1, np.int32) if feature_rows.cause is None else feature_rows.cause[mine]
    for number, name in enumerate(sorted(feature_rows.figures)):
        figure = feature_rows.figures[name]
        arrays |= {f"value{number}": figure.values[mine], f"valid{number}": figure.defined[mine]}
        arrays[f"count{number}"] = figure.counts[mine]
        if figure.up is not None and figure.up[mine].any():
            arrays[f"up{number}"] = figure.up[mine]
    return arrays


def cross_key_figures(
    judged: JudgedRows, parts: Iterable[WirePart], causes: Sequence[Cause] = ()
) -> tuple[Mapping[str, pa.Array], list[RecordUpdate]]:
    """The figures of other keys at the rows of a store, by the names that its plan has for them; null where none is.

    And what other records changed of them, at these rows or at those of before; ``causes``: of rows that are hits.
    """
    store_plan, facts = judged.store_plan, dict(_nothing(judged.store_plan, len(judged.batch)))
    known = _Causes(judged, causes)
    record_update: dict[tuple[Any, ...], RecordUpdate] = {}
    by_name: dict[tuple[str, int, tuple[str, ...]], list[WirePart]] = {}
    for meta, arrays in parts:
        rule_id, version, names = meta[CROSS_KEY]
        by_name.setdefault((rule_id, version, tuple(names)), []).append((meta, arrays))
    for (rule_id, version, names), found in by_name.items():
        wanted = {
            each.name: each
            for each in store_plan.cross_key_inputs
            if (each.rule_id, each.version) == (rule_id, version)
        }
        if not wanted:
            continue
        place, others = _places(judged, found, known)
        mine = _columns(names, found, wanted)
        facts |= {name: column.take(place) for name, column in mine.items()}
        for amended in _amended(found, others, mine):
            at = (amended.row_id, amended.place, amended.cause.order)
            before = record_update.get(at)
            record_update[at] = amended if before is None else replace(before, facts={**before.facts, **amended.facts})
    return facts, sorted(record_update.values(), key=lambda each: each.cause.order)


class _Causes:
    """The triggers of rows, by number: 0 where it is the record of the row itself."""

    def __init__(self, judged: JudgedRows, causes: Sequence[Cause]) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._judged, self._causes = judged, causes

    def of_rows(self) -> I64:
        """Of the rows of the state store; retracted rows get a number that no row has."""
        rows, found = self._judged.rows, np.zeros(len(self._judged.batch), np.int64)
        if CAUSE not in rows or not self._judged.store_plan.state_store.reevaluate:
            return found
        for at in np.flatnonzero(rows[CAUSE] >= 0).tolist():
            log, sequence, _ = self._judged.chunks[rows["chunk"][at]]
            own = int(rows["reached"][at]), self._judged.plan.came(log), sequence, int(rows["offsets"][at])
            cause = self._causes[rows[CAUSE][at]].order
            found[at] = 0 if cause == own else self._numbers.setdefault(cause, len(self._numbers) + 1)
        found[rows[GONE] != 0] = -1
        return found

    def of_part(self, part: WirePart) -> I64:
        """The numbers of the triggers of a part's figures."""
        meta, arrays = part
        orders = [read_cause(each).order for each in meta["causes"]]
        numbers = [self._numbers.setdefault(order, len(self._numbers) + 1) for order in orders]
        of: I64 = np.array([*numbers, 0], np.int64)[arrays[CAUSE]]  # none is the last
        return of


def _columns(
    names: Sequence[str], found: Sequence[WirePart], wanted: Mapping[str, CrossKeyInput]
) -> dict[str, pa.Array]:
    """The figures of all parts, end to end, by their names in the plan that reads them."""
    columns: dict[str, pa.Array] = {}
    for number, name in enumerate(names):
        if name not in wanted:
            continue
        fact = wanted[name].fact
        valid = np.concatenate([arrays[f"valid{number}"] for _, arrays in found])
        columns[fact] = pa.array(np.concatenate([arrays[f"value{number}"] for _, arrays in found]), mask=~valid)
        columns[count_of(fact)] = pa.array(np.concatenate([arrays[f"count{number}"] for _, arrays in found]))
        if any(f"up{number}" in arrays for _, arrays in found):
            up = [arrays.get(f"up{number}", np.zeros(len(arrays["offsets"]), np.int64)) for _, arrays in found]
            columns[up_of(fact)] = pa.array(np.concatenate(up))
    return columns


def _amended(found: Sequence[WirePart], others: I64, columns: Mapping[str, pa.Array]) -> Iterator[RecordUpdate]:
    """The figures of rows that are stored already; ``others``: the numbers of these figures among all."""
    if not len(others):
        return
    picked = {name: column.take(pa.array(others)).to_pylist() for name, column in columns.items()}
    first = np.cumsum([0] + [len(arrays["offsets"]) for _, arrays in found])
    of = np.searchsorted(first, others, side="right") - 1
    read = [([read_cause(each) for each in meta["causes"]], _ids(arrays).to_pylist()) for meta, arrays in found]
    for number, (part, row) in enumerate(zip(of.tolist(), (others - first[of]).tolist(), strict=True)):
        (causes, ids), (meta, arrays) = read[part], found[part]
        log, sequence = meta["chunks"][arrays["chunk"][row]]
        place = log, sequence, int(arrays["offsets"][row])
        facts = {name: values[number] for name, values in picked.items()}
        yield RecordUpdate(ids[row].encode(), place, causes[arrays[CAUSE][row]], facts)


def _places(judged: JudgedRows, found: Sequence[WirePart], known: _Causes) -> tuple[pa.Array, I64]:
    """For each row of a store, which of those ``found`` is of it; null: none. And those that are of no row, but caused.

    By where records stand, since two of one id may be two records under keys of their own, and by id, since several
    hits of a rule may be at one record; and by cause, since a record may have several in sequence.
    """
    # A chunk of hits comes in a part of each shard that they were judged in.
    number: dict[tuple[str, int], int] = {}
    chunk_of = np.array([number.setdefault(each[:2], len(number)) for each in judged.chunks], np.int64)
    rows = judged.ids(np.arange(len(judged.batch)))
    ids = pa.concat_arrays([*(_ids(arrays) for _, arrays in found), rows]).dictionary_encode().indices.to_numpy()
    chunks = [np.array([number.get((log, at), -1) for log, at in m["chunks"]])[a["chunk"]] for m, a in found]
    of_rows = known.of_rows()
    caused = np.concatenate([*map(known.of_part, found), of_rows])
    by = (
        ids,
        np.concatenate([*(arrays["offsets"] for _, arrays in found), judged.rows["offsets"]]),
        np.concatenate([*chunks, chunk_of[judged.rows["chunk"]]]),
        caused,
    )
    order = np.lexsort(by)
    other = np.any([np.diff(each[order], prepend=each[order[:1]]) != 0 for each in by], axis=0)
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(other)
    feature_rows = len(order) - len(rows)
    at = np.full(len(order), -1, np.int64)
    at[of[:feature_rows]] = np.arange(feature_rows)
    place = at[of[feature_rows:]]
    apart: I64 = np.flatnonzero((caused[:feature_rows] > 0) & ~np.isin(of[:feature_rows], of[feature_rows:]))
    return pa.array(place, mask=place < 0), apart


def _nothing(store_plan: StorePlan, rows: int) -> Iterator[tuple[str, pa.Array]]:
    for each in store_plan.cross_key_inputs:
        yield each.fact, pa.nulls(rows, arrow_type(FieldSpec(each.kind)))
        yield count_of(each.fact), pa.nulls(rows, pa.int64())


def _ids(arrays: Mapping[str, Any]) -> pa.Array:
    offsets, data = (pa.py_buffer(np.ascontiguousarray(arrays[name])) for name in ("id_offsets", "id_bytes"))
    texts = pa.Array.from_buffers(pa.large_string(), len(arrays["id_offsets"]) - 1, [None, offsets, data])
    return texts.cast(pa.string())
