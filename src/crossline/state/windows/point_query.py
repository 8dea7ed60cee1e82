"""Point queries: the figures of one key as of an instant. A query row reads windows and enters none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossline.basics.values import I64, U8
from crossline.plan.spaces import AggregateSpec, FeatureQueryPlan, WindowPlan
from crossline.state.batch import Delta, Hits, KeyedBatch
from crossline.state.memory.hashing import xxh64_many

ALWAYS = ((-(2**63), 2**63 - 1),)


def feature_query_plan(plan: WindowPlan, figures: Sequence[tuple[int, int]]) -> WindowPlan:
    """``plan`` with one feature query alone, of ``figures``: the number of a group, and of one that counts (or -1).

    Windows exclude the judged record, so the row of the query is in none of them. Figures are named by their places in
    ``figures``.
    """
    groups, named = list(plan.aggregates), []
    for place, (group, count) in enumerate(figures):
        counting = AggregateSpec(plan.aggregates[group].window, -1, "count")
        if count < 0 and counting not in groups:
            groups.append(counting)
        named.append((str(place), group, groups.index(counting) if count < 0 else count))
    feature_query = FeatureQueryPlan("", 0, 0, tuple(named), (), ALWAYS, None)
    cursors = tuple(replace(each, include_current=False) for each in plan.windows)
    return replace(
        plan, windows=cursors, aggregates=tuple(groups), lines=(), formulas=(), feature_queries=(feature_query,)
    )


def rows_under(key: bytes, clock_ms: I64, values: Sequence[Any], entries: U8) -> KeyedBatch:
    """Rows of one key, in ingest order, with their numbers for ids."""
    count = len(clock_ms)
    key_bytes, key_offsets = np.frombuffer(key, np.uint8), np.array([0, len(key)], np.int64)
    return numbered(
        KeyedBatch(
            clock_ms=clock_ms,
            ingest_ms=clock_ms,
            lateness_ms=np.zeros(count, np.int64),
            key_index=np.zeros(count, np.int32),
            key_bytes=key_bytes,
            key_offsets=key_offsets,
            key_hash=xxh64_many(key_bytes, key_offsets),
            id_bytes=np.zeros(0, np.uint8),
            id_offsets=np.zeros(count + 1, np.int64),
            values=tuple(values),
            filters=entries,
        )
    )


def numbered(rows: KeyedBatch) -> KeyedBatch:
    """``rows`` with their numbers for ids: of each eight bytes."""
    count = len(rows)
    return replace(rows, id_bytes=np.arange(count).view(np.uint8), id_offsets=8 * np.arange(count + 1))


def no_rows(plan: WindowPlan, key: bytes) -> KeyedBatch:
    """None, under ``key``."""
    return _blank(plan, key, np.zeros(0, np.int64))


def point_query_batch(plan: WindowPlan, key: bytes, now_ms: int) -> KeyedBatch:
    """The row that asks ``plan``, which is a ``feature_query_plan``, of ``key`` as of ``now_ms``."""
    row = _blank(plan, key, np.array([now_ms], np.int64))
    row.filters[:, 0] = 1
    return replace(row, id_bytes=np.zeros(0, np.uint8), id_offsets=np.zeros(2, np.int64))  # no number, as others have


def _blank(plan: WindowPlan, key: bytes, clock_ms: I64) -> KeyedBatch:
    kinds = (np.float64 if kind == "float" else np.int64 for _, kind in plan.columns)
    values: list[Any] = [np.zeros(len(clock_ms), kind) for kind in kinds]
    return rows_under(key, clock_ms, values, np.zeros((len(clock_ms), (plan.filters + 7) // 8), np.uint8))


def loaded(rows: KeyedBatch) -> Delta:
    """``rows`` as a store loads them that has neither lines nor formulas."""
    none = np.zeros(0, np.int32)
    return Delta(rows, np.zeros((len(rows), 0), np.uint8), none, none)


def features_now(hits: Hits) -> list[tuple[int | float | None, int]]:
    """The features of the queried row: of each figure its value (None: there is none) and its records."""
    (feature,) = hits.features
    found: list[tuple[int | float | None, int]] = []
    for place in range(len(feature.figures)):
        figure = feature.figures[str(place)]
        value = figure.values[0].item() if figure.defined[0] else None
        if value is not None and figure.up is not None:
            value += int(figure.up[0]) << 64
        found.append((value, int(figure.counts[0])))
    return found
