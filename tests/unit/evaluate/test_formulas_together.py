"""Formulas of one state store are computed together: what they share once, and what only has the same name apart."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from crossline.basics.formula import vectors
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAMS = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, card: string, n: integer, at: integer}}
""",
    "stream.yaml",
)


def rule(rule_id: str, when: str, **windows: str) -> dict[str, Any]:
    figures = {name: {"count": True, "group_by": "card", "window": window} for name, window in windows.items()}
    kind = {"version": 1, "rule_type": "formula", "source_topic": "s", "emit": "every"}
    return {"rule_id": rule_id, **kind, "figures": figures, "when": when}


def hits(*rules: dict[str, Any]) -> dict[str, list[str]]:
    """By rule the records that it hits: three of one card, at 0, 5 and 60 s, whose ``n`` is 7."""
    found = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(rules), "r.yaml", STREAMS))
    lines = [{"id": f"r{at}", "card": "a", "n": 7, "at": 1_000 * at} for at in (0, 5, 60)]
    raw = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    batch = decode_lines(make_layout("s", STREAMS["s"]), raw, "log", 0).records
    detection, _ = detect(list(compile_all(found, STREAMS, Defaults()).values()), new_state(), batch)
    body: dict[str, list[str]] = {each["rule_id"]: [] for each in rules}
    for hit in detection.hits:
        body[hit.version.rule.rule_id].append(hit.record_id)
    return body


def test_a_name_is_a_figure_of_its_rule_alone() -> None:
    reported = hits(
        rule("short", "few >= 2 and n > 5", few="10s"),
        rule("long", "few >= 2 and n > 5", few="1h"),
        rule("other", "much >= 2 and n > 5", much="10s"),
        rule("both", "few >= 2 and much < 2", few="1h", much="10s"),
        rule("never", "few >= 2 and n > 7", few="1h"),
    )
    assert reported == {"short": ["r5"], "other": ["r5"], "long": ["r5", "r60"], "both": ["r60"], "never": []}


def test_what_rules_share_is_computed_once_whatever_they_call_it() -> None:
    one = rule("one", "few / n > 0.2", few="10s")
    others = [rule(f"more{number}", f"much / n > 0.2 and n < {10 + number}", much="10s") for number in range(5)]
    with mock.patch("crossline.basics.formula.columns.compute", wraps=vectors.compute) as compute:
        alone = hits(one)
        calls = compute.call_count
        together = hits(one, *others)
    assert calls == 1
    assert compute.call_count == 2 * calls
    assert alone["one"] == ["r5"]
    assert set(map(tuple, together.values())) == {("r5",)}
