"""Rules on any clock, records whose clocks differ, cuts, shards and restarts: the same alerts as the naive twin."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.state.retraction import kernel
from drawing import one_of_these

from .clocked import CLOCK, clocked_detect, on_clock
from .corrected import current_states
from .fastpath import FastPath, alert_values, hit_values, plans_of, twin_outcome
from .living import Feed, Life
from .naive import naive_detect, running_max_ingest
from .strategies import LATENESS_MS, LISTS, STREAM, STREAM_FILE, Body, Record, cuts, records, rule_sets, wire_record
from .test_corrections import PIECES, RULES, disordered, sorted_alert_values
from .test_detect_equals_naive import DEEP, DEFAULTS, Shape, check, in_digits, many, run, shapes, with_ingest
from .test_publications import Op, live, lives, outcome
from .test_runners import in_pool, in_this_one, split

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
        other = named.setdefault((body["rule_id"], body["version"]), draw(one_of_these(True, True, False)))
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
        away_ms = ids.setdefault(record["_id"], data.draw(one_of_these(0, 500, 3000, 60_000)))
        record["_event_ms"] -= away_ms
    rules = [{**body, "timestamp_field": CLOCK} for body in rules]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, spec(), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", data.draw(PIECES)):
        run(path, shape, made, ["log"] * len(made))
    ordered = sorted(made, key=lambda record: record[CLOCK])
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    hits = naive_detect(plainly, on_clock(ordered), lists=LISTS).hits
    assert sorted_alert_values(current_states(path.alerts)) == sorted(
        hit_values(hit, ordered[hit.position]) for hit in hits
    )


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
    reported = {(hit.rule_id, hit.version, hit.record_id) for hit in rest.hits}
    found = {(alert["rule_id"], alert["rule_version"], alert["record_id"]) for alert in nothing.alerts}
    assert found == reported


@few
@given(st.data(), booked(), st.booleans(), st.integers(0, 2), st.sampled_from([0, 5000]))
def test_any_life_reports_what_its_logs_say(
    data: st.DataObject, made: list[Record], ingest_column: bool, turn: int, lag_ms: int
) -> None:
    """Rules of any clock published, paused and given their past; a pipeline that is stopped and killed."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))

    def on_a_clock(body: Body) -> Body:
        other = (int(body["rule_id"][1:]) + body["version"] + turn) % 3 and "time_mode" not in body
        return {**body, "timestamp_field": CLOCK} if other else body

    ops: list[Op] = []
    for happens, what in data.draw(lives(len(made))):
        if happens in {"publish", "ahead"}:
            ops.append((happens, on_a_clock(what)))
        elif isinstance(what, tuple):
            ops.append((happens, (*what[:2], None if what[2] is None else on_a_clock(what[2]))))
        else:
            ops.append((happens, what))
    with tempfile.TemporaryDirectory() as folder:
        given_spec = spec(ingest_column=ingest_column)
        life = Life(Path(folder), given_spec, Defaults(), data.draw(st.integers(1, 3)), lag_ms, Feed())
        live(life, ops, made)
        logged, found = life.feed.logged, outcome(life)
    assert found == twin_outcome(clocked_detect(logged, made, lists=LISTS), made)


@settings(many, max_examples=300 if DEEP else 6)
@given(on_clocks(), booked(), st.booleans(), st.integers(1, 3), st.sampled_from([300, 1_000_000]))
def test_a_backtest_says_what_the_twin_says(
    rules: list[Body], made: list[Record], ingest_column: bool, files: int, batch_bytes: int
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    wanted = twin_outcome(clocked_detect(rules, made, lists=LISTS), made)[0]
    rough = {body["rule_id"] for body in rules if body.get("aggregation_type") == "stddev"}
    given_spec = spec(ingest_column=ingest_column)
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", {STREAM: given_spec}, LISTS)
    with tempfile.TemporaryDirectory() as name:
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], Path(name), files)
        recorded = RecordedInput({STREAM: given_spec}, {STREAM: [str(path) for path in paths]})
        alone = RuleSet.from_rules(item.rule for item in loaded)
        judged = BacktestSpec(alone, recorded, named_lists(LISTS), Defaults(), Bounds(0))
        pool = in_pool(judged, Path(name), 2, batch_bytes)
        one = in_this_one(judged, Path(name), 2, batch_bytes)
    found = sorted(map(alert_values, pool))
    assert [in_digits(each, rough) for each in found] == [in_digits(each, rough) for each in wanted]
    for alert in (*pool, *one):
        del alert["detected_at"]
    assert pool == one


def test_the_clocks_occur() -> None:
    """The strategies give what the tests are about: hits by both clocks, and records late by one alone."""
    seen: set[Any] = set()

    @settings(many, max_examples=60)
    @given(on_clocks(), booked())
    def side_input(rules: list[Body], made: list[Record]) -> None:
        found = clocked_detect(rules, made, lists=LISTS)
        by = {(body["rule_id"], body["version"]): body.get("timestamp_field") for body in rules}
        seen.update(by[hit.rule_id, hit.version] for hit in found.hits)
        plain = [body for body in rules if "timestamp_field" not in body]
        seen.add(("late", found.late != naive_detect(plain, made, lists=LISTS).late))

    side_input()
    assert {None, CLOCK, ("late", True)} <= seen
