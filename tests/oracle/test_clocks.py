"""Rules on any clock, records whose clocks differ, cuts, shards and restarts: the same alerts as the naive twin."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.core.reevaluate import kernel
from crossline.core.streams.schema import StreamSpec, load_streams

from .clocked import CLOCK, clocked_detect, on_clock
from .corrected import last_words
from .fastpath import FastPath, plans_of, told_by_hit
from .naive import naive_detect, running_max_ingest
from .strategies import LATENESS_MS, LISTS, STREAM, STREAM_FILE, Body, Record, cuts, records, rule_sets
from .test_corrections import PIECES, RULES, as_told, disordered
from .test_detect_equals_naive import DEEP, DEFAULTS, Shape, check, many, run, shapes, with_ingest

few = settings(many, max_examples=800 if DEEP else 15)


def spec(*, ingest_column: bool = True) -> StreamSpec:
    """The stream of the strategies with another clock."""
    stream = {**STREAM_FILE["streams"][STREAM], "clocks": {CLOCK: {"field": CLOCK, "unit": "ms"}}}
    stream["fields"] = {**stream["fields"], CLOCK: "integer"}
    if not ingest_column:
        del stream["ingest_time"], stream["fields"]["received_at"]
    return load_streams(json.dumps({"schema_version": 1, "streams": {STREAM: stream}}), "stream.yaml")[STREAM]


@st.composite
def booked(draw: st.DrawFn) -> list[Record]:
    """Records that were booked at another time than they happened; what comes again was booked once."""
    made, by_id = draw(records()), dict[str, int]()
    for record in made:
        late_ms = draw(st.sampled_from(LATENESS_MS))
        record[CLOCK] = by_id.setdefault(record["_id"], record["_ingest_ms"] - late_ms)
    return made


@st.composite
def on_clocks(draw: st.DrawFn) -> list[Body]:
    """Rules of which most go by the other clock, some of their versions by another than those before."""
    bodies = draw(rule_sets())
    named: dict[tuple[str, int], bool] = {}
    for body in bodies:
        other = named.setdefault((body["rule_id"], body["version"]), draw(st.sampled_from([True, True, False])))
        if other and "time_mode" not in body:
            body["timestamp_field"] = CLOCK
    return bodies


@many
@given(st.data(), on_clocks(), booked(), st.booleans(), st.sampled_from(DEFAULTS))
def test_one_log(
    data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool, defaults: dict[str, str]
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, spec(ingest_column=ingest_column), defaults), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    check(path, rules, clocked_detect(rules, made, defaults=defaults, lists=LISTS), made)


@few
@given(st.data(), RULES, disordered(25))
def test_what_stands_is_what_the_log_in_order_of_the_clock_says(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    ids: dict[str, int] = {}
    for record in made:
        record[CLOCK] = record["_event_ms"]
    for record in made:
        away_ms = ids.setdefault(record["_id"], data.draw(st.sampled_from([0, 500, 3000, 60_000])))
        record["_event_ms"] -= away_ms
    rules = [{**body, "timestamp_field": CLOCK} for body in rules]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, spec(), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", data.draw(PIECES)):
        run(path, shape, made, ["log"] * len(made))
    ordered = sorted(made, key=lambda record: record[CLOCK])
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    hits = naive_detect(plainly, on_clock(ordered), lists=LISTS).hits
    assert as_told(last_words(path.alerts)) == sorted(told_by_hit(hit, ordered[hit.position]) for hit in hits)


@few
@given(st.data(), on_clocks(), booked())
def test_a_rule_that_comes_between_batches(data: st.DataObject, rules: list[Body], made: list[Record]) -> None:
    """The clocks of the logs are those of the stream, whichever plans there were before."""
    made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    batches, given_spec = data.draw(cuts(len(made))), spec(ingest_column=False)
    nothing = FastPath.of(plans_of([], given_spec, {}), 2)
    run(nothing, Shape(2, batches[:1], []), made, ["log"] * len(made))
    whole = plans_of(rules, given_spec, {})
    nothing.plans[:] = whole
    run(nothing, Shape(2, batches[1:], []), made, ["log"] * len(made))
    seen = batches[0][1]
    rest = clocked_detect(
        [{**body, "status": body.get("status", "active")} for body in rules], made[seen:], lists=LISTS
    )
    told = {(hit.rule_id, hit.version, hit.record_id) for hit in rest.hits}
    found = {(alert["rule_id"], alert["rule_version"], alert["record_id"]) for alert in nothing.alerts}
    assert found == told


def test_the_clocks_are_met() -> None:
    """The strategies give what the tests are about: hits by both clocks, and records late by one alone."""
    seen: set[Any] = set()

    @settings(many, max_examples=60)
    @given(on_clocks(), booked())
    def look(rules: list[Body], made: list[Record]) -> None:
        found = clocked_detect(rules, made, lists=LISTS)
        by = {(body["rule_id"], body["version"]): body.get("timestamp_field") for body in rules}
        seen.update(by[hit.rule_id, hit.version] for hit in found.hits)
        plain = [body for body in rules if "timestamp_field" not in body]
        seen.add(("late", found.late != naive_detect(plain, made, lists=LISTS).late))

    look()
    assert {None, CLOCK, ("late", True)} <= seen
