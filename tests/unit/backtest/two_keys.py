"""A backtest of a few records of two keys, whose third records are the first that come to three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.streams.schema import load_streams
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAM = """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, v: integer}}
"""
RULE = """
- {rule_id: r, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: sum,
   aggregation_field: v, aggregation_threshold: 3, window: 10s}
"""
# Two keys, a record of each in turn, a second between those of a key: the third of each is the first that makes 3.
LINES = b"".join(
    b'{"i": "%s%d", "t": %d, "k": "%s", "v": 1}\n' % (key, number, 1_769_851_800_000 + 1_000 * number, key)
    for number in range(4)
    for key in (b"a", b"b")
)
FIRST = [("a2", 3), ("b2", 3)]  # the record and the value of each alert


def written(folder: Path) -> BacktestSpec:
    """The records in ``folder``, and the backtest of them."""
    (folder / "in.jsonl").write_bytes(LINES)
    streams = load_streams(STREAM, "stream.yaml")
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(RULE, "r.yaml", streams))
    return BacktestSpec(rules, RecordedInput(streams, {"s": [str(folder / "in.jsonl")]}))


def alerts(path: Path) -> list[tuple[Any, Any]]:
    """The record and the value of each alert in a file."""
    return [(each["record_id"], each["value"]) for each in map(orjson.loads, path.read_bytes().splitlines())]
