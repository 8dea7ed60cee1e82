"""A rule that judges hits of two streams holds the records of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .strategies import START_MS
from .test_holds import decisions_of

TIME = "{field: at, unit: ms}"
SAME = f"{{id: id, event_time: {TIME}, ingest_time: {TIME}, fields: {{id: string, account: string, at: integer}}}}"
STREAM = f"{{schema_version: 1, streams: {{payments: {SAME}, logins: {SAME}}}}}"
OFTEN = {
    "version": 1,
    "rule_type": "velocity",
    "group_by": "account",
    "window": "5s",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "emit_to_sink": False,
}
BOTH: dict[str, Any] = {
    "rule_id": "both",
    "version": 1,
    "rule_type": "composite",
    "all_of": ["paid", "seen"],
    "join_key": "account",
    "window": "20s",
    "action": "block",
    "hold": "30s",
}


def test_the_records_of_both_streams_are_held(tmp_path: Path) -> None:
    """Worked by hand: two payments, two logins; the second login, at 3 s, holds both up to 33 s."""
    streams = load_streams(STREAM, "stream.yaml")
    written = [{**OFTEN, "rule_id": "paid", "source_topic": "payments"}]
    written += [{**OFTEN, "rule_id": "seen", "source_topic": "logins"}, BOTH]
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(written), "rules.yaml", streams))
    came = {"payments": (0, 1, 9, 32), "logins": (2, 3, 10, 33)}
    inputs = {}
    for stream, times in came.items():
        lines = [{"id": f"{stream}@{at}", "account": "a1", "at": START_MS + 1000 * at} for at in times]
        path = tmp_path / f"{stream}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
        inputs[stream] = [str(path)]
    deciding = Deciding(load_policy("{schema_version: 1, version: 1}", "policy.yaml"))
    judged = BacktestSpec(rules, RecordedInput(streams, inputs), bounds=Bounds(0), deciding=deciding)
    for shards, batch_bytes in ((1, 1_000_000), (3, 1)):
        found = decisions_of(judged, tmp_path, shards, batch_bytes, kept=shards == 3)
        shown = sorted((each["record_id"], each["decision"], bool(each["reasons"][0].get("held_by"))) for each in found)
        assert shown == [
            ("logins@10", "block", True),
            ("logins@3", "block", False),
            ("payments@32", "block", True),
            ("payments@9", "block", True),
        ]


def test_a_record_is_late_as_its_own_stream_says(tmp_path: Path) -> None:
    """Worked by hand: payments may be 1 s late and logins 20 s; a login of 3 s is decided about by all that holds."""
    own = STREAM.replace("ingest_time: {field: at, unit: ms}", "ingest_time: {field: came, unit: ms}")
    streams = load_streams(own.replace("at: integer", "at: integer, came: integer"), "stream.yaml")
    one = {**OFTEN, "aggregation_threshold": 1, "window": "20s", "emit": "every", "emit_to_sink": True}
    strict = {"watermark_delay": "1s", "allowed_lateness": "1s"}
    written = [{**one, "rule_id": "paid", "source_topic": "payments", **strict}]
    written += [{**one, "rule_id": "seen", "source_topic": "logins"}]
    either = {name: value for name, value in BOTH.items() if name not in {"all_of", "hold"}}
    written += [{**either, "any_of": ["paid", "seen"], "at_least": 1}]
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(written), "rules.yaml", streams))
    inputs = {}
    for stream, times in {"payments": [(0, 0)], "logins": [(5, 5), (6, 9), (10, 10)]}.items():
        lines = [
            {"id": f"{stream}@{at}", "account": "a1", "at": START_MS + 1000 * at, "came": START_MS + 1000 * came}
            for at, came in times
        ]
        path = tmp_path / f"{stream}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
        inputs[stream] = [str(path)]
    deciding = Deciding(load_policy("{schema_version: 1, version: 1}", "policy.yaml"))
    defaults = Defaults("event_time", 10_000, 20_000)
    judged = BacktestSpec(rules, RecordedInput(streams, inputs), defaults=defaults, bounds=Bounds(0), deciding=deciding)
    body = {each["record_id"]: each["decision"] for each in decisions_of(judged, tmp_path)}
    assert body == dict.fromkeys(["payments@0", "logins@5", "logins@6", "logins@10"], "block")
