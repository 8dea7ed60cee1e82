"""Figures of other keys, told where these are judged, brought to the records that a rule judges a level above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.core.alerts.hits import JudgedRows
from crossline.core.basics.values import I64, Records
from crossline.core.basics.wire import WirePart
from crossline.core.judge.tellings import ToldRecords
from crossline.core.plan.compile import LayerPlan, StreamPlan
from crossline.core.plan.meeting import arrow_type, row_ids
from crossline.core.plan.spaces import count_of, up_of
from crossline.core.route.keys import bytes_of, key_column
from crossline.core.route.parts import Part
from crossline.core.streams.schema import FieldSpec

TOLD = "told"


def bring(plans: Sequence[StreamPlan], tellings: Iterable[ToldRecords], shards: int) -> Iterator[tuple[int, Part]]:
    """The parts that ``tellings`` are for the shards where their rules judge, each with the level of these."""
    above = {
        name: plan for plan in plans if plan.met is not None and plan.met.reading.brought for name in plan.programs
    }
    for told in tellings:
        plan = above.get((told.rule_id, told.version))
        if plan is not None and len(told):
            yield from ((plan.level, part) for part in _parts(plan, told, shards))


def _parts(plan: StreamPlan, told: ToldRecords, shards: int) -> Iterator[Part]:
    assert plan.met is not None  # noqa: S101 - it is one of those above
    keys = plan.programs[told.rule_id, told.version].feed.key_fields
    own = Records(plan.stream, "", told.ids, told.event_ms, None, told.offsets, told.facts)
    found = key_column(plan.spec, keys, own)
    shard_of_key = np.append((found.hashes % np.uint64(shards)).astype(np.int64), shards)  # the last: of no key
    shard_of = shard_of_key[found.rows]
    # Where several sources met to tell it, records are known as rows of all of them already.
    name = None if told.stream != plan.met.reading.judges else plan.met.reading.judged[0]
    logs = [log if name is None else plan.met.log(name, name, log) for log, _, _ in told.chunks]
    chunks = [[log, sequence] for log, (_, sequence, _) in zip(logs, told.chunks, strict=True)]
    of = [told.rule_id, told.version, sorted(told.figures)]
    meta = {"stream": plan.stream, "layer": TOLD, TOLD: of, "chunks": chunks}
    for shard in range(shards):
        mine = np.flatnonzero(shard_of == shard)
        if len(mine):
            ids = told.ids.take(pa.array(mine))
            yield Part(shard, meta, _arrays(told, mine, ids if name is None else row_ids(name, ids)))


def _arrays(told: ToldRecords, mine: I64, ids: pa.Array) -> dict[str, Any]:
    arrays: dict[str, Any] = dict(zip(("id_bytes", "id_offsets"), bytes_of(ids), strict=True))
    arrays |= {"chunk": told.chunk[mine], "offsets": told.offsets[mine]}
    for number, name in enumerate(sorted(told.figures)):
        figure = told.figures[name]
        arrays |= {f"value{number}": figure.values[mine], f"valid{number}": figure.defined[mine]}
        arrays[f"count{number}"] = figure.counts[mine]
        if figure.up is not None and figure.up[mine].any():
            arrays[f"up{number}"] = figure.up[mine]
    return arrays


def brought_to(judged: JudgedRows, parts: Iterable[WirePart]) -> Mapping[str, pa.Array]:
    """The figures of other keys at the rows of a layer, by the names that its plan has for them; null where none is."""
    layer_plan, facts = judged.layer_plan, dict(_nothing(judged.layer_plan, len(judged.batch)))
    by_name: dict[tuple[str, int, tuple[str, ...]], list[WirePart]] = {}
    for meta, arrays in parts:
        rule_id, version, names = meta[TOLD]
        by_name.setdefault((rule_id, version, tuple(names)), []).append((meta, arrays))
    for (rule_id, version, names), found in by_name.items():
        wanted = {each.name: each for each in layer_plan.brought if (each.rule_id, each.version) == (rule_id, version)}
        place = _places(judged, found) if wanted else None
        for number, name in enumerate(names):
            if place is not None and name in wanted:
                fact = wanted[name].fact
                valid = np.concatenate([arrays[f"valid{number}"] for _, arrays in found])
                values = pa.array(np.concatenate([arrays[f"value{number}"] for _, arrays in found]), mask=~valid)
                counts = pa.array(np.concatenate([arrays[f"count{number}"] for _, arrays in found]))
                facts[fact], facts[count_of(fact)] = values.take(place), counts.take(place)
                if any(f"up{number}" in arrays for _, arrays in found):
                    up = [arrays.get(f"up{number}", np.zeros(len(arrays["offsets"]), np.int64)) for _, arrays in found]
                    facts[up_of(fact)] = pa.array(np.concatenate(up)).take(place)
    return facts


def _places(judged: JudgedRows, found: Sequence[WirePart]) -> pa.Array:
    """For each row of a layer, which of those ``found`` is of it; null: none.

    By where records stand, since two of one id may be two records under keys of their own, and by id, since several
    hits of a rule may be at one record.
    """
    number = {(log, sequence): at for at, (log, sequence, _) in enumerate(judged.chunks)}
    rows = judged.ids(np.arange(len(judged.batch)))
    ids = pa.concat_arrays([*(_ids(arrays) for _, arrays in found), rows]).dictionary_encode().indices.to_numpy()
    chunks = [np.array([number.get((log, at), -1) for log, at in m["chunks"]])[a["chunk"]] for m, a in found]
    by = (
        ids,
        np.concatenate([*(arrays["offsets"] for _, arrays in found), judged.rows["offsets"]]),
        np.concatenate([*chunks, judged.rows["chunk"]]),
    )
    order = np.lexsort(by)
    other = np.any([np.diff(each[order], prepend=each[order[:1]]) != 0 for each in by], axis=0)
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(other)
    told = len(order) - len(rows)
    at = np.full(len(order), -1, np.int64)
    at[of[:told]] = np.arange(told)
    place = at[of[told:]]
    return pa.array(place, mask=place < 0)


def _nothing(layer_plan: LayerPlan, rows: int) -> Iterator[tuple[str, pa.Array]]:
    for each in layer_plan.brought:
        yield each.fact, pa.nulls(rows, arrow_type(FieldSpec(each.kind)))
        yield count_of(each.fact), pa.nulls(rows, pa.int64())


def _ids(arrays: Mapping[str, Any]) -> pa.Array:
    offsets, data = (pa.py_buffer(np.ascontiguousarray(arrays[name])) for name in ("id_offsets", "id_bytes"))
    texts = pa.Array.from_buffers(pa.large_string(), len(arrays["id_offsets"]) - 1, [None, offsets, data])
    return texts.cast(pa.string())
