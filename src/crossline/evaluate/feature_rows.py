"""Feature rows: figures of a key at each record, as columns, with the position of each record.

Nothing is made for a record by itself, so that feature queries may be of all records: of millions, figures of several
keys are joined at the record by ``offsets`` within ``chunks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import F64, I32, I64
from crossline.evaluate.alerts.corrections import replayed_rows
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.spaces import FeatureQueryPlan, WindowPlan, WindowSpec
from crossline.state.batch import ArrivalOrder, Bools, Cause, FeatureColumn, ReplayedRows, RowFeatures


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A figure at n records: ``values`` (int64[n] or float64[n]; 0 where it is not ``defined``, bool[n]).

    ``up``: what an integer lacks beyond 64 bits: the value is values + up * 2^64 (int64[n]); None: nothing.
    ``counts``: int64[n], the records in its window. ``starts_ms``, ``ends_ms``: int64[n], from when to when that is.
    """

    values: I64 | F64
    up: I64 | None
    defined: Bools
    counts: I64
    starts_ms: I64
    ends_ms: I64

    def arrow(self) -> pa.Array:
        """int64 or float64, null where it is undefined, and where it is an integer that 64 bits do not hold."""
        missing = ~self.defined if self.up is None else ~self.defined | (self.up != 0)
        return pa.array(self.values, mask=missing)


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """The features that ``version`` of the program ``rule_id`` computes at the n records of a batch in a shard.

    They are in the order in which they were judged. ``stream``: that of its plan. ``ids``: string array (of hits, see
    ``id_of_hit``). Record i stands at ``offsets[i]`` of ``chunks[chunk[i]]``, each (log, sequence, partition);
    ``place_ms``: as in ``Place``. ``reached_ms``: the highest ingest time that its log had reached. ``facts``: the
    requested fields, null where missing. All of int64[n] but ``chunk`` (int32[n]).

    Of replayed records these are the changes: ``cause``, int32[n], is the number of the trigger of each
    among ``causes``, -1 where it is the record itself. None: of all it is.
    """

    rule_id: str
    version: int
    stream: str
    ids: pa.Array
    event_ms: I64
    ingest_ms: I64
    reached_ms: I64
    place_ms: I64
    chunk: I32
    offsets: I64
    chunks: Sequence[tuple[str, int, str]]
    figures: Mapping[str, FigureColumn]
    facts: Mapping[str, pa.Array]
    cause: I32 | None = None
    causes: Sequence[Cause] = ()

    def __len__(self) -> int:
        return len(self.event_ms)


def feature_rows_of(judged: JudgedRows, row_features: Sequence[RowFeatures]) -> Iterator[FeatureRows]:
    """The feature rows of a state store, of each of its feature queries."""
    kernel: Any = judged.store_plan.plan
    for line, features in zip(kernel.feature_queries if row_features else (), row_features, strict=True):
        yield _feature_query(judged, kernel, line, features)


def replayed_feature_rows(
    plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int
) -> Iterator[FeatureRows]:
    """The feature rows of a store at replayed rows, where they changed.

    ``logs``: how many logs the records that are judged have.
    """
    kernel = store_plan.plan.windowed
    if kernel is None or not kernel.feature_queries:
        return
    for piece in replayed:
        judged = replayed_rows(plan, store_plan, piece, logs)
        for line, features in zip(kernel.feature_queries, piece.hits.features, strict=True):
            kept = _changed(piece, features)
            if len(kept):
                causes, cause = _causes(plan, piece, features.rows[kept])
                yield replace(_feature_query(judged, kernel, line, _some(features, kept)), cause=cause, causes=causes)


def _changed(piece: ReplayedRows, features: RowFeatures) -> I64:
    """The rows whose features are new, or differ from the replay before."""
    replay, number = piece.replay[features.rows], piece.number[features.rows]
    order = np.lexsort((replay, number))
    replay, number = replay[order], number[order]
    before = np.zeros(len(order), np.bool_)
    before[1:] = (number[1:] == number[:-1]) & (replay[1:] == replay[:-1] + 1)
    before &= ~piece.begins[replay]
    same = before.copy()
    for figure in features.figures.values():
        defined = figure.defined[order]
        differs = _differs(figure.values[order]) & defined | _differs(defined) | _differs(figure.counts[order])
        if figure.up is not None:
            differs |= _differs(figure.up[order]) & defined
        same &= ~differs
    stood = piece.begins[replay] & ~piece.fresh[features.rows][order]
    kept: I64 = np.sort(order[~same & ~stood])
    return kept


def _differs(values: Any) -> Any:
    """Of each value whether it is another than the one before it."""
    found = np.zeros(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


def _some(features: RowFeatures, kept: I64) -> RowFeatures:
    figures = {
        name: FeatureColumn(
            each.values[kept], None if each.up is None else each.up[kept], each.defined[kept], each.counts[kept]
        )
        for name, each in features.figures.items()
    }
    return RowFeatures(features.rows[kept], figures)


def _causes(plan: StreamPlan, piece: ReplayedRows, rows: I64) -> tuple[list[Cause], I32]:
    """The triggers of the features of ``rows``, and for each row the number of its own; -1: the record itself."""
    places = piece.rows.arrival
    if places is None:
        raise ValueError("found replayed rows without places")
    numbers: dict[Cause, int] = {}
    found, replay = np.full(len(rows), -1, np.int32), piece.replay[rows]
    caused = np.array([each is not None for each in piece.causes], np.bool_)[replay]
    for at in np.flatnonzero(caused).tolist():
        row, cause = int(rows[at]), piece.causes[replay[at]]
        if cause is not None and not (piece.fresh[row] and _order(plan, places, row) >= cause.order):
            found[at] = numbers.setdefault(cause, len(numbers))
    return list(numbers), found


def _order(plan: StreamPlan, places: ArrivalOrder, row: int) -> tuple[int, str, int, int]:
    """Where a row stands among causes."""
    log, sequence, _ = places.chunks[places.chunk[row]]
    return int(places.reached_ms[row]), plan.came(log), sequence, int(places.offsets[row])


def _feature_query(judged: JudgedRows, plan: WindowPlan, line: FeatureQueryPlan, features: RowFeatures) -> FeatureRows:
    batch, rows, mine = judged.batch, judged.rows, features.rows
    ingest_ms, clock_ms = batch.ingest_ms[mine], batch.clock_ms[mine]
    windows = {name: plan.windows[plan.aggregates[count].window] for name, _, count in line.figures}
    every = len(mine) == len(batch)
    return FeatureRows(
        rule_id=line.rule_id,
        version=line.version,
        stream=judged.plan.stream,
        ids=judged.ids(mine),
        event_ms=ingest_ms - batch.lateness_ms[mine],
        ingest_ms=ingest_ms,
        reached_ms=rows["reached"][mine] if "reached" in rows else ingest_ms,
        place_ms=rows["place_ms"][mine],
        chunk=rows["chunk"][mine],
        offsets=rows["offsets"][mine],
        chunks=judged.chunks,
        figures={name: _column(windows[name], clock_ms, figure) for name, figure in features.figures.items()},
        facts={name: batch.facts[name] if every else batch.facts[name].take(pa.array(mine)) for name in line.facts},
    )


def _column(window: WindowSpec, clock_ms: I64, figure: FeatureColumn) -> FigureColumn:
    starts_ms, ends_ms = window.spans_ms(clock_ms)
    return FigureColumn(figure.values, figure.up, figure.defined, figure.counts, starts_ms, ends_ms)
