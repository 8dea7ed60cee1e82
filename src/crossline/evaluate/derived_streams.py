"""Hits as records: what a stage hands to the next, where rules read the hits of rules."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.conditions.lists import Lists
from crossline.basics.streams.inputs import HIT, RULE, rule_of
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.values import Records
from crossline.evaluate.alerts.alert import alert_id_of, correction_id
from crossline.evaluate.alerts.current_alerts import RETRACTED
from crossline.evaluate.alerts.hits import Hit
from crossline.evaluate.alerts.origins import id_of_hit
from crossline.evaluate.changes import changes_of
from crossline.evaluate.cross_key import cross_key_parts
from crossline.evaluate.decisions.holds import came_record
from crossline.evaluate.feature_rows import FeatureRows
from crossline.ingest.route.partitioner import Chunk, Part, route
from crossline.ingest.route.plan_inputs import stream_join
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import columns_from
from crossline.plan.stream_join import arrow_type, joined_log

_LARGEST = sys.float_info.max  # no record has an infinite number
_FOUND: dict[str, Callable[[Hit], Any]] = {
    f"{HIT}.value": lambda hit: None if hit.value is None else max(-_LARGEST, min(_LARGEST, float(hit.value))),
    f"{HIT}.severity": lambda hit: hit.version.rule.severity,
    f"{HIT}.score": lambda hit: hit.version.rule.score * hit.adds,
    f"{HIT}.version": lambda hit: hit.version.rule.version,
    f"{HIT}.shadow": lambda hit: hit.version.kind == "shadow",
    f"{HIT}.record_id": lambda hit: hit.record_id,
}
_KEY = f"{HIT}.key."
CLOCKS = ""  # in the place of a state store: of none


def derived(
    plans: Iterable[StreamPlan],
    depth: int,
    hits: Sequence[Hit],
    clocks: Mapping[str, Mapping[str, int]],
    shards: int,
    lists: Lists,
    feature_queries: Sequence[FeatureRows] = (),
    *,
    own: int = 0,
) -> list[tuple[int, Part]]:
    """The parts that ``hits`` of plans of ``depth`` are for plans above, each with the depth that it is judged at.

    ``own``: the number of the shard whose hits they are. Every plan that reads hits of this depth gets a part for this
    shard, also without hits, so each shard gets its own clocks.

    ``clocks``: by stream, the positions of its logs. Parts carry them, since plans above see only hits.
    ``feature_queries``: the cross-key figures of other rules.
    """
    plans = list(plans)
    cross_key_features = list(cross_key_parts(plans, feature_queries, shards)) if feature_queries else []
    above = [each for plan in plans for each in _read_by(plan, depth + 1)]
    if not above:
        return cross_key_features
    by_rule: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_rule[hit.version.rule.rule_id].append(hit)
    parts: list[tuple[int, Part]] = []
    quiet: dict[str, tuple[StreamPlan, dict[str, int]]] = {}
    for plan, rule_id in above:
        read = next((each for each in plans if rule_id in each.carried), None)
        logs = clocks.get(read.stream, {}) if read is not None else {}
        logs = logs if read is None or read.met is None else read.met.judged_logs(logs)
        of = [(chunk, True) for chunk in _chunks(_scores(plan, by_rule[rule_id]))]
        if plan.met is None or f"{RULE}{rule_id}" in plan.met.plain:
            chunks = _chunks(hit for hit in by_rule[rule_id] if not hit.very_late)
            of += [(chunk, False) for chunk in chunks]
            if not chunks:
                quiet.setdefault(plan.stream, (plan, {}))[1].update(_stand(plan, f"{RULE}{rule_id}", logs))
        for chunk, scores in of:
            routed = _routed(plan, rule_id, chunk, logs, shards, lists, scores=scores)
            parts += [(plan.depth, part) for part in routed]
    return (
        parts + [(plan.depth, _clocks_alone(plan, stand, own)) for plan, stand in quiet.values()] + cross_key_features
    )


def _stand(plan: StreamPlan, source: str, clocks: Mapping[str, int]) -> dict[str, int]:
    """``clocks`` of the logs of a rule's hits by what the logs are called in ``plan``."""
    met = plan.met
    if met is None:
        return dict(clocks)
    names = [name for name in columns_from(plan, source) if name not in met.scores]
    return {met.log(name, source, log): ms for name in names for log, ms in clocks.items()}


def _clocks_alone(plan: StreamPlan, stand: Mapping[str, int], own: int) -> Part:
    """No records, but where the logs of the hits stand that there might have been."""
    meta = {"stream": plan.stream, "state_store": CLOCKS, "log": "", "sequence": 0, "clocks": stand}
    return Part(own, meta, {})


def _chunks(hits: Iterable[Hit]) -> list[list[Hit]]:
    """``hits`` by the chunks of their records, in order."""
    ordered = sorted(hits, key=lambda hit: hit.place[1:])
    return [list(group) for _, group in groupby(ordered, key=lambda hit: hit.place[1:4])]


