"""Figures of other streams: the same alerts as the naive twin, however both are cut, sharded and restarted."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.evaluate.alignment import AlignmentBuffer
from crossline.ingest.route.partitioner import Part
from drawing import one_of_these

from .composed import composed_detect
from .fastpath import FastPath, plans_of, stream_spec
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, STREAM, STREAM_FILE, Body, Record, formula_body, records, rule_sets, sequence_body
from .test_absences import TIMES as ABSENCE_TIMES
from .test_detect_equals_naive import at_instants, check, many, run, shapes, with_ingest

OTHER = "rates"


def other_spec(*, ingest_column: bool) -> StreamSpec:
    """As the stream, but that the account is called owner."""
    stream = json.loads(json.dumps(STREAM_FILE["streams"][STREAM]).replace('"account"', '"owner"'))
    if not ingest_column:
        del stream["ingest_time"], stream["fields"]["received_at"]
    return load_streams(json.dumps({"schema_version": 1, "streams": {OTHER: stream}}), "stream.yaml")[OTHER]


def _there(group_by: Any) -> Any:
    names = [group_by] if isinstance(group_by, str) else group_by
    return {name: "owner" if name == "account" else name for name in names} if "account" in (names or ()) else names


@st.composite
def join_sets(draw: st.DrawFn, *, several: bool = False) -> list[Body]:
    """Formulas of which some figures are of the other stream, beside rules of the one alone; ``several``: keys."""
    # The twin takes all records for one stream's clock, by which absences are known.
    bodies = [body for body in draw(rule_sets(2)) if body["rule_type"] != "absence"]
    for number in range(draw(st.integers(1, 2))):
        body = draw(formula_body())
        for name, figure in body["figures"].items():
            if draw(st.integers(0, 3)):
                body["figures"][name] = figure | {"source_topic": OTHER}
                if figure.get("group_by"):
                    body["figures"][name]["group_by"] = _there(figure["group_by"])
            if several and draw(st.booleans()):
                keys = draw(st.sampled_from(["device", "account", ["account", "device"], None]))
                of_other = "source_topic" in body["figures"][name]
                body["figures"][name] |= {"group_by": _there(keys) if of_other else keys}
        bodies.append(body | {"rule_id": f"m{number}", "version": 1})
    sequence = draw(sequence_body().filter(lambda body: "strict" not in body and not _named_otherwise(body)))
    for step in sequence["steps"]:
        if draw(st.booleans()):
            keys = [sequence["group_by"]] if isinstance(sequence.get("group_by"), str) else sequence.get("group_by")
            named = {"group_by": ["owner" if name == "account" else name for name in keys]} if keys else {}
            step |= {"source_topic": OTHER, **named}
    return [*bodies, sequence | {"rule_id": "s0", "version": 1}]


def _named_otherwise(body: Body) -> bool:
    """Whether a part of it has a key of another name."""
    return any("group_by" in part for part in (*body["steps"], body.get("until", {})))


@st.composite
def draw_joined(draw: st.DrawFn, *, ingest_column: bool) -> tuple[list[Record], list[str]]:
    """Records of both in the order of ingest time, of equal times those of the other first; the log of each."""
    own, other = draw(records(20)), draw(records(20, repeats="none"))
    if not ingest_column:
        own, other = (with_ingest(each, running_max_ingest([r["_event_ms"] for r in each])) for each in (own, other))
    renamed = [{"owner" if n == "account" else n: v for n, v in r.items()} | {"_stream": OTHER} for r in other]
    both = sorted([*renamed, *own], key=lambda record: record["_ingest_ms"])
    return both, [record.get("_stream", "log") for record in both]


@many
@given(st.data(), st.booleans().flatmap(lambda several: join_sets(several=several)), st.booleans(), st.integers(1, 2))
def test_figures_of_another_stream(data: st.DataObject, rules: list[Body], ingest_column: bool, pieces: int) -> None:
    made, logs = data.draw(draw_joined(ingest_column=ingest_column))
    shape = at_instants(data.draw(shapes(len(made))), made)
    others = {OTHER: other_spec(ingest_column=ingest_column)}
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}, others=others), shape.shards)
    path.streams[OTHER] = OTHER
    run(path, shape, made, logs, pieces)
    path.duplicates, path.late = ([p for p in each if p.stream == STREAM] for each in (path.duplicates, path.late))
    expected = naive_detect(rules, made, lists=LISTS)
    check(path, rules, expected, made)


@many
@given(st.data(), st.booleans().flatmap(lambda several: join_sets(several=several)), st.booleans(), st.integers(1, 3))
def test_streams_that_are_read_unevenly(
    data: st.DataObject, rules: list[Body], ingest_column: bool, shards: int
) -> None:
    """As files of the past are: what was read ahead waits, and the answer is that of a stream that keeps up."""
    made, logs = data.draw(draw_joined(ingest_column=ingest_column))
    others = {OTHER: other_spec(ingest_column=ingest_column)}
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}, others=others), shards)
    path.streams[OTHER] = OTHER
    left = {log: [(place, made[place]) for place in range(len(made)) if logs[place] == log] for log in ("log", OTHER)}
    known = tuple(stream for log, stream in (("log", STREAM), (OTHER, OTHER)) if left[log])
    waiting = [AlignmentBuffer(known) for _ in range(shards)]
    while any(left.values()):
        parts: list[tuple[int, Part]] = []
        for log in ("log", OTHER):
            count = data.draw(st.integers(0, len(left[log])))
            mine, rest = left[log][:count], left[log][count:]
            left[log] = rest
            if mine:
                parts += path.take_in(log, mine, last=not rest)
        ready = []
        for number, each in enumerate(waiting):
            given = [(part.meta, part.arrays) for _, part in parts if part.shard == number]
            released = each.release(path.plans, given)
            depths = {plan.stream: plan.depth for plan in path.plans}
            ready += [(depths[meta["stream"]], Part(number, dict(meta), arrays)) for meta, arrays in released]
        path.judge(ready)
    assert not any(each.parts for each in waiting)
    path.duplicates, path.late = ([p for p in each if p.stream == STREAM] for each in (path.duplicates, path.late))
    expected = naive_detect(rules, made, lists=LISTS)
    check(path, rules, expected, made)


@st.composite
def awaited(draw: st.DrawFn) -> Body:
    """A record that one of the other stream, or of its own under another name of the key, should follow."""
    kinds = st.sampled_from([["CSH"], ["CSH", "POS"], ["ATM", "POS"]])
    asked = {name: [{"field": "kind", "operator": "in", "value": draw(kinds)}] for name in ("after", "expect")}
    keys = draw(st.sampled_from(["account", "device", ["account", "device"], None]))
    there = _there(keys) or []
    expect: Body = {"source_topic": OTHER, "conditions": draw(st.sampled_from([asked["expect"], None]))}
    expect |= {"group_by": [*there.values()] if isinstance(there, dict) else there} if there else {}
    if draw(st.integers(0, 3)) == 0:
        keys, expect = "device", {"group_by": "amount", "conditions": asked["expect"]}
    return {
        "rule_id": "waits",
        "version": 1,
        "rule_type": "absence",
        "source_topic": STREAM,
        **({"group_by": keys} if keys else {}),
        "after": asked["after"],
        "expect": {name: value for name, value in expect.items() if value is not None},
        "within": draw(one_of_these("500ms", "1s", "3s", "12s")),
        **draw(st.sampled_from([{}, {"conditions": [{"field": "flag", "operator": "exists"}]}, {"cooldown": "3s"}])),
        **draw(st.sampled_from(ABSENCE_TIMES)),
    }


@many
@given(st.data(), awaited(), st.booleans(), st.integers(1, 2), st.booleans())
def test_what_another_stream_should_have_answered(
    data: st.DataObject, rule: Body, ingest_column: bool, pieces: int, alone: bool
) -> None:
    """Also where a rule reads its hits; the clock is that of both streams."""
    made, logs = data.draw(draw_joined(ingest_column=ingest_column))
    shape = at_instants(data.draw(shapes(len(made))), made)
    reader: Body = {"rule_id": "often", "version": 1, "rule_type": "velocity", "source_topic": "rule:waits"}
    reader |= {"window": "5s", "aggregation_type": "count", "aggregation_threshold": 1, "emit": "every"}
    rules = [rule] if alone else [rule, {**reader, **{n: v for n, v in rule.items() if n in reader_times(rule)}}]
    others = {OTHER: other_spec(ingest_column=ingest_column)}
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}, others=others), shape.shards)
    path.streams[OTHER] = OTHER
    run(path, shape, made, logs, pieces)
    path.duplicates, path.late = ([p for p in each if p.stream == STREAM] for each in (path.duplicates, path.late))
    asked = [record for record in made if "source_topic" in rule["expect"] or "_stream" not in record]
    passed_ms = max((record["_ingest_ms"] for record in asked), default=0)
    check(path, rules, composed_detect(rules, made, lists=LISTS, passed_ms=passed_ms), made)


def reader_times(rule: Body) -> list[str]:
    """What a reader takes over of its rule: the clock and the bounds on lateness."""
    return [name for name in ("watermark_delay", "allowed_lateness", "time_mode") if name in rule]
