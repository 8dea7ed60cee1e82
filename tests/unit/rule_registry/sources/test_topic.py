"""Messages of a control topic, in every order, and what a rule log makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import SourceError
from crossline.rule_registry.directory import ruleset_of_log
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_file import SUFFIXES
from crossline.rule_registry.list_log import ListContents
from crossline.rule_registry.lists import ListsDirectory
from crossline.rule_registry.sources.keys import ApprovalKey, ListKey, RuleKey, key_of, key_of_bytes
from crossline.rule_registry.sources.topic import STEPS_MAX, TopicPublications, list_file
from rule_registry.harness import rule

from .board import Board, BoardReader, Pipeline, event_values

BEGINNING: tuple[str, str, int, str] = ("published", "large", 1, "active")


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def pipeline(board: Board, tmp_path: Path) -> Pipeline:
    return Pipeline(board, tmp_path / "rules")


def test_keys_are_read_as_they_are_written() -> None:
    for key in (RuleKey("a.b-c_1", 12), ApprovalKey("large", 3, "Bob Stein/ops"), ListKey("stolen.txt")):
        assert key_of(str(key)) == key_of_bytes(str(key).encode()) == key
    wrong = ["", "rule", "rule/large", "rule/large/0", "rule/large/01", "rule/Large/1", "rule/large/1/", "list/a/b.txt"]
    wrong += [
        "list/.hidden",
        "list/",
        "approval/large/1/",
        "approval/large/1/a\nb",
        "rule/large/1\n",
        "approval/a/1/" + "x" * 600,
    ]
    assert [name for name in wrong if key_of(name) is not None] == []
    assert key_of_bytes(None) is None
    assert key_of_bytes(b"rule/large/\xff") is None


def test_who_published_what_when_and_from_where_is_in_the_log(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice", at_ms=5)
    pipeline.start()
    board.post("rule/large/2", rule(version=2), "bob", at_ms=6)
    (event,) = pipeline.look()
    lines = [(each.who, each.host, each.sent_ms, each.place) for each in (pipeline.log[0], event)]
    assert lines == [("alice", "desk", 5, "control/0/0"), ("bob", "desk", 6, "control/0/1")]
    assert (event.source, event.line, event.effective_from_ms) == ("rule/large/2", 1, 1_000)


def test_statuses_that_follow_each_other_are_applied_one_by_one(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    pipeline.start()
    for status in ("paused", "active", "shadow"):
        board.post("rule/large/1", rule(status=status))
    assert [status for *_, status in event_values(pipeline.look())] == ["paused", "active", "shadow"]


def test_a_first_start_meets_the_same_as_one_that_was_there(board: Board, pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(status="actve"), "alice")
    board.post("rule/large/1", rule(amount=1), "alice")
    board.post("rule/large/1", rule(amount=2), "bob")
    board.post("rule/large/1", rule(amount=1, status="paused"), "alice")
    pipeline.look()
    later = Pipeline(board, tmp_path / "later")
    later.start()
    assert event_values(later.log[:-1]) == event_values(pipeline.log[1:])
    assert [each.event for each in later.log] == ["refused", "published", "refused", "status_changed", "started"]


def test_of_two_publishers_of_a_version_the_first_is_right(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(amount=1), "alice")
    board.post("rule/large/1", rule(amount=2), "bob")
    first, second = pipeline.look()
    assert (first.event, first.who, first.body and first.body["conditions"][0]["value"]) == ("published", "alice", 1)
    assert (second.event, second.who) == ("refused", "bob")
    board.compact()
    assert [each.rule.body_digest() for each in pipeline.start().versions] == [first.digest]
    assert pipeline.look() == [], "a refusal is reported once"


def test_a_restart_repeats_nothing_that_the_topic_still_has(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    pipeline.start()
    board.post("rule/large/1", rule(status="paused"))
    board.post("rule/other/1", "rule_id: [")
    board.post(b"\xff", "?")
    before = pipeline.look()
    assert len(before) == 3
    pipeline.start()
    assert pipeline.look() == []


def test_messages_sent_while_no_pipeline_ran_are_applied(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    pipeline.start()
    pipeline.stop()
    board.post("rule/large/1", rule(status="paused"))
    board.post("rule/large/1", rule(status="active"))
    pipeline.start()
    assert [status for *_, status in event_values(pipeline.look())] == ["paused", "active"]


def test_the_log_has_what_compaction_lost(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    pipeline.start()
    pipeline.now_ms = 2_000
    board.post("rule/large/1", rule(status="paused"))
    pipeline.look()
    pipeline.now_ms = 3_000
    board.post("rule/large/1", rule(status="active"))
    pipeline.look()
    judged = ruleset_of_log(pipeline.folder / ".log" / "p.jsonl")
    board.compact()
    assert len(board.messages) == 1
    assert pipeline.start() == judged
    assert [(each.effective_from_ms, each.effective_until_ms) for each in judged.versions][1:] == [
        (3_000, judged.versions[-1].effective_until_ms)
    ]
    assert judged.versions[0].effective_until_ms == 2_000


def test_a_redelivery_changes_nothing(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    pipeline.start()
    board.post("rule/large/1", rule(), "alice")
    board.post("rule/large/1", rule(), "bob")
    assert pipeline.look() == []


def test_a_tombstone_ends_no_rule(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    pipeline.start()
    board.post("rule/large/1", None)
    (event,) = pipeline.look()
    assert event.event == "absent"
    assert "stands in no message any more (it was in rule/large/1) and stays live" in str(event.text)
    assert len(pipeline.start()) == 1
    assert pipeline.look() == []


def test_wrong_messages_are_refused_by_themselves(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/bad/1", "rule_id: [")
    board.post("rule/bad/2", b"\xff\xfe\x00")
    board.post("rule/bad/3", rule("bad", 4))
    board.post("rule/bad/5", rule("bad", 5) + rule("bad", 6))
    board.post("rule/bad/7", "")
    board.post(None, rule())
    board.post("large", rule())
    board.post("list/cards.txt", "a\n")
    board.post("rule/large/1", rule())
    events = pipeline.look()
    assert event_values(events)[-1] == BEGINNING
    refused = {each.source: str(each.text) for each in events[:-1]}
    assert set(refused) == {
        "rule/bad/1",
        "rule/bad/2",
        "rule/bad/3",
        "rule/bad/5",
        "rule/bad/7",
        "control/0/5",
        "control/0/6",
    }
    assert "which the key rule/bad/3 names" in refused["rule/bad/3"]
    assert "found no key" in refused["control/0/5"]
    assert "found the key large; expected a message with a key of the form rule/ID/VERSION" in refused["control/0/6"]


def test_a_rule_that_reads_hits_waits_for_the_message_of_the_other(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/reader/1", rule("reader").replace("payments", "rule:large"))
    assert [each.event for each in pipeline.look()] == ["refused"]
    board.post("rule/large/1", rule())
    assert event_values(pipeline.look()) == [BEGINNING, ("published", "reader", 1, "active")]


def test_a_topic_that_does_not_answer(
    board: Board, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossline.rule_registry.sources.topic.NEXT_WAIT_S", 0.0)
    board.post("rule/large/1", rule())
    pipeline.start()
    board.answers = False
    assert len(pipeline.start()) == 1, "the log knows what judges"
    assert pipeline.look() == []
    board.answers = True
    board.post("rule/large/1", rule(status="paused"))
    assert event_values(pipeline.look()) == [("status_changed", "large", 1, "paused")]
    board.answers = False
    with pytest.raises(SourceError, match="control topic control cannot be read: nobody answers"):
        Pipeline(board, tmp_path / "later").start()


def test_a_topic_that_was_made_anew(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/other/1", rule("other"))
    board.post("rule/large/1", rule())
    pipeline.start()
    board.messages.clear()
    board.post("rule/large/2", rule(version=2))
    pipeline.start()
    events = pipeline.look()
    assert [(each.event, each.rule_id) for each in events] == [("published", "large"), ("absent", "other")]


def test_of_very_many_messages_the_oldest_are_not_applied_one_by_one(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule())
    for _ in range(STEPS_MAX):
        board.post("rule/large/1", rule(status="paused"))
        board.post("rule/large/1", rule(status="active"))
    pipeline.start()
    statuses = [each.status for each in pipeline.log if each.rule_id == "large"]
    assert len(statuses) <= STEPS_MAX + 1
    assert statuses[-1] == "active"


def test_lists_of_a_topic(board: Board, tmp_path: Path) -> None:
    def lists() -> ListsDirectory:
        asked = TopicPublications(BoardReader(board), list_file, 1_000, in_steps=False)
        return ListsDirectory(asked, ListContents(tmp_path / "kept"))

    board.post("rule/large/1", rule())
    board.post("list/cards.txt", "a\nb\n", "alice")
    board.post("list/worse.yaml", "[a", "eve")
    first = lists()
    begun = first.start([], 0)
    assert [(each.event, each.list_name, each.who) for each in begun] == [
        ("list_changed", "cards", "alice"),
        ("refused", "worse", "eve"),
    ]
    board.post("list/cards.txt", "c\n", "bob")
    board.post("list/large.txt", "x" * 1_001)
    changes = first.poll()
    assert changes is not None
    events = first.events(changes, 1, {"payments": 9})
    first.take(changes, events)
    assert [(each.event, each.list_name, each.text) for each in events] == [
        ("list_changed", "cards", "list cards: 1 entries"),
        ("refused", "large", "large.txt:1\n  found 1,001 bytes; expected at most 1,000 bytes"),
    ]
    board.post("list/cards.txt", None)
    changes = first.poll()
    assert changes is not None
    assert [each.event for each in first.events(changes, 2, {})] == ["absent"]

    again = lists()
    assert again.start([*begun, *events], 3) == []


def test_a_list_stays_with_its_key_whatever_is_compacted(board: Board, tmp_path: Path) -> None:
    def lists() -> ListsDirectory:
        asked = TopicPublications(BoardReader(board), list_file, 1_000, in_steps=False)
        return ListsDirectory(asked, ListContents(tmp_path / "kept"))

    def look(lists: ListsDirectory) -> list[RuleEvent]:
        changes = lists.poll()
        assert changes is not None
        events = lists.events(changes, 1, {})
        lists.take(changes, events)
        return events

    board.post("list/cards.txt", "a\n")
    first = lists()
    log = first.start([], 0)
    board.post("list/cards.yaml", "[b]", "eve")
    board.post("list/cards", "[c]", "eve")
    refused = look(first)
    assert [(each.event, each.who) for each in refused] == [("refused", "eve")] * 2
    log += refused
    board.post("list/cards.txt", "d\n")
    log += look(first)
    board.compact()
    again = lists()
    assert again.start(log, 3) == []
    changes = again.poll()
    assert changes is None or again.events(changes, 4, {}) == []


def test_keys_of_lists_are_names_of_list_files() -> None:
    assert all(isinstance(key_of(f"list/a{ending}"), ListKey) for ending in SUFFIXES)
    assert [key_of(f"list/{name}") for name in ("a", "a.csv", "a.TXT", ".txt", "a.txt.gz", "a/b.txt")] == [None] * 6