def _scores(plan: StreamPlan, hits: Iterable[Hit]) -> Iterator[Hit]:
    """``hits`` as inputs of the risk scores of ``plan``. A retraction is an input that subtracts the score.

    Each has the position of its cause, since nothing before that position saw it. An amended hit has the score it had;
    one whose score is 0 adds nothing.
    """
    for hit in hits if plan.met is not None and plan.met.members else ():
        outcome = None if hit.correction is None else hit.correction.outcome
        if outcome == "amended" or not hit.version.rule.score:
            continue
        placed = hit
        if hit.cause is not None:
            cause = hit.cause.cause
            placed = replace(
                hit, place=hit.cause.place, ingest_ms=cause.ingest_ms, reached_ms=cause.reached_ms, cause=None
            )
        yield replace(placed, adds=-1) if outcome == RETRACTED else placed


def _read_by(plan: StreamPlan, depth: int) -> Iterator[tuple[StreamPlan, str]]:
    """The rules whose hits, which are records of ``depth``, ``plan`` reads."""
    depths = {plan.stream: plan.depth} if plan.met is None else plan.met.depths
    for source, mine in depths.items():
        rule_id = rule_of(source)
        if rule_id is not None and mine == depth:
            yield plan, rule_id


def _routed(
    plan: StreamPlan,
    rule_id: str,
    hits: Sequence[Hit],
    clocks: Mapping[str, int],
    shards: int,
    lists: Lists,
    *,
    scores: bool,
) -> Iterator[Part]:
    """The hits of a rule at the records of one chunk, in their order, and where the logs of these stand."""
    source, met = f"{RULE}{rule_id}", plan.met
    spec = plan.spec if met is None else met.specs[source]
    base = plan.base if met is None else met.bases[source]
    stream, log, sequence, _, partition = hits[0].place[1:]
    log = joined_log(stream, log, base)
    names = {field for each in columns_from(plan, source).values() for field in each.values()}
    changes = changes_of(hits, plan.order) if plan.corrected and not scores else None
    lines = hits if scores else [hit for hit, _ in changes.hits] if changes is not None else _new(hits)
    id_of = _score_id if scores else alert_id_of
    named = _came if met is not None and met.reading.holds else None
    records, chunk = records_of(source, spec, names, partition, lines, id_of, named), Chunk(log, sequence, partition)
    more: dict[str, Any] = {}
    if changes is not None:
        records, more = replace(records, marks=changes.marks), {"causes": changes.causes}
    if met is None:
        routed: Iterable[Part] = route(plan, records, chunk, shards, lists)
    else:
        routed = stream_join(plan, met, records, chunk, shards, lists, scores=scores)
    for part in routed:
        stand = clocks
        if met is not None:
            stand = {met.log_beside(part.meta["log"], each, base): ms for each, ms in clocks.items()}
        yield replace(part, meta={**part.meta, **more, "clocks": dict(stand)})


def _new(hits: Sequence[Hit]) -> Sequence[Hit]:
    """The hits that are emitted for the first time: their readers take no corrections."""
    return [hit for hit in hits if hit.correction is None]


def records_of(
    source: str,
    spec: StreamSpec,
    names: Iterable[str],
    partition: str,
    hits: Sequence[Hit],
    id_of: Callable[[Hit], str] = alert_id_of,
    named: Callable[[Hit], str] | None = None,
) -> Records:
    """``hits`` of one rule as records of ``source``, with the fields ``names`` of ``spec``.

    ``id_of``, ``named``: what their alerts and their records are known by; None: their ids.
    """
    known = [hit.record_id if named is None else named(hit) for hit in hits]
    times = ((*_times(hit), hit.place[4], hit.reached_ms) for hit in hits)
    event_ms, ingest_ms, offsets, reached_ms = np.array(list(times), np.int64).reshape(-1, 4).T.copy()
    return Records(
        stream=source,
        partition=partition,
        ids=pa.array([id_of_hit(id_of(hit), each) for hit, each in zip(hits, known, strict=True)], pa.string()),
        event_ms=event_ms,
        ingest_ms=ingest_ms,
        offsets=offsets,
        fields={name: _column(name, spec.columns[name], hits) for name in names},
        reached_ms=reached_ms,
    )


def _score_id(hit: Hit) -> str:
    """The id of its alert; for a retracted or reinstated hit that of the correction."""
    found = alert_id_of(hit)
    return found if hit.correction is None else correction_id(found, hit.correction.caused_by)


def _came(hit: Hit) -> str:
    """For a hold: its record, and when it came, since a release is of alerts that came before it."""
    return came_record(_times(hit)[1], hit.record_id)


def _times(hit: Hit) -> tuple[int, int]:
    """Event time and ingest time: those of its record, or for an absence the time at which it was known."""
    return (hit.event_ms, hit.ingest_ms) if hit.known_ms is None else (hit.known_ms, hit.known_ms)


def _column(name: str, spec: FieldSpec, hits: Sequence[Hit]) -> pa.Array:
    return pa.array([_value(name, hit) for hit in hits], arrow_type(spec))


def _value(name: str, hit: Hit) -> Any:
    if name in _FOUND:
        return _FOUND[name](hit)
    return hit.key.get(name.removeprefix(_KEY)) if name.startswith(_KEY) else hit.carried.get(name)
