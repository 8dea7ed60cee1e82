"""A record that comes again is neither judged nor in a window, on either clock, for as long as it is not too late."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

SPEC = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: t}, ingest_time: {field: came},
      fields: {id: string, t: integer, came: integer, k: string}}
""",
    "stream.yaml",
)["s"]
LAYOUT = make_layout("s", SPEC)
LATENESS_S, WINDOW_S = 120, 10


def fates(mode: str, rows: list[dict[str, Any]], *, one_batch: bool) -> tuple[list[tuple[str, int]], list[str]]:
    """Record and value of each alert, and the ids of duplicates; times of ``rows`` in seconds."""
    rule = {"rule_id": "any", "version": 1, "rule_type": "velocity", "source_topic": "s", "group_by": "k"}
    rule |= {"aggregation_type": "count", "aggregation_threshold": 1, "window": f"{WINDOW_S}s", "emit": "every"}
    rule |= {"time_mode": mode}
    loaded = load_rules_text(json.dumps([rule]), "rules.json", {"s": SPEC})
    plan = compile_stream(RuleSet.from_rules(item.rule for item in loaded), "s", SPEC, Defaults())
    lines = [json.dumps({**r, "t": r["t"] * 1000, "came": r["came"] * 1000}).encode() + b"\n" for r in rows]
    state, alerts, duplicates = new_state(), [], []
    for at, chunk in enumerate([b"".join(lines)] if one_batch else lines):
        found, state = detect(plan, state, decode_lines(LAYOUT, chunk, "log", at * 1000).records)
        alerts += [(alert["record_id"], alert["value"]) for alert in found.alerts]
        duplicates += [position.record_id for position in found.duplicates]
    return alerts, duplicates


@pytest.mark.parametrize("one_batch", [True, False])
@pytest.mark.parametrize("mode", ["event_time", "processing_time"])
@pytest.mark.parametrize("after_s", [1, WINDOW_S, WINDOW_S + 1, 60, LATENESS_S])
def test_a_duplicate_is_not_judged_and_enters_no_window(mode: str, after_s: int, one_batch: bool) -> None:
    """The record comes, comes again, and another of its key comes with it."""
    first = {"id": "r1", "t": 1000, "came": 1000, "k": "a"}
    again = {**first, "came": 1000 + after_s}
    other = {**again, "id": "r2", "t": again["came"]}
    alerts, duplicates = fates(mode, [first, again, other], one_batch=one_batch)
    assert duplicates == ["r1"]
    assert alerts == [("r1", 1), ("r2", 2 if after_s < WINDOW_S else 1)]


@pytest.mark.parametrize("mode", ["event_time", "processing_time"])
def test_it_is_known_whatever_came_between(mode: str) -> None:
    """Enough others that the store throws out what it does not need."""
    first = {"id": "r1", "t": 1000, "came": 1000, "k": "a"}
    others = [{"id": f"o{n}", "t": 1000 + n, "came": 1000 + n, "k": "b"} for n in range(1, 100)]
    alerts, duplicates = fates(mode, [first, *others, {**first, "came": 1100}], one_batch=False)
    assert duplicates == ["r1"]
    assert [record for record, _ in alerts].count("r1") == 1
