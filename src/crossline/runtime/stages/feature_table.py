"""Figures of a batch, from the shards that computed them to one table: a row for each record.

A shard of each key computes those of its records. They are joined at the record by its position: by chunk and
offset, which are numbers, so that it costs the same whatever ids and keys look like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics import wire
from crossline.basics.values import I64
from crossline.evaluate.feature_rows import FeatureRows
from crossline.evaluate.output import Reported, ShardOutput
from crossline.plan.compile import StreamPlan
from crossline.plan.stream_join import StreamJoin
from crossline.programs.program import Program
from crossline.runtime.stages.rows import FEATURE_ROWS


@dataclass(frozen=True, slots=True)
class FigureTypes:
    """The columns of figures by name, each with its type: int64, double, or a timestamp for figures of time.

    ``stream``: whose records are the rows.
    """

    stream: str
    types: dict[str, pa.DataType]

    @property
    def schema(self) -> pa.Schema:
        """Of the table: id, event time, figures."""
        own = [("record_id", pa.string()), ("event_time", pa.timestamp("ms", tz="UTC"))]
        return pa.schema([*own, *self.types.items()])


def feature_table_rows(plans: Iterable[StreamPlan], output: ShardOutput) -> Iterator[tuple[str, bytes]]:
    """The feature rows of a shard, as rows (kind, body): the records that it reports, and figures of those judged.

    ``plans``: all that there are. Cross-key figures between rules are not written.
    """
    plans = list(plans)
    met = {plan.stream: plan.met for plan in plans}
    for reported in output.reported:
        # Of each stream: the table's own stream is selected where the rows are collected.
        yield FEATURE_ROWS, _records(reported, [each for _, each in _tables(plans, reported.judged.plan.stream)])
    known = {name for plan in plans for name, _ in _tables([plan], None)}
    for found in output.feature_queries:
        if (found.rule_id, found.version) in known:
            yield FEATURE_ROWS, _figures(found, met.get(found.stream))


def _tables(plans: Iterable[StreamPlan], stream: str | None) -> Iterator[tuple[tuple[str, int], Program]]:
    """The feature queries for the table on the records of ``stream`` (None: of any)."""
    for plan in plans:
        if stream in {None, plan.base}:
            yield from ((name, each) for name, each in plan.programs.items() if each.query is not None)


def _records(reported: Reported, tables: Sequence[Program]) -> bytes:
    """The records that are no copies and that are not too late for every figure."""
    judged, rows = reported.judged, ~reported.duplicates
    bounds = [each.feed.allowed_lateness_ms for each in tables]
    allowed = [ms for ms in bounds if ms is not None]
    if len(allowed) == len(bounds):
        rows &= judged.batch.lateness_ms <= (max(allowed) if allowed else reported.allowed_ms)
    wanted = np.flatnonzero(rows)
    ids = judged.ids(wanted)
    arrays = {name: judged.rows[name][wanted] for name in ("chunk", "offsets", "event_ms")}
    _, offsets, data = ids.buffers()
    arrays["id_offsets"] = np.frombuffer(offsets, np.int32)[: len(ids) + 1]
    arrays["id_bytes"] = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    counts = {"records": len(judged.batch), "copies": int(np.count_nonzero(reported.duplicates))}
    return wire.encode({"stream": judged.plan.stream, "chunks": judged.chunks, **counts}, arrays)


def _figures(rows: FeatureRows, met: StreamJoin | None) -> bytes:
    """``met``: for a stream join, the names of its logs in their own streams."""
    chunks = rows.chunks if met is None else [(met.origin(log)[1], *more) for log, *more in rows.chunks]
    arrays: wire.Arrays = {"chunk": rows.chunk, "offsets": rows.offsets}
    beyond = {}
    for number, (name, column) in enumerate(rows.figures.items()):
        fits = column.defined if column.up is None else column.defined & (column.up == 0)
        arrays[f"value{number}"], arrays[f"valid{number}"] = column.values, fits
        beyond[name] = int(np.count_nonzero(column.defined & ~fits))
    return wire.encode({"chunks": chunks, "figures": list(rows.figures), "beyond": beyond}, arrays)


@dataclass(slots=True)
class FeatureBatch:
    """The feature rows of one batch, of all shards."""

    records: list[wire.WirePart] = field(default_factory=list)
    figures: list[wire.WirePart] = field(default_factory=list)

    @staticmethod
    def of(bodies: Iterable[bytes]) -> FeatureBatch:
        """From the bodies of the rows of an outcome that are of its kind."""
        batch = FeatureBatch()
        for body in bodies:
            meta, arrays = wire.decode(body, "feature rows")
            (batch.figures if "figures" in meta else batch.records).append((meta, arrays))
        return batch

    def counted(self, stream: str) -> tuple[int, int]:
        """How many records of ``stream`` came, and how many of them are copies."""
        mine = [meta for meta, _ in self.records if meta["stream"] == stream]
        return sum(meta["records"] for meta in mine), sum(meta["copies"] for meta in mine)

    @property
    def beyond(self) -> dict[str, int]:
        """By figure how many integers 64 bits do not hold, which the table has none for."""
        found: dict[str, int] = {}
        for meta, _ in self.figures:
            for name, count in meta["beyond"].items():
                found[name] = found.get(name, 0) + count
        return {name: count for name, count in found.items() if count}

    def table(self, columns: FigureTypes) -> pa.Table:
        """A row for each record, in the order of the log, with null where it has no value of a figure."""
        records = [(meta, arrays) for meta, arrays in self.records if meta["stream"] == columns.stream]
        chunks = sorted({tuple(each) for meta, _ in records for each in meta["chunks"]})
        place = _RecordIndex.of(chunks, records)
        made: dict[str, Any] = {"record_id": place.ids(records), "event_time": place.event_ms(records)}
        values = {name: np.zeros(len(place), _kind(kind)) for name, kind in columns.types.items()}
        valid = {name: np.zeros(len(place), np.bool_) for name in columns.types}
        for meta, arrays in self.figures:
            at, there = place.find(meta, arrays)
            for number, name in enumerate(meta["figures"]):
                values[name][at] = arrays[f"value{number}"][there]
                valid[name][at] = arrays[f"valid{number}"][there]
        for name, kind in columns.types.items():
            made[name] = pa.array(values[name], mask=~valid[name]).cast(kind)
        made["event_time"] = pa.array(made["event_time"]).cast(columns.schema.field("event_time").type)
        return pa.table(made, columns.schema)


def _kind(kind: pa.DataType) -> Any:
    return np.float64 if pa.types.is_floating(kind) else np.int64


@dataclass(frozen=True, slots=True)
class _RecordIndex:
    """Where the records of a batch stand: ``offsets``, chunk by chunk; those of chunk i begin at ``begins[i]``.

    ``order``: the records as they were given, in this order.
    """

    chunks: Sequence[tuple[Any, ...]]
    begins: I64
    offsets: I64
    order: I64

    def __len__(self) -> int:
        return len(self.offsets)

    @staticmethod
    def of(chunks: Sequence[tuple[Any, ...]], given: Iterable[wire.WirePart]) -> _RecordIndex:
        """Of the records ``given``, in ``chunks``, which are in their order."""
        given = list(given)
        none: I64 = np.empty(0, np.int64)
        chunk = np.concatenate([none, *(_numbers(chunks, meta)[arrays["chunk"]] for meta, arrays in given)])
        offsets = np.concatenate([none, *(arrays["offsets"] for _, arrays in given)])
        order = np.lexsort((offsets, chunk))
        begins = np.searchsorted(chunk[order], np.arange(len(chunks) + 1))
        return _RecordIndex(chunks, begins, offsets[order], order)

    def find(self, meta: Any, arrays: wire.Arrays) -> tuple[I64, I64]:
        """The rows of those of the records ``arrays`` that are among these, and which of them these are."""
        numbers, at = _numbers(self.chunks, meta), np.full(len(arrays["offsets"]), -1, np.int64)
        for local, number in enumerate(numbers.tolist()):
            mine = np.flatnonzero(arrays["chunk"] == local)
            if number < 0 or not len(mine):
                continue
            first, end = self.begins[number], self.begins[number + 1]
            offsets, wanted = self.offsets[first:end], arrays["offsets"][mine]
            found = np.minimum(np.searchsorted(offsets, wanted), len(offsets) - 1)
            if len(offsets):
                there = offsets[found] == wanted
                at[mine[there]] = first + found[there]
        known = np.flatnonzero(at >= 0)
        return at[known], known

    def ids(self, given: Iterable[wire.WirePart]) -> pa.Array:
        """The ids of the records, in this order."""
        texts = []
        for _, arrays in given:
            buffers = [None, *(pa.py_buffer(np.ascontiguousarray(arrays[f"id_{x}"])) for x in ("offsets", "bytes"))]
            texts.append(pa.Array.from_buffers(pa.string(), len(arrays["id_offsets"]) - 1, buffers))
        whole = pa.concat_arrays(texts) if texts else pa.array([], pa.string())
        return whole.take(pa.array(self.order))

    def event_ms(self, given: Iterable[wire.WirePart]) -> I64:
        """The event times, in this order."""
        none: I64 = np.empty(0, np.int64)
        return np.concatenate([none, *(arrays["event_ms"] for _, arrays in given)])[self.order]


def _numbers(chunks: Sequence[tuple[Any, ...]], meta: Any) -> I64:
    """The number in ``chunks`` of each chunk of ``meta``, -1 where it is none of them."""
    known = {each: number for number, each in enumerate(chunks)}
    return np.array([known.get(tuple(each), -1) for each in meta["chunks"]], np.int64)
