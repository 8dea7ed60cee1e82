"""Rules as English, word for word; the program alone explains every type."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.analysis.english import describe_rule
from crossline.analysis.retention import retained_by
from crossline.basics.streams.schema import load_streams
from crossline.plan.compile import compile_stream
from crossline.plan.compose import compile_all, sources_of
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

FOLDER = Path(__file__).parents[2] / "golden" / "workbench"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")
SPEC = STREAMS["payments"]
RULES = [each.rule for each in load_rules_text((FOLDER / "explain.yaml").read_text(), "explain.yaml", STREAMS)]


def test_the_sentences() -> None:
    text = "".join(f"{rule.rule_id}: {describe_rule(rule, rule.program(SPEC, Defaults()))}\n\n" for rule in RULES)
    expected = FOLDER / "explain.txt"
    if not expected.exists():
        expected.write_text(text)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert text == expected.read_text()


def test_what_is_kept_and_shared() -> None:
    plan = compile_stream(RuleSet.from_rules(RULES), "payments", SPEC, Defaults())
    (declines,) = retained_by(plan, "declines")
    assert (declines.key_fields, declines.shared_with) == (("card",), ("share", "travel"))
    # 90 days of silence are the furthest that a rule of the card looks back.
    assert (declines.retention_ms, declines.lateness_ms) == (90 * 86_400_000, 120_000)
    assert set(declines.columns) == {"amount", "place.lat", "place.lon"}
    assert len(declines.filters) == 1
    (alone,) = retained_by(plan, "before")
    assert (alone.key_fields, alone.shared_with, alone.columns) == (("card", "device"), (), ("status",))
    (ingest,) = retained_by(plan, "on_ingest_time")
    assert (ingest.key_fields, ingest.time_mode, ingest.lateness_ms) == ((), "processing_time", 0)
    assert retained_by(plan, "large") == []


JOINING_RULES = """
- rule_id: a.1
  version: 1
  rule_type: threshold
  source_topic: payments
  conditions: [{field: amount, operator: ">", value: 9}]
- rule_id: b
  version: 1
  rule_type: threshold
  source_topic: rates
  conditions: [{field: rate, operator: ">", value: 9}]
- {rule_id: both, version: 1, rule_type: composite, all_of: [a.1, b], join_key: account, window: 1h}
- rule_id: off
  version: 1
  rule_type: formula
  source_topic: payments
  figures:
    market: {last: rate, source_topic: rates, group_by: {pair: currency}, window: 5m}
    silent: {since: true, source_topic: rates, group_by: {pair: currency}, window: 5m, delay: 1m}
    all: {count: true, group_by: pair, window: 5m}
  when: amount > market and silent > 5 and all > 1
"""
TWO_STREAMS = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, account: string, pair: string, amount: integer}
  rates:
    id: number
    event_time: {field: when}
    fields: {number: integer, when: integer, account: string, currency: string, rate: number}
"""


def test_streams_that_meet_are_reported_in_words() -> None:
    streams = load_streams(TWO_STREAMS, "stream.yaml")
    rules = [each.rule for each in load_rules_text(JOINING_RULES, "rules.yaml", streams)]
    plans = compile_all(RuleSet.from_rules(rules), streams, Defaults())
    sources = sources_of(RuleSet.from_rules(rules), streams)
    body = {
        each.rule_id: describe_rule(each, each.program(sources.of_reading(each.reading), Defaults())) for each in rules
    }
    assert body["both"].startswith(
        "It looks at each hit of a.1 or b. It fires where all of a.1, b hit in 60 min at the same account, when that "
        "begins to hold for the same account."
    )
    assert body["off"].startswith(
        "It looks at each payment. market is the last rate of rates with the same pair (there currency) in the last "
        "5 min; silent is the milliseconds since the last of rates with the same pair (there currency) in the last "
        "5 min (as of 60 s before); all is the number of payments with the same pair in the last 5 min (itself "
        "included). It fires where "
    )
    kept = {each.rule_id: retained_by(plans[each.reading.name], each.rule_id) for each in rules[2:]}
    assert [(each.stream, each.columns) for each in kept["both"]] == [("rule:a.1 and rule:b", ())]
    assert [(each.stream, each.columns) for each in kept["off"]] == [("payments and rates", ("rate of rates",))]


ABSENT = """
rule_id: unsettled
version: 1
rule_type: absence
source_topic: payments
group_by: [card, device]
conditions: [{field: amount, operator: ">", value: 9}]
after: [{field: status, operator: "==", value: started}]
expect: [{field: status, operator: in, value: [settled, failed]}]
within: 10m
cooldown: 1h
"""


def _absent(more: str) -> tuple[str, RuleSet]:
    (item,) = load_rules_text(ABSENT + more, "rules.yaml", STREAMS)
    return describe_rule(item.rule, item.rule.program(SPEC, Defaults())), RuleSet.from_rules([item.rule])


def test_an_absence_in_english() -> None:
    first = (
        "It looks at each payment where amount > 9. It fires at each payment where amount > 9 and status == started "
        "that is not followed by one with the same card and device where amount > 9 and status in settled, failed "
        "within 10 min. The rule decides that once the ingest times of the stream have passed that time"
    )
    after = " After an alert there is none with the same card and device for 60 min."
    late = f"{first} and another 2 min, for what comes late.{after} A payment that is more than "
    assert _absent("")[0] == f"{late}2 min late is not judged."
    assert (
        _absent("late_policy: skip")[0]
        == f"{late}45 s late is not judged. Up to 2 min late it still counts for others."
    )
    assert _absent("time_mode: processing_time")[0] == f"{first}.{after} Its clock is ingest time."


def test_what_an_absence_keeps() -> None:
    (kept,) = retained_by(compile_stream(_absent("")[1], "payments", SPEC, Defaults()), "unsettled")
    assert (kept.key_fields, kept.columns, kept.shared_with) == (("card", "device"), (), ())
    assert len(kept.filters) == kept.filters_of_state_store == 2, "those that wait, and those that answer"
    # What waited for ten minutes may hold an alert back for an hour more, and what is late comes two minutes later.
    assert (kept.retention_ms, kept.lateness_ms) == (4_200_000, 120_000)
