"""What alerts hold is released by an event of the log: who, why, and from when on; in a folder and in a topic."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.sources.keys import key_of
from crossline.rule_registry.sources.releases import release_name, release_text
from crossline.rule_registry.sources.review import approval_text
from crossline.rules.holds.release import Release, release_key
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .harness import Harness, rule
from .sources.board import Board, Pipeline

BURST = """\
- rule_id: burst
  version: 1
  rule_type: velocity
  source_topic: payments
  group_by: account
  window: 1m
  aggregation_type: count
  aggregation_threshold: 3
  hold: 30m
"""
A1 = release_key({"account": "a1"})
NAME = str(release_name("burst", A1))


def asked(harness: Harness, name: str = "a.json", asked_ms: int = 0, **body: Any) -> None:
    """A release as a file beside the rules."""
    (harness.folder / ".releases").mkdir(exist_ok=True)
    content = json.loads(release_text("burst", A1, "the customer called", asked_ms)) | body
    (harness.folder / ".releases" / name).write_text(json.dumps(content), encoding="utf-8")


def event_values(events: list[RuleEvent]) -> list[tuple[Any, ...]]:
    return [(each.event, each.rule_id, each.key, each.effective_from_ms, each.text, each.who) for each in events]


def test_a_release_holds_from_just_after_what_was_judged(harness: Harness) -> None:
    """And a restart, and a replay of the log, know of it; nothing is taken up twice."""
    harness.write("r.yaml", BURST)
    harness.start()
    asked(harness)
    harness.now_ms, harness.highest_ms = 60_000, 75_000
    rules, events = harness.take_up()
    me = getpass.getuser()
    assert event_values(events) == [("released", "burst", {"account": "a1"}, 75_001, "the customer called", me)]
    wanted = (Release("burst", A1, 75_001),)
    assert rules.releases == wanted
    assert harness.log.poll() is None
    assert harness.restart().releases == wanted
    assert harness.log.poll() is None or harness.take_up()[1] == []
    replayed = ruleset_of_log(log_path(harness.folder, "p"))
    assert (replayed, RuleSet.from_json(replayed.to_json())) == (rules, rules)
    harness.now_ms = harness.highest_ms = 90_000
    asked(harness, asked_ms=1)
    assert [each.from_ms for each in harness.take_up()[0].releases] == [75_001, 90_001], "the same key, released again"


def test_what_is_no_release_is_refused_and_says_why(harness: Harness) -> None:
    harness.write("r.yaml", BURST, rule("other"))
    harness.start()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"reason": " "}, "found a release without a reason; expected reason: why it is held no more"),
        ({"rule_id": "nope"}, "found rule nope, which is not loaded; expected a rule that is loaded"),
        ({"rule_id": "other"}, "found rule other, whose alerts hold nothing; expected a rule with a hold"),
        ({"key": {"amount": 1}}, "found the key amount=1; expected a value for each of account, as alerts have them"),
        ({"key": "a1"}, "expected {rule_id, key, reason}, as crossline rules release writes it"),
    ]
    for number, (body, found) in enumerate(wrong):
        asked(harness, f"{number}.json", **body)
        rules, events = harness.take_up()
        assert [each.event for each in events] == ["refused"]
        assert found in str(events[0].text)
        assert rules.releases == ()
    assert len(rules.versions) == 2, "the rules stay"


def test_a_release_at_the_first_start_releases_nothing(harness: Harness) -> None:
    """There was nothing before it."""
    harness.write("r.yaml", BURST)
    asked(harness)
    assert harness.start().releases == ()
    assert harness.log.poll() is None


def test_a_release_through_a_topic(tmp_path: Path) -> None:
    board = Board()
    pipeline = Pipeline(board, tmp_path / "rules", review=True)
    board.post("rule/burst/1", BURST, "alice")
    pipeline.start()
    assert key_of(NAME) == release_name("burst", A1)
    board.post(NAME, release_text("burst", A1, "called", 1), "bob", at_ms=9)
    pipeline.now_ms = 5_000
    (refused,) = pipeline.look()
    assert (refused.event, "not loaded" in str(refused.text)) == ("refused", True)
    board.post("approval/burst/1/bob", approval(), "bob")
    assert [each.event for each in pipeline.look()] == ["published"]
    board.post(NAME, release_text("burst", A1, "called", 2), "bob", at_ms=9)
    (event,) = pipeline.look()
    assert event_values([event]) == [("released", "burst", {"account": "a1"}, 5_000, "called", "bob")], (
        "without a review"
    )
    assert (event.sent_ms, event.place, event.host) == (9, "control/0/3", "desk")
    board.post(NAME, release_text("burst", A1, "called", 3))
    (event,) = pipeline.look()
    assert "found a release that does not say who asks for it; expected a header who" in str(event.text)
    board.compact()
    pipeline.stop()
    pipeline.start()
    assert pipeline.look() == []


def approval() -> bytes:
    return approval_text(load_rules_text(BURST, "r.yaml")[0].rule)


@pytest.mark.parametrize("value", ["a1", 17, True, None, 0.5, -0.25])
def test_keys_are_the_same_as_text_and_as_values(value: Any) -> None:
    """``--key`` gives text, alerts have values."""
    text = value if isinstance(value, str) else json.dumps(value)
    assert release_key({"b": value, "a": "x"}) == release_key({"a": "x", "b": text})
