"""Logs of a stream that are read at different speeds: what is kept for the slow ones, and for how long."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.decode import decode_values, make_layout
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

SPEC = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: t}, fields: {id: string, t: integer, k: string}}
""",
    "stream.yaml",
)["s"]
RULE = """
{rule_id: two, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: count,
 aggregation_threshold: 2, window: 30s, allowed_lateness: 0s, watermark_delay: 0s}
"""
PLAN = compile_stream(RuleSet.from_rules(r.rule for r in load_rules_text(RULE, "r.yaml")), "s", SPEC, Defaults())

Batch = Mapping[str, Sequence[tuple[str, str, int]]]


def run(batches: Sequence[Batch], lag_s: int) -> tuple[list[str], int]:
    """Records (id, key, second) by log, batch by batch: the records that alerts came at, and how many are held."""
    state, alerts, offsets = ShardState(), [], dict.fromkeys(("p0", "p1"), 0)
    layout = make_layout("s", SPEC)
    for batch in batches:
        parts = []
        for log, rows in batch.items():
            values = [json.dumps({"id": i, "t": s * 1000, "k": k}).encode() for i, k, s in rows]
            numbers = np.arange(offsets[log], offsets[log] + len(rows))
            offsets[log] += len(rows)
            came_ms = np.array([s * 1000 for _, _, s in rows])
            records = decode_values(layout, pa.array(values, pa.binary()), log, numbers, came_ms).records
            parts += route(PLAN, records, Chunk(log, int(numbers[0]), log), 1, {})
        output = judge([PLAN], state, list(unpack(pack(parts), "test")), Bounds(lag_s * 1000))
        alerts += [hit.record_id for hit in output.hits]
    return alerts, output.retained


FAST = [("a0", "a", 0), ("a1", "a", 200)]
SLOW = [("b0", "b", 0), ("b1", "b", 10)]


def test_a_log_that_lags_finds_its_windows_whole() -> None:
    whole, _ = run([{"p0": FAST, "p1": SLOW}], 300)
    lagging, held = run([{"p0": FAST, "p1": SLOW[:1]}, {"p1": SLOW[1:]}], 300)
    assert whole == lagging == ["b1"]
    assert held == 4, "p1 has reached 10 s: what p0 gave at 0 s could still be in a window"


def test_what_lags_by_more_than_the_bound_holds_nothing_back() -> None:
    lagging, held = run([{"p0": FAST, "p1": SLOW[:1]}, {"p1": SLOW[1:]}], 60)
    assert lagging == [], "b0 went before b1 was read"
    assert held < 4


def test_records_go_once_the_highest_is_ahead_by_the_bound() -> None:
    later = [("a2", "c", 400)], [("b2", "d", 390)]
    batches: list[Batch] = [{"p0": FAST, "p1": SLOW}, {"p0": later[0], "p1": later[1]}]
    assert run(batches, 60)[1] == 3, "a1 is past too; it goes once half of what is held is"
    assert run(batches, 3_600)[1] == 6
