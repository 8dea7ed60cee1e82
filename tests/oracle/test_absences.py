"""Absences, and rules that read their hits: what the naive twin says, wherever the stream is cut, however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from drawing import one_of_these

from .composed import composed_detect
from .fastpath import FastPath, plans_of, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import running_max_ingest
from .strategies import START_MS, STREAM, Body, Record, records
from .test_detect_equals_naive import Shape, check, many, run, shapes, with_ingest
from .test_publications import SPREAD, Op, live, outcome

TIMES: list[Body] = [
    {"watermark_delay": "1s", "allowed_lateness": "2s"},
    {"watermark_delay": "0s", "allowed_lateness": "5s", "late_policy": "skip"},
    {"time_mode": "processing_time"},
]


def kind(*values: str) -> list[Body]:
    return [{"field": "kind", "operator": "in", "value": list(values)}]


@st.composite
def absences(draw: st.DrawFn) -> list[Body]:
    """One that many records wait for, and rules that read its hits: one that counts them, one that waits for more."""
    common = draw(st.sampled_from(TIMES))
    waits: Body = {
        "rule_id": "quiet",
        "version": 1,
        "rule_type": "absence",
        "source_topic": STREAM,
        "group_by": draw(st.sampled_from(["account", "device", []])),
        "after": kind("CSH", "POS", *draw(st.sampled_from([[], ["ATM"]]))),
        "expect": kind("ATM", *draw(st.sampled_from([[], ["été"], ["CSH"]]))),
        "within": draw(one_of_these("500ms", "1s", "3s", "12s")),
        **draw(st.sampled_from([{}, {}, {"cooldown": "1s"}, {"cooldown": "12s"}])),
        **common,
    }
    counts: Body = {
        "rule_id": "often",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "rule:quiet",
        "group_by": "device",
        "aggregation_type": draw(one_of_these("count", "last")),
        "aggregation_field": "amount",
        "aggregation_threshold": 2,
        "window": "5s",
        **common,
    }
    again: Body = {
        **waits,
        "rule_id": "again",
        "source_topic": "rule:quiet",
        "expect": kind("CSH"),
        "after": kind("POS"),
    }
    return draw(st.sampled_from([[waits], [waits, counts], [waits, again], [waits, counts, again]]))


@many
@given(st.data(), absences(), records(), st.booleans(), st.booleans())
def test_any_cut_reports_the_same(
    data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool, back: bool
) -> None:
    """One log, whose ingest times are its own, the records' running maximum, or go back."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    elif back:
        steps = data.draw(st.lists(st.sampled_from([0, 0, 500, 2000]), min_size=len(made), max_size=len(made)))
        made = with_ingest(made, [record["_ingest_ms"] - ms for record, ms in zip(made, steps, strict=True)])
    shape = data.draw(shapes(len(made)))
    bounds = Bounds(partition_lag_ms=2000 if back else 0)
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}), shape.shards, bounds)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    check(path, rules, composed_detect(rules, made), made)


def _record(number: int, at_s: float, kind_: str, account: str = "a1") -> Record:
    at_ms = START_MS + round(1000 * at_s)
    return {"_id": f"t{number}", "_event_ms": at_ms, "_ingest_ms": at_ms, "account": account, "kind": kind_}


QUIET: Body = {
    "rule_id": "quiet",
    "version": 1,
    "rule_type": "absence",
    "source_topic": STREAM,
    "group_by": "account",
    "after": kind("CSH"),
    "expect": kind("ATM"),
    "within": "5s",
}


@pytest.mark.parametrize("lag_ms", [0, 5000])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_partition_that_is_behind_is_waited_for_as_long_as_it_may_be(lag_ms: int, shards: int) -> None:
    """Its answer of second 4 is read when the other is at second 9: its deadline was 5, what is late had until 7."""
    made = [_record(0, 0, "CSH"), _record(1, 9, "POS", "a2"), _record(2, 4, "ATM"), _record(3, 15, "POS", "a2")]
    rules = [{**QUIET, "watermark_delay": "0s", "allowed_lateness": "2s"}]
    plans = plans_of(rules, stream_spec(ingest_column=True), {})
    path = FastPath.of(plans, shards, Bounds(partition_lag_ms=lag_ms))
    run(path, Shape(shards, [(0, 2), (2, 3), (3, 4)], [(0, 0), (1, 0)]), made, ["b", "a", "b", "a"])
    assert [alert["record_id"] for alert in path.alerts] == ([] if lag_ms else ["t0"])


