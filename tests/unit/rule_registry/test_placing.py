"""What people hold is an event of the log: who, why, from when on and until when; in a folder and in a topic."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.times import BEGINNING_MS, parse_instant_ms
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.history import History
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.sources.holds import EndWish, HoldState, HoldWish, check_hold, file_name, hold_name
from crossline.rule_registry.sources.keys import HoldKey, key_of
from crossline.rule_registry.sources.releases import release_text
from crossline.rules.holds.placed_hold import PlacedHold
from crossline.rules.holds.release import release_key
from crossline.rules.ruleset import RuleSet

from .harness import Harness, rule
from .sources.board import Board, Pipeline
from .test_releasing import BURST

A1 = release_key({"account": "a1"})
ID, OTHER = "0" * 31 + "1", "0" * 31 + "2"
ME = getpass.getuser()


def wish(hold_id: str = ID, until_ms: int = 1_000_000, **more: Any) -> HoldWish:
    given: dict[str, Any] = {"action": "block", **more}
    return HoldWish(hold_id, A1, until_ms, "the customer called", 0, **given)


def ask(harness: Harness, asked: HoldWish | EndWish, **changed: Any) -> None:
    (harness.folder / ".holds").mkdir(exist_ok=True)
    body = {**json.loads(asked.to_bytes()), **changed}
    (harness.folder / ".holds" / file_name(asked)).write_text(json.dumps(body), encoding="utf-8")


def event_values(event: RuleEvent) -> tuple[Any, ...]:
    return event.event, event.hold_id, event.key, event.action, event.until_ms, event.begins_ms, event.text, event.who


def test_a_hold_begins_just_after_what_was_judged_and_ends_when_it_is_released(harness: Harness) -> None:
    """A restart, a replay of the log and a plan snapshot that travels know of it; nothing is taken up twice."""
    harness.write("r.yaml", BURST)
    harness.start()
    ask(harness, wish())
    harness.now_ms, harness.highest_ms = 60_000, 75_000
    rules, (event,) = harness.take_up()
    begins = {"payments": 75_001}
    assert event_values(event) == ("held", ID, {"account": "a1"}, "block", 1_000_000, begins, "the customer called", ME)
    placed = PlacedHold(ID, A1, "block", ME, 1_000_000, (("payments", 75_001),))
    assert rules.placed == (placed,)
    assert harness.log.poll() is None
    assert harness.restart().placed == (placed,)
    assert harness.log.poll() is None or harness.take_up()[1] == []
    replayed = ruleset_of_log(log_path(harness.folder, "p"))
    assert (replayed, RuleSet.from_json(replayed.to_json())) == (rules, rules)
    harness.now_ms = harness.highest_ms = 90_000
    ask(harness, EndWish(ID, "it was him", 5))
    rules, (event,) = harness.take_up()
    assert event_values(event) == (
        "released",
        ID,
        {"account": "a1"},
        None,
        None,
        {"payments": 90_001},
        "it was him",
        ME,
    )
    assert [each.span_ms("payments") for each in rules.placed] == [(75_001, 90_001)]
    assert harness.restart().placed == rules.placed
    assert RuleSet.from_json(rules.to_json()) == rules
    assert [rules.held.at("payments", {"account": "a1"}, ms) != [] for ms in (75_000, 75_001, 90_000, 90_001)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_hold_of_a_rule_has_its_action_and_is_released_with_its_key(harness: Harness) -> None:
    """As the version in force holds: its score and severity, though a later one has others."""
    harness.write("r.yaml", BURST + "  action: step_up\n  score: 40\n  severity: high\n")
    harness.start()
    ask(harness, wish(action=None, rule_id="burst"))
    ask(harness, wish(OTHER))
    harness.highest_ms = 2_000
    rules, events = harness.take_up()
    assert [(each.event, each.rule_id, each.version, each.action) for each in events] == [
        ("held", "burst", 1, "step_up"),
        ("held", None, None, "block"),
    ]
    mine = rules.placed[0]
    assert (mine.rule_id, mine.rule_version, mine.action, mine.score, mine.severity) == (
        "burst",
        1,
        "step_up",
        40,
        "high",
    )
    (harness.folder / ".releases").mkdir()
    (harness.folder / ".releases" / "a.json").write_bytes(release_text("burst", A1, "called", 9))
    harness.highest_ms = 3_000
    rules, _ = harness.take_up()
    assert [each.span_ms("payments") for each in rules.placed] == [(2_001, 3_001), (2_001, 1_000_000)]


def test_a_hold_that_was_placed_before_the_first_start_holds_from_the_beginning(harness: Harness) -> None:
    harness.write("r.yaml", rule("large"))
    ask(harness, wish())
    assert [each.span_ms("payments") for each in harness.start().placed] == [(BEGINNING_MS, 1_000_000)]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("reason", {"reason": " "}, "found no reason; expected reason: why it is held"),
    ("action", {"action": "allow"}, 'found action "allow"; expected one of review, step_up, block'),
    ("no_action", {"action": None}, "expected one of review, step_up, block"),
    ("field", {"key": {"nope": "x"}}, "found field nope; expected a field of the stream (payments)"),
    ("kind", {"key": {"amount": "many"}}, "found amount=many; expected a whole number, as the field has (payments)"),
    ("no_key", {"key": {}}, "found a key of 0 fields; expected one of 1 to 5"),
    ("not_a_key", {"key": "a1"}, "expected {hold_id, key, action, until, reason}"),
    ("stream", {"streams": ["nope"]}, "found stream nope; expected one of payments"),
    ("rule", {"rule_id": "nope"}, "found rule nope, which is not loaded"),
    ("no_hold", {"rule_id": "large"}, "found rule large, whose alerts hold nothing; expected a rule with a hold"),
    ("other_action", {"rule_id": "burst"}, 'found action "block"; expected allow, which is that of rule burst'),
    ("past", {"until": "1970-01-01T00:01:15.001Z"}, "expected an instant after 1970-01-01T00:01:15.001Z"),
    ("long", {"until": "1971-01-03T00:00:00Z"}, "expected at most 366 d from when it is asked"),
    ("no_until", {"until": None}, "expected {hold_id, key, action, until, reason}"),
    ("id", {"hold_id": "x"}, "expected the key hold/x, of 32 hex digits"),
]


@pytest.mark.parametrize(("body", "text"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_what_is_no_hold_is_refused_and_says_why(harness: Harness, body: dict[str, Any], text: str) -> None:
    harness.write("r.yaml", BURST, rule("large"))
    harness.start()
    ask(harness, wish(), **body)
    harness.now_ms, harness.highest_ms = 60_000, 75_000
    rules, (event,) = harness.take_up()
    assert event.event == "refused"
    assert text in str(event.text)
    assert rules.placed == ()


def test_an_id_is_one_hold_and_a_release_of_none_is_refused(harness: Harness) -> None:
    harness.write("r.yaml", BURST)
    harness.start()
    harness.highest_ms = 10
    ask(harness, EndWish(OTHER, "called", 1))
    ask(harness, wish())
    _, events = harness.take_up()
    assert [each.event for each in events] == ["held", "refused"]
    assert f"found hold {OTHER}, which is not loaded" in str(events[1].text)
    ask(harness, wish(), action="review")
    rules, (event,) = harness.take_up()
    assert "which was placed before; expected a hold with an id of its own" in str(event.text)
    assert rules.placed[0].action == "block"


def test_a_hold_through_a_topic(tmp_path: Path) -> None:
    """Who says so is in a header; what is compacted away is in the log."""
    board = Board()
    pipeline = Pipeline(board, tmp_path / "rules", review=True)
    pipeline.start()
    placed, ended = wish(), EndWish(ID, "it was him", 5)
    assert (key_of(hold_name(placed)), key_of(hold_name(ended))) == (HoldKey(ID), HoldKey(ID, released=True))
    assert key_of(f"hold/{ID.upper()}x") is None
    board.post(hold_name(placed), placed.to_bytes())
    (refused,) = pipeline.look()
    assert "found a hold that does not say who asks for it; expected a header who" in str(refused.text)
    pipeline.now_ms = 5_000
    board.post(hold_name(placed), replace(placed, asked_ms=1).to_bytes(), "bob", at_ms=9)
    (event,) = pipeline.look()
    assert (event.event, event.who, event.begins_ms, event.place) == ("held", "bob", {"payments": 5_000}, "control/0/1")
    board.post(hold_name(ended), ended.to_bytes(), "mary")
    pipeline.now_ms = 6_000
    (event,) = pipeline.look()
    assert (event.event, event.who, event.begins_ms) == ("released", "mary", {"payments": 6_000})
    board.compact()
    pipeline.stop()
    assert [each.span_ms("payments") for each in pipeline.start().placed] == [(5_000, 6_000)]
    assert pipeline.look() == []


def test_what_is_asked_for_is_checked_before_it_is_written(harness: Harness) -> None:
    """By the same code as published rules, with the clock of the caller."""
    harness.write("r.yaml", BURST)
    harness.start()
    standing = HoldState(harness.streams, History(read_log(log_path(harness.folder, "p"))))
    check_hold(wish(), standing, 999_999)
    with pytest.raises(
        PermanentError, match=r"found until 1970-01-01T00:16:40.000Z, which is past; expected an instant"
    ):
        check_hold(wish(), standing, parse_instant_ms("1970-01-01T00:16:40Z"))
    with pytest.raises(PermanentError, match="found stream nope; expected one of payments"):
        check_hold(wish(streams=("nope",)), standing, 0)
