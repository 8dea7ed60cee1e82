"""Records of a scene, judged by one rule: the alerts that come of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

START_MS = 1_767_225_600_000
STREAMS = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields:
      id: string
      at: timestamp
      card: string
      merchant: string?
      amount: integer?
      level: number?
      country: string?
      status: string?
      points: integer?
      place: {lat: number?, lon: number?}
""",
    "stream.yaml",
)


def loaded(body: dict[str, Any]) -> RuleSet:
    given = {"rule_id": "r", "version": 1, "source_topic": "payments", **body}
    return RuleSet.from_rules(item.rule for item in load_rules_text(json.dumps([given]), "rules.yaml", STREAMS))


def alerts(body: dict[str, Any], records: Sequence[dict[str, Any]], batches: int = 1) -> list[dict[str, Any]]:
    """``records``: their fields, of which ``s`` is the second that they are of; card c1 unless they say another."""
    spec = STREAMS["payments"]
    plan, state = compile_stream(loaded(body), "payments", spec, Defaults()), new_state(2)
    lines = []
    for number, record in enumerate(records):
        own = {name: value for name, value in record.items() if name != "s"}
        at_ms = START_MS + round(1000 * record["s"])
        lines.append(json.dumps({"id": f"n{number}", "card": "c1", "at": at_ms, **own}).encode() + b"\n")
    found = []
    for part in range(batches):
        mine = b"".join(lines[len(lines) * part // batches : len(lines) * (part + 1) // batches])
        at = sum(map(len, lines[: len(lines) * part // batches]))
        decoded = decode_lines(make_layout("payments", spec), mine, "log", at)
        assert not decoded.dead, decoded.dead
        detection, state = detect(plan, state, decoded.records)
        found += detection.alerts
    return found


def refused(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Path and text of each problem."""
    try:
        loaded(body)
    except RefusedError as error:
        return [(each.path.removeprefix("[0]."), f"{each.found}; {each.expected}") for each in error.problems]
    return []
