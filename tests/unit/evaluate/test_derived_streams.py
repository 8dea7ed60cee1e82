"""What a stage hands on where nothing was hit: how far logs stand, once for each plan that waits for hits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.route.part_codec import pack, unpack
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAMS = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, card: string, at: integer}}
""",
    "stream.yaml",
)


def counting(rule_id: str, **more: Any) -> dict[str, Any]:
    kind = {"version": 1, "rule_type": "velocity", "source_topic": "s", "group_by": "card"}
    return {"rule_id": rule_id, **kind, "aggregation_type": "count", "window": "1m", "aggregation_threshold": 3, **more}


def plans() -> list[StreamPlan]:
    both = {"rule_id": "both", "version": 1, "rule_type": "composite", "all_of": ["a", "b"], "window": "1h"}
    bodies = [counting("a"), counting("b"), {**both, "join_key": "card"}, counting("again", source_topic="rule:a")]
    rules = load_rules_text(json.dumps(bodies), "rules.yaml", STREAMS)
    return list(compile_all(RuleSet.from_rules(each.rule for each in rules), STREAMS, Defaults()).values())


@pytest.mark.parametrize("shards", [1, 8])
def test_a_shard_without_hits_reports_itself_alone_once_a_plan(shards: int) -> None:
    parts = derived(plans(), 1, [], {"s": {"one": 5_000, "other": 9_000}}, shards, {}, own=shards - 1)
    above = [plan.stream for plan in plans() if plan.depth == 2]
    assert len(above) == 2
    assert sorted((depth, part.meta["stream"], part.shard) for depth, part in parts) == sorted(
        (2, stream, shards - 1) for stream in above
    )


def test_what_it_reports_is_how_far_every_log_of_every_rule_stands() -> None:
    parts = derived(plans(), 1, [], {"s": {"one": 5_000, "other": 9_000}}, 8, {}, own=3)
    above = [plan for plan in plans() if plan.depth == 2]
    state = ShardState()
    arrived = list(unpack(pack(part for _, part in parts), "a test"))
    output = judge(above, state, arrived, Bounds())
    assert (output.hits, output.records) == ([], 0)
    for plan in above:
        stands = state.log_clock[plan.stream]
        assert sorted(set(stands.values())) == [5_000, 9_000]
        assert len(stands) == (4 if plan.met is not None else 2), "two logs of each rule that it reads"
        assert state.emitted_to_ms[plan.stream] == 9_000, "time passes there: by the bounds no log lags"