def test_it_is_reported_in_a_batch_without_records_of_its_shard() -> None:
    made = [_record(0, 0, "CSH"), *(_record(n, 6 + n, "POS", f"a{n}") for n in range(1, 9))]
    path = FastPath.of(plans_of([QUIET], stream_spec(ingest_column=True), SPREAD), 3)
    run(path, Shape(3, [(n, n + 1) for n in range(9)], [(0, 0), (0, 1), (0, 2)]), made, ["log"] * 9)
    assert [alert["record_id"] for alert in path.alerts] == ["t0"]
    assert path.alerts[0]["evidence"]["known_at"] == "2023-11-14T22:13:27.001Z"


@pytest.mark.parametrize(
    ("happens", "ending"), [("batch", ("restart", 0)), ("killed", ("lose", 0)), ("uncommitted", ("restart", 0))]
)
@pytest.mark.parametrize("change", [{"version": 2, "within": "3s"}, {"status": "paused"}, {"status": "retired"}])
def test_what_waits_outlives_its_version_and_its_process(
    tmp_path: Path, happens: str, ending: Op, change: Body
) -> None:
    """The version of its time judges the waiting record, and emits one alert, whatever becomes of the version."""
    kinds = ["CSH", "POS", "CSH", "ATM", "CSH", *["POS"] * 12, "CSH", *["POS"] * 10]
    made = [_record(n, n, each, "a1" if n % 2 == 0 else "a2") for n, each in enumerate(kinds)]
    reader: Body = {
        "rule_id": "twice",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "rule:quiet",
        "window": "1m",
        "aggregation_type": "count",
        "aggregation_threshold": 2,
    }
    ops: list[Op] = [("publish", QUIET), ("publish", reader), (happens, (3, 1, None)), ending, (happens, (2, 2, None))]
    ops += [("publish", {**QUIET, **change}), ending, (happens, (2, 1, None)), ending, (happens, (2, 1, None)), ending]
    if change.get("status") == "paused":
        ops.append(("publish", QUIET))
    ops += [(happens, (4, 1, None)), ending, (happens, (5, 2, None)), (happens, (10, 1, None))]
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    life = Life(tmp_path, stream_spec(ingest_column=True), standing, 2, 0, Feed())
    live(life, ops, made)
    expected = composed_detect(life.feed.logged, made, defaults=SPREAD)
    assert outcome(life) == twin_outcome(expected, made)
    assert {"t0", "t2", "t4"} <= {hit.record_id for hit in expected.hits if hit.rule_id == "quiet"}


@pytest.mark.parametrize("cuts", [[(0, 4)], [(0, 1), (1, 2), (2, 3), (3, 4)]])
def test_a_reader_gets_hits_as_they_become_known_not_as_their_records_came(cuts: list[tuple[int, int]]) -> None:
    """The record that came second happened first. Cut apart, both are known at the last record all the same."""
    made = [_record(0, 3, "CSH"), {**_record(1, 2, "CSH", "a2"), "_ingest_ms": START_MS + 3500}]
    made += [_record(2, 4, "POS", "a3"), _record(3, 60, "POS", "a3")]
    reader: Body = {
        "rule_id": "twice",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "rule:quiet",
        "window": "1m",
        "aggregation_type": "count",
        "aggregation_threshold": 2,
    }
    path = FastPath.of(plans_of([QUIET, reader], stream_spec(ingest_column=True), SPREAD), 2)
    run(path, Shape(2, cuts, []), made, ["log"] * 4, 2)
    (alert,) = [each for each in path.alerts if each["rule_id"] == "twice"]
    assert (alert["record_id"], alert["evidence"]["record_ids"]) == ("t0", ["t1", "t0"])
    assert alert["event_time"] == alert["ingest_time"] == "2023-11-14T22:13:30.001Z"
