"""Hits as records: what a hop hands to the next, where rules read the hits of rules."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.core.alerts.alert import alert_id_of
from crossline.core.alerts.hits import Hit, id_of_hit
from crossline.core.basics.values import Records
from crossline.core.conditions.lists import Lists
from crossline.core.plan.compile import StreamPlan
from crossline.core.plan.compose import reads
from crossline.core.route.parts import Chunk, Part, route
from crossline.core.rules.composition import HIT, rule_of
from crossline.core.streams.schema import FieldSpec

_TYPES: dict[str, pa.DataType] = {"string": pa.string(), "number": pa.float64(), "boolean": pa.bool_()}
_LARGEST = sys.float_info.max  # no record has an infinite number
_FOUND: dict[str, Callable[[Hit], Any]] = {
    f"{HIT}.value": lambda hit: None if hit.value is None else max(-_LARGEST, min(_LARGEST, float(hit.value))),
    f"{HIT}.severity": lambda hit: hit.version.rule.severity,
    f"{HIT}.score": lambda hit: hit.version.rule.score,
    f"{HIT}.version": lambda hit: hit.version.rule.version,
    f"{HIT}.shadow": lambda hit: hit.version.kind == "shadow",
}
_KEY = f"{HIT}.key."


def onward(
    plans: Iterable[StreamPlan],
    level: int,
    hits: Sequence[Hit],
    clocks: Mapping[str, Mapping[str, int]],
    shards: int,
    lists: Lists,
) -> list[Part]:
    """The parts that ``hits`` of plans of ``level`` are for the plans a level above, some for each of ``shards``.

    ``clocks``: by stream, where each of its logs stands. They go along, since what was hit at all is not seen there.
    """
    plans = list(plans)
    above = [(plan, rule_id) for plan in plans if plan.level == level + 1 and (rule_id := rule_of(plan.stream))]
    if not above:
        return []
    by_rule: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_rule[hit.version.rule.rule_id].append(hit)
    parts: list[Part] = []
    for plan, rule_id in above:
        read = next((each.stream for each in plans if rule_id in each.carried), plan.base)
        mine = sorted(by_rule[rule_id], key=lambda hit: hit.place[2:])
        logs = dict(clocks.get(read, {}))
        chunks = [list(group) for _, group in groupby(mine, key=lambda hit: hit.place[2:4])] or [[]]
        for chunk in chunks:
            parts += [_with_clocks(part, logs) for part in _routed(plan, chunk, shards, lists)]
    return parts


def _with_clocks(part: Part, clocks: Mapping[str, int]) -> Part:
    return replace(part, meta={**part.meta, "clocks": clocks})


def _routed(plan: StreamPlan, hits: Sequence[Hit], shards: int, lists: Lists) -> list[Part]:
    """The hits at the records of one chunk, in their order."""
    log, sequence, _, partition = hits[0].place[2:] if hits else ("", 0, 0, "")
    return route(plan, records_of(plan, partition, hits), Chunk(log, sequence, partition), shards, lists)


def records_of(plan: StreamPlan, partition: str, hits: Sequence[Hit]) -> Records:
    """``hits`` of one rule as records of ``plan``, with the fields that are read."""
    times = ((hit.event_ms, hit.ingest_ms, hit.place[4], hit.reached_ms) for hit in hits)
    event_ms, ingest_ms, offsets, reached_ms = np.array(list(times), np.int64).reshape(-1, 4).T.copy()
    return Records(
        stream=plan.stream,
        partition=partition,
        ids=pa.array([id_of_hit(alert_id_of(hit), hit.record_id) for hit in hits], pa.string()),
        event_ms=event_ms,
        ingest_ms=ingest_ms,
        offsets=offsets,
        fields={name: _column(name, plan.spec.columns[name], hits) for name in reads(plan)},
        reached_ms=reached_ms,
    )


def _column(name: str, spec: FieldSpec, hits: Sequence[Hit]) -> pa.Array:
    return pa.array([_value(name, hit) for hit in hits], _TYPES.get(spec.kind, pa.int64()))


def _value(name: str, hit: Hit) -> Any:
    if name in _FOUND:
        return _FOUND[name](hit)
    return hit.key.get(name.removeprefix(_KEY)) if name.startswith(_KEY) else hit.carried.get(name)
