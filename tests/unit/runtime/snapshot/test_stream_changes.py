"""A checkpoint whose records were read by another stream file: what may change, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from crossline.basics.errors import StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.snapshot.stream_changes import check_streams

STREAM = "payments"
DEFAULTS = Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
FIELDS = {"id": "string", "shop": "string", "amount": "integer?", "note": "string?", "kind": "string?", "at": "integer"}
FILE = {"id": "id", "event_time": {"field": "at", "unit": "ms"}, "fields": FIELDS}
COUNT = {
    "rule_id": "n",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "shop",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
    "window": "10m",
}
SUM = {**COUNT, "rule_id": "s", "aggregation_type": "sum", "aggregation_field": "amount"}
OF_KIND = {**COUNT, "rule_id": "k", "conditions": [{"field": "kind", "operator": "exists"}]}


def checked(change: dict[str, Any]) -> None:
    loaded = load_rules_text(yaml.safe_dump([COUNT, SUM, OF_KIND]), "rules.yaml")
    rules = RuleSet.from_rules([each.rule for each in loaded])
    before = PlanSnapshot(rules, {STREAM: StreamSpec.model_validate(FILE)}, DEFAULTS, 5, Bounds(250))
    now = StreamSpec.model_validate({**FILE, **change})
    check_streams(before, {STREAM: now}, "out/checkpoint")


def with_fields(**fields: str) -> dict[str, Any]:
    return {"fields": {**FIELDS, **fields}}


@pytest.mark.parametrize(
    "change",
    [
        {},
        with_fields(note="integer"),  # no rule reads it
        with_fields(shop="string?"),  # what was there in all records is there in all of them
        with_fields(more="string"),
        {"event_time": {"field": "at", "unit": "s"}},  # states have instants
    ],
)
def test_what_states_do_not_rest_on_may_change(change: dict[str, Any]) -> None:
    checked(change)


def test_at_a_first_start_there_is_nothing_to_change() -> None:
    check_streams(None, {STREAM: StreamSpec.model_validate(FILE)}, "out/checkpoint")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (with_fields(amount="integer"), r"field amount, which rules read, was integer\?, found integer"),
        (with_fields(kind="string"), r"field kind, which rules read, was string\?, found string"),
        (with_fields(shop="integer"), "field shop, which rules read, was string, found integer"),
        ({"id": "note", **with_fields(note="string")}, "id was id, found note"),
        ({"event_time": {"field": "on"}, **with_fields(on="integer")}, "event_time was at, found on"),
        ({"ingest_time": {"field": "at"}}, "ingest_time was not given, found at"),
    ],
)
def test_what_states_rest_on_is_refused_with_what_it_was(change: dict[str, Any], found: str) -> None:
    with pytest.raises(StateError, match=found) as refused:
        checked(change)
    assert "out/checkpoint has records that were read by another stream file" in str(refused.value)
    assert "start anew" in str(refused.value)


def test_all_changes_are_listed_at_once() -> None:
    with pytest.raises(StateError, match=r"id was id.*field amount.*field kind"):
        checked({"id": "note", **with_fields(note="string", amount="integer", kind="string")})
