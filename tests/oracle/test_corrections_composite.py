"""``late_policy: reevaluate`` under composites: what stands is what a scan over the hits that stand says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import one_of_these

from .composites import composite_alert_values, composite_hit_values, composite_hits
from .corrected import current_states, in_event_order
from .fastpath import hit_values
from .naive import Hit, naive_detect
from .rule_versions import duration_ms
from .strategies import LISTS, STREAM, Body, Record
from .test_corrections import _COUNT, BUSY, WITHIN, bounded, reevaluated, sorted_alert_values
from .test_corrections_stream_join import both, judged, read_in_order
from .test_detect_equals_naive import DEEP, many, shapes
from .test_stream_join import OTHER

few = settings(many, max_examples=600 if DEEP else 8)
_PLAIN: Body = {
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "amount", "operator": ">=", "value": 2}],
}
_THERE: Body = {**_COUNT, "source_topic": OTHER, "group_by": "owner", "window": "3s", "aggregation_threshold": 2}
LINES: list[Body] = [{"at_least": 1}, {"at_least": 2}, {"weights": {"r0": 2, "r1": -1.5}, "threshold": 1}]


@st.composite
def members(draw: st.DrawFn) -> list[Body]:
    """Rules of which some judge again; one may have no memory, or take what comes as it comes; one is elsewhere."""
    plain = {**draw(st.sampled_from([_PLAIN, *BUSY[:3]])), "watermark_delay": "1s", "allowed_lateness": "6s"}
    return [
        reevaluated(draw(st.sampled_from(BUSY)), 0),
        draw(st.sampled_from([{**plain, "rule_id": "r1", "version": 1}, reevaluated(draw(st.sampled_from(BUSY)), 1)])),
        reevaluated({**_THERE, "emit": draw(one_of_these("every", "on_crossing"))}, 2),
    ]


def hits_of(rules: Sequence[Body], made: Sequence[Record]) -> list[tuple[Hit, Record]]:
    """What stands of ``rules``: of those that judge again by the log in order, of others as it came."""
    found = []
    for body in rules:
        there = body["source_topic"] == OTHER
        own = [record for record in made if ("_stream" in record) == there]
        mine = [{name: value for name, value in record.items() if name != "_stream"} for record in own]
        ordered = in_event_order(mine) if body.get("late_policy") == "reevaluate" else mine
        snapshot = [{**body, "source_topic": STREAM, "late_policy": "evaluate"}]
        found += [(hit, ordered[hit.position]) for hit in naive_detect(snapshot, ordered, lists=LISTS).hits]
    return found


@few
@given(
    st.data(), members(), st.sampled_from(LINES), st.sampled_from(["every", "on_crossing"]), both(12), st.integers(1, 6)
)
def test_what_stands_of_composites_and_of_what_reads_them(
    data: st.DataObject,
    rules: list[Body],
    line: Body,
    emit: str,
    given_: tuple[list[Record], list[str]],
    window_s: int,
) -> None:
    made, logs = given_
    policy = {**WITHIN, "late_policy": data.draw(one_of_these("evaluate", "reevaluate"))}
    common = {"version": 1, **policy, "join_key": "device", "window": f"{window_s}s", "emit": emit}
    composite = {"rule_id": "c", "rule_type": "composite", "any_of": ["r0", "r1", "r2"], **line, **common}
    reader = {**_COUNT, **WITHIN, "rule_id": "z", "version": 1, "source_topic": "rule:c", "group_by": "kind"}
    reader |= {"window": "4s", "aggregation_threshold": 2}
    *rules, composite, reader = data.draw(bounded(st.just([*rules, composite, reader])))
    path = judged([*rules, composite, reader], made, logs, data.draw(shapes(len(made))))
    standing = current_states(path.alerts)
    below = hits_of(rules, made)
    assert sorted_alert_values([each for each in standing if each["rule_id"] in {"r0", "r1", "r2"}]) == sorted(
        hit_values(hit, record) for hit, record in below
    )
    place = {_name(record): at for at, record in reversed([*enumerate(made)])}  # of what comes twice the first
    ordered = [
        ((record["_event_ms"], record["_ingest_ms"], *_came(record), place[_name(record)], hit.rule_id), hit, record)
        for hit, record in below
        for record in [_there(hit, record)]
        if record["_ingest_ms"] - record["_event_ms"] <= duration_ms(composite["allowed_lateness"])
    ]
    hits = composite_hits(composite, ordered)
    record_of = {hit.record_id: record for _, hit, record in ordered}
    reported = sorted(composite_alert_values(each) for each in standing if each["rule_id"] == "c")
    assert reported == sorted(map(composite_hit_values, hits))
    # Hits on records of one time: in the order in which these came, stream by stream.
    in_order = sorted(made, key=lambda record: (record["_event_ms"], record["_ingest_ms"], *_came(record)))
    at = {_name(record): number for number, record in reversed([*enumerate(in_order)])}
    read = [replace(hit, position=at[_name(record_of[hit.record_id])]) for hit in hits]
    own = [{name: value for name, value in record.items() if name != "_stream"} for record in in_order]
    expected = read_in_order([{**reader, "late_policy": "evaluate"}], [composite, reader], read, own)
    wanted = sorted(hit_values(hit, in_order[hit.position]) for hit in expected)
    assert sorted_alert_values([each for each in standing if each["rule_id"] == "z"]) == wanted


def _there(hit: Hit, record: Record) -> Record:
    """The record, with the stream that it is of."""
    return {**record, "_stream": OTHER} if hit.rule_id == "r2" else record


def _came(record: Record) -> tuple[str]:
    """What puts records of one time in order before their places: the stream, by name."""
    return (record.get("_stream", STREAM),)


def _name(record: Record) -> tuple[str, str, int]:
    return record.get("_stream", STREAM), record["_id"], record["_ingest_ms"]
