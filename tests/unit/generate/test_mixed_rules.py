"""The large rule sets of mixed types: every type, over all key spaces, rules that load."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import yaml

from crossline.basics.streams.schema import load_streams
from crossline.generate.rules_many import SPACES, WINDOWS
from crossline.generate.rules_mixed import CYCLE, mixed_rules
from crossline.rules.registry import rule_types
from crossline.rules.rule_reader import load_rules_text

TEXTS = ("transaction_id", "account_id", "card_hash", "merchant_id", "device_id", "payment_type")
FIELDS = {**dict.fromkeys(TEXTS, "string"), "amount_cents": "integer", "lat": "number", "lon": "number"}
STREAM = {"id": "transaction_id", "event_time": {"field": "event_time"}, "fields": {**FIELDS, "event_time": "integer"}}
STREAMS = load_streams(yaml.safe_dump({"schema_version": 1, "streams": {"payments": STREAM}}), "stream.yaml")
# A model has a file of its own, and a correlation a second stream.
ELSEWHERE = {"model", "correlation"}


@pytest.mark.parametrize("count", [100, 1_000])
def test_they_load_and_are_of_every_type_in_all_key_spaces_and_windows(count: int) -> None:
    rules = mixed_rules(count)
    assert len(load_rules_text(json.dumps(rules), "rules.yaml", STREAMS)) == count
    assert len({rule["rule_id"] for rule in rules}) == count
    assert {rule["rule_type"] for rule in rules} == set(rule_types()) - ELSEWHERE
    text = json.dumps(rules)
    assert all(f'"{name}"' in text for name in (*SPACES, *WINDOWS))


def test_of_forty_sixteen_are_velocity_rules() -> None:
    met = Counter(rule["rule_type"] for rule in mixed_rules(80))
    assert met == {name: 2 * count for name, count in Counter(CYCLE).items()}
    assert (len(CYCLE), met["velocity"], met["formula"], met["burst"], met["threshold"]) == (40, 32, 8, 8, 8)


def test_no_two_rules_say_the_same() -> None:
    rules = [json.dumps({**rule, "rule_id": "", "description": ""}) for rule in mixed_rules(1_000)]
    doubles = {text for text, count in Counter(rules).items() if count > 1}
    assert {json.loads(text)["rule_type"] for text in doubles} <= {"composite"}
