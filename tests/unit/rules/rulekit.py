"""Rules and a stream for the tests of this folder."""

from typing import Any

import yaml

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.texts.problems import path_text
from crossline.rules.base import Rule
from crossline.rules.rule_reader import load_rules_text, read_rule

STREAMS_TEXT = """\
schema_version: 1
streams:
  payments:
    id: transaction_id
    event_time: {field: event_time}
    fields:
      transaction_id: string
      account_id: string
      merchant_id: integer
      amount_cents: integer
      rate: number?
      status: string
      approved: boolean?
      event_time: integer
      received_at: integer
      tags: [string]
      location: {country: string?, lat: number?}
  events.raw:
    id: event_id
    event_time: {field: event_ts}
    fields: {event_id: string, user_id: string, type: string, value: number, event_ts: integer, hashtag: string?}
"""


def streams() -> dict[str, StreamSpec]:
    return load_streams(STREAMS_TEXT, "stream.yaml")


VELOCITY: dict[str, Any] = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "account_id",
    "aggregation_type": "count",
    "aggregation_threshold": 10,
    "window": "60s",
}
THRESHOLD: dict[str, Any] = {
    "rule_id": "large",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": "payments",
    "conditions": [{"field": "amount_cents", "operator": ">=", "value": 50_000}],
}


def without(body: dict[str, Any], *names: str, **more: Any) -> dict[str, Any]:
    """``body`` less ``names``, and with ``more``."""
    return {name: value for name, value in body.items() if name not in names} | more


def rule(body: dict[str, Any], **more: Any) -> Rule:
    """``body`` with ``more`` as a rule, checked against the streams."""
    return load_rules_text(yaml.safe_dump({**body, **more}), "test.yaml", streams())[0].rule


def findings_of(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with ``body``: (path, found; expected; hint)."""
    _, findings = read_rule(body, streams(), ["watch"])
    return [(path_text(f.path), f"{f.found}; {f.expected}; {f.hint}") for f in findings]
