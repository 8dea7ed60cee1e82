"""Rules that read hits, at any depth: the same alerts as the naive twin, however the stream is cut and restarted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults

from .composed import composed_detect
from .composed_strategies import composed_sets
from .fastpath import FastPath, plans_of, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import running_max_ingest
from .strategies import LISTS, START_MS, STREAM, Body, Record, records
from .test_detect_equals_naive import (
    INGEST_BACK_MS,
    check,
    logs_that_go_back,
    many,
    passed_ms,
    patient,
    run,
    shapes,
    with_ingest,
)
from .test_publications import SPREAD, Op, live, outcome


@many
@given(st.data(), composed_sets(), records(), st.booleans())
def test_one_log(data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    check(path, rules, composed_detect(rules, made, lists=LISTS), made)


@many
@given(st.data(), composed_sets(), records())
def test_several_logs_whose_ingest_times_go_back(data: st.DataObject, rules: list[Body], made: list[Record]) -> None:
    """A hit stands among those of other logs where its record does, whichever shard it comes from."""
    made, logs, shape = logs_that_go_back(data, made)
    rules = patient(rules)
    named = [{**record, "_log": log} for record, log in zip(made, logs, strict=True)]
    bounds = Bounds(partition_lag_ms=INGEST_BACK_MS)
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards, bounds)
    path.together = data.draw(st.booleans())
    run(path, shape, made, logs)
    emitted_up_to_ms = passed_ms(made, logs, INGEST_BACK_MS)
    check(path, rules, composed_detect(rules, named, lists=LISTS, passed_ms=emitted_up_to_ms), made)


OFTEN: Body = {
    "rule_id": "often",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "window": "3s",
    "emit": "every",
}
OVER: Body = {**OFTEN, "rule_id": "over", "source_topic": "rule:often", "group_by": "device", "window": "5s"}


@pytest.mark.parametrize("happens", ["batch", "killed", "uncommitted"])
@pytest.mark.parametrize("ending", [("restart", 0), ("lose", 1), ("lose", 0)])
def test_a_rule_that_reads_hits_comes_while_the_pipeline_runs(tmp_path: Path, happens: str, ending: Op) -> None:
    """Its level begins with a later batch, has a log of its own, and is made from it again; it ends and comes back."""
    at_s = [number + 20 * (number >= 4) + 20 * (number >= 11) for number in range(24)]  # what is before is forgotten
    made: list[Record] = [
        {
            "_id": f"t{number}",
            "_event_ms": START_MS + 1000 * at_s[number],
            "_ingest_ms": START_MS + 1000 * at_s[number],
            "account": f"a{number % 3}",
            "device": number % 2,
        }
        for number in range(24)
    ]
    retired = {**OVER, "version": 2, "status": "retired"}
    deeper = {**OVER, "rule_id": "deeper", "source_topic": "rule:over", "version": 1}
    ops: list[Op] = [
        ("publish", OFTEN),
        ("batch", (4, 1, None)),
        ("publish", OVER),
        (happens, (3, 2, None)),
        ending,
        (happens, (4, 1, None)),
        ("publish", deeper),
        (happens, (4, 2, None)),
        ending,
        (happens, (3, 1, None)),
        ("publish", {**OVER, "version": 2}),
        ("publish", retired),
        (happens, (3, 1, None)),
        ("restart", 0),
        (happens, (3, 1, None)),
    ]
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    life = Life(tmp_path, stream_spec(ingest_column=True), standing, 2, 0, Feed())
    live(life, ops, made)
    logged = life.feed.logged
    expected = composed_detect(logged, made, defaults=SPREAD, lists=LISTS)
    assert outcome(life) == twin_outcome(expected, made)
    assert {"often", "over", "deeper"} == {hit.rule_id for hit in expected.hits}
    assert all("hits of before are not read again" in text for text in life.feed.noted)
    assert len(life.feed.noted) == 2
