"""Versions that need the approval of another principal, and all the ways in which that may come about or not."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import NOTHING_KNOWN, read_files
from crossline.rule_registry.sources.review import check_proof
from crossline.rule_registry.sources.rule_publisher import TopicPublisher
from rule_registry.harness import rule

from .board import Board, Pipeline, event_values, files_of, publisher_of

PUBLISHED: tuple[str, str, int, str] = ("published", "large", 1, "active")


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def pipeline(board: Board, tmp_path: Path) -> Pipeline:
    return Pipeline(board, tmp_path / "rules", review=True)


def approve(board: Board, who: str, rule_id: str = "large", version: int | None = None) -> None:
    message = publisher_of(board).approve(rule_id, who, version)
    board.post(message.key, message.value, who)


def test_a_version_waits_for_another_one_s_approval(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    assert len(pipeline.start()) == 0
    assert [(each.event, each.who) for each in pipeline.log] == [("waiting", "alice"), ("started", None)]
    assert pipeline.look() == [], "reported once"
    pipeline.start()
    assert pipeline.look() == [], "also over a restart"
    approve(board, "bob")
    (event,) = pipeline.look()
    assert (event.event, event.who, event.approved_by, event.effective_from_ms) == ("published", "alice", "bob", 1_000)
    pipeline.start()
    assert pipeline.look() == []


def test_the_version_before_judges_until_then(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    approve(board, "bob")
    pipeline.start()
    board.post("rule/large/2", rule(version=2), "alice")
    pipeline.look()
    assert [(each.rule.version, each.endless) for each in pipeline.start().versions] == [(1, True)]


def test_an_approval_may_come_first(board: Board, pipeline: Pipeline) -> None:
    other = Board()
    other.post("rule/large/1", rule(), "alice")
    approve(other, "bob")
    pipeline.start()
    board.post(other.messages[1].key, other.messages[1].value, "bob")
    assert pipeline.look() == []
    board.post("rule/large/1", rule(), "alice")
    (event,) = pipeline.look()
    assert (event.event, event.approved_by) == ("published", "bob")


@pytest.mark.parametrize("who", ["alice", "Alice", "ALICE", "aIice", "a1ice", "alLce"])
def test_no_author_approves_his_own_version(board: Board, pipeline: Pipeline, who: str) -> None:
    board.post("rule/large/1", rule(), "alice")
    with pytest.raises(PermanentError, match="expected another one's approval"):
        publisher_of(board).approve("large", who)
    pipeline.start()
    other = Board()
    other.post("rule/large/1", rule(), "carol")
    message = publisher_of(other).approve("large", who)
    board.post(message.key, message.value, who)
    (event,) = pipeline.look()
    assert (event.event, event.who) == ("refused", who)
    assert "who published version 1 of large" in str(event.text)


# Invisible characters, look-alikes of other letters, what is written in another way, what moves the rest.
LOOK_ALIKE = {
    "alice\ufe0f": "character 6 is U+FE0F (VARIATION SELECTOR-16)",
    "ali\u034fce": "character 4 is U+034F (COMBINING GRAPHEME JOINER)",
    "alice\u3164": "character 6 is U+3164 (HANGUL FILLER)",
    "\uffa0alice": "character 1 is U+FFA0 (HALFWIDTH HANGUL FILLER)",
    "alice\u2800": "character 6 is U+2800 (BRAILLE PATTERN BLANK)",
    "al\u17b4ice": "character 3 is U+17B4 (KHMER VOWEL INHERENT AQ)",
    "a\u180blice": "character 2 is U+180B (MONGOLIAN FREE VARIATION SELECTOR ONE)",
    "ali\u200bce": "character 4 is U+200B (ZERO WIDTH SPACE)",
    "alice\x1f": "character 6 is U+001F (a control character)",
    "alice\x00": "character 6 is U+0000 (a control character)",
    "alice\u00a0": "character 6 is U+00A0 (NO-BREAK SPACE)",
    "\u202ealice": "character 1 is U+202E (RIGHT-TO-LEFT OVERRIDE)",
    "\u0430lice": "character 1 is U+0430 (CYRILLIC SMALL LETTER A)",
    "\uff41lice": "character 1 is U+FF41 (FULLWIDTH LATIN SMALL LETTER A)",
    "alice\U000e0100": "character 6 is U+E0100 (VARIATION SELECTOR-17)",
    "alice\ue000": "character 6 is U+E000 (without a name)",
    "alice  liddell": "two in a row",
    "alice ": "a blank at its begin or end",
    "a" * 201: "201 characters",
}


@pytest.mark.parametrize("who", LOOK_ALIKE, ids=[ascii(each)[:24] for each in LOOK_ALIKE])
def test_a_name_outside_the_alphabet_is_refused_wherever_it_stands(
    board: Board, pipeline: Pipeline, tmp_path: Path, who: str
) -> None:
    """As one who approves, as one who publishes, as the author of what another one gave a status, in a log."""
    board.post("rule/large/1", rule(), "alice")
    good = publisher_of(board).approve("large", "bob")
    with pytest.raises(PermanentError) as caught:
        publisher_of(board).approve("large", who)
    assert LOOK_ALIKE[who] in str(caught.value)
    pipeline.start()
    board.post(f"approval/large/1/{who}", good.value, who)
    board.post("rule/other/1", rule("other"), who)
    board.post("approval/other/1/bob", good.value, "bob")
    board.post("rule/more/1", rule("more"), "bob", author=who)
    events = pipeline.look()
    assert {each.event for each in events} == {"refused"}
    lines = [str(each.text) for each in events if LOOK_ALIKE[who] in str(each.text)]
    assert len(lines) == 3, [each.text for each in events]
    assert all("letters a-z and A-Z, digits" in each for each in lines)
    board.post("rule/other/1", rule("other"), "bob")
    assert ("waiting", "other") in [(each.event, each.rule_id) for each in pipeline.look()], "a good name repairs it"


@pytest.mark.parametrize("who", ["alice\ufe0f", "\u0430lice"])
def test_an_author_logged_under_such_a_name_is_no_second_person(board: Board, pipeline: Pipeline, who: str) -> None:
    """A log from elsewhere, or of a time that took any name."""
    board.post("rule/large/1", rule(), "carol")
    pipeline.start()
    pipeline.stop()
    log = pipeline.folder / ".log" / "p.jsonl"
    log.write_text(log.read_text().replace('"carol"', f'"{who}"'))
    pipeline.start()
    for name in ("alice", "bob"):
        approve(board, name)
    events = pipeline.look()
    assert {each.event for each in events} == {"refused"}
    assert all(LOOK_ALIKE[who] in str(each.text) and "another version" in str(each.text) for each in events)


def test_an_unreadable_author_is_still_an_author(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(), "alice")
    last = board.messages[-1]
    board.messages[-1] = replace(last, headers=(*last.headers, ("author", b"\xff\xfe")))
    (event,) = pipeline.look()
    assert (event.event, "a name that is not UTF-8, in the header author" in str(event.text)) == ("refused", True)


def test_an_approval_is_of_what_was_looked_at(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(amount=100), "alice")
    other = Board()
    other.post("rule/large/1", rule(amount=100), "alice")
    approve(other, "bob")
    board.post("rule/large/1", rule(amount=1), "alice")
    board.post(other.messages[1].key, other.messages[1].value, "bob")
    events = pipeline.look()
    assert [each.event for each in events] == ["waiting", "refused", "waiting"]
    assert "another body" in str(events[1].text)
    approve(board, "bob")
    assert event_values(pipeline.look()) == [PUBLISHED]


def test_approvals_that_are_none(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    good = publisher_of(board).approve("large", "bob").value
    pipeline.start()
    board.post("approval/large/1/bob", good)
    board.post("approval/large/1/carol", good, "bob")
    board.post("approval/large/1/dave", "yes", "dave")
    board.post("approval/large/1/erin", orjson.dumps({"rule_id": "large", "version": 2, "digest": "x"}), "erin")
    board.post("approval/large/2/bob", good, "bob")
    events = pipeline.look()
    assert {each.event for each in events} == {"refused"}
    assert len(events) == 5
    board.post("approval/large/1/bob", good, "bob")
    assert event_values(pipeline.look()) == [PUBLISHED]


def test_an_approval_that_was_taken_back_in_time_counts_no_more(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    other = Board()
    other.post("rule/large/1", rule(), "alice")
    approve(other, "bob")
    board.post(other.messages[1].key, other.messages[1].value, "bob")
    board.post(other.messages[1].key, None, "bob")
    board.post("rule/large/1", rule(), "alice")
    assert [each.event for each in pipeline.look()] == ["waiting"]


@pytest.mark.parametrize("last", ["another body", "the approval is taken back"])
def test_a_start_that_comes_later_meets_what_was_effective_in_between(
    board: Board, pipeline: Pipeline, tmp_path: Path, last: str
) -> None:
    """Its message and its approval were there together, before either was undone."""
    other = Board()
    other.post("rule/large/1", rule(), "alice")
    approval = publisher_of(other).approve("large", "bob")
    messages = [("rule/large/1", rule(), "alice"), (approval.key, approval.value, "bob")]
    if last == "another body":
        undone: tuple[str, str | None, str] = ("rule/large/1", rule(amount=7), "alice")
    else:
        messages.reverse()
        undone = (approval.key, None, "bob")
    first, second = messages
    between = [("rule/other/1", rule("other", status=status), "carol") for status in ("draft", "retired")]
    pipeline.start()
    for message in (first, *between, second, undone):
        board.post(*message)
        pipeline.look()
    later = Pipeline(board, tmp_path / "later", review=True)
    later.start()
    for each in (pipeline, later):
        mine = [event for event in each.log if event.event == "published" and event.rule_id == "large"]
        assert [(event.who, event.approved_by) for event in mine] == [("alice", "bob")]


def test_who_published_has_to_be_stated(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/large/1", rule())
    (event,) = pipeline.look()
    assert (event.event, "does not say who made it" in str(event.text)) == ("refused", True)
    with pytest.raises(PermanentError, match="does not say who published it"):
        publisher_of(board).approve("large", "bob")
    board.post("rule/large/1", rule(), "alice")
    approve(board, "bob")
    assert event_values(pipeline.look()) == [PUBLISHED]


def test_anybody_may_pause_a_version_in_force_and_a_draft_needs_no_approval(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    approve(board, "bob")
    pipeline.start()
    board.post("rule/large/1", rule(status="paused"), "alice")
    board.post("rule/large/1", rule(status="active"), "alice")
    board.post("rule/large/2", rule(version=2, status="draft"), "alice")
    assert [status for *_, status in event_values(pipeline.look())] == ["paused", "active", "draft"]
    # But one that was not in force ends the one before it, whatever its status is.
    board.post("rule/large/2", rule(version=2, status="retired"), "alice")
    assert [each.event for each in pipeline.look()] == ["waiting"]
    approve(board, "bob")
    assert event_values(pipeline.look()) == [("status_changed", "large", 2, "retired")]


@pytest.mark.parametrize("seen", [True, False])
def test_who_has_another_one_pause_his_version_is_its_author_still(
    board: Board, pipeline: Pipeline, *, seen: bool
) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(), "alice")
    if seen:
        assert [each.event for each in pipeline.look()] == ["waiting"]
    message = publisher_of(board).set_status("large", "paused")
    author = None if seen else publisher_of(board).author(message)  # some other program may leave it out
    board.post(message.key, message.value, "bob", author=author)
    board.compact()
    other = Board()
    other.post("rule/large/1", rule(), "carol")
    for who in ("alice", "bob"):
        approval = publisher_of(other).approve("large", who)
        board.post(approval.key, approval.value, who)
    assert {(each.event, each.source) for each in pipeline.look()} - {("waiting", "rule/large/1")} == {
        ("refused", "approval/large/1/alice"),
        ("refused", "approval/large/1/bob"),
    }
    approve(board, "carol")
    assert event_values(pipeline.look()) == [("published", "large", 1, "paused")]


def test_one_that_reads_the_hits_of_one_that_waits_waits_too(board: Board, pipeline: Pipeline) -> None:
    pipeline.start()
    board.post("rule/large/1", rule(), "alice")
    board.post("rule/reader/1", rule("reader").replace("payments", "rule:large"), "alice")
    approve(board, "bob", "reader")
    events = pipeline.look()
    assert [(each.event, each.rule_id or each.source) for each in events] == [
        ("refused", "rule/reader/1"),
        ("waiting", "large"),
    ]
    approve(board, "bob")
    assert event_values(pipeline.look()) == [PUBLISHED, ("published", "reader", 1, "active")]


def test_commands_refuse_what_pipelines_would(board: Board, tmp_path: Path) -> None:
    def publish(*texts: str) -> list[str]:
        file = tmp_path / "desk.yaml"
        file.write_text("".join(texts))
        messages = publisher_of(board).publish(file)
        for each in messages:
            if each.value is not None:
                board.post(each.key, each.value, "alice")
        return [each.change for each in messages]

    assert publish(rule(), rule("other")) == ["published", "published"]
    assert publish(rule(), rule("other", status="paused")) == ["unchanged", "status_changed"]
    with pytest.raises(
        RefusedError, match=r"desk\.yaml:2(.|\n)*version 1 is published with another body; set version: 2"
    ):
        publish(rule(amount=1))
    with pytest.raises(RefusedError, match=r"desk\.yaml"):
        publish(rule(amount="'x"))
    assert publish(rule(version=2)) == ["published"]
    with pytest.raises(RefusedError, match="set version: 3"):
        publish(rule("other", status="paused"), rule(version=1, amount=3))
    assert publish(rule("other", version=3)) == ["published"]
    with pytest.raises(RefusedError, match="expected a version above 3"):
        publish(rule("other", version=2))
    message = publisher_of(board).set_status("large", "paused")
    assert (message.key, message.change) == ("rule/large/2", "status_changed")
    assert message.value is not None
    assert b"status: paused" in message.value
    with pytest.raises(PermanentError, match="cannot become draft"):
        publisher_of(board).set_status("large", "draft")
    with pytest.raises(PermanentError, match="found no rule lrge; expected one of large, other; did you mean large"):
        publisher_of(board).set_status("lrge", "paused")


def test_a_retired_version_stays_retired_before_any_pipeline_looks(board: Board, tmp_path: Path) -> None:
    board.post("rule/large/1", rule(), "alice")
    running = Pipeline(board, tmp_path / "rules")
    running.start()
    running.stop()
    board.post("rule/large/1", rule(status="retired"), "alice")
    publisher = TopicPublisher(files_of(board), [History(running.log)])
    with pytest.raises(PermanentError, match="from retired to active"):
        publisher.set_status("large", "active")
    file = tmp_path / "desk.yaml"
    file.write_text(rule())
    with pytest.raises(RefusedError, match="from retired to active"):
        publisher.publish(file)


def test_an_unapproved_version_needs_two_people_to_become_active(board: Board, pipeline: Pipeline) -> None:
    """A shadow of before a review was required: one person alone does not make it active, with whatever scopes."""
    before = Pipeline(board, pipeline.folder)
    before.start()
    board.post("rule/large/1", rule(status="shadow"), "alice")
    assert event_values(before.look()) == [("published", "large", 1, "shadow")]
    before.stop()
    pipeline.start()
    board.post("rule/large/1", rule(status="active"), "alice", author="alice")
    assert [(each.event, each.status) for each in pipeline.look()] == [("waiting", None)]
    assert [each.kind for each in pipeline.start().versions] == ["shadow"]
    with pytest.raises(PermanentError, match="expected another one's approval"):
        publisher_of(board).approve("large", "alice")
    approve(board, "bob")
    (event,) = pipeline.look()
    assert (event.event, event.status, event.approved_by) == ("status_changed", "active", "bob")
    board.post("rule/large/1", rule(status="shadow"), "alice", author="alice")
    board.post("rule/large/1", rule(status="active"), "alice", author="alice")
    assert [each.status for each in pipeline.look()] == ["shadow", "active"], "approved of once"


def test_going_back_to_approved_words_needs_no_approval_and_to_others_does(board: Board, pipeline: Pipeline) -> None:
    board.post("rule/large/1", rule(), "alice")
    approve(board, "bob")
    pipeline.start()
    board.post("rule/large/2", rule(version=2, severity="high"), "alice")
    approve(board, "bob")
    assert event_values(pipeline.look()) == [("published", "large", 2, "active")]
    board.post("rule/large/3", rule(version=3), "alice")
    assert event_values(pipeline.look()) == [("published", "large", 3, "active")], "as version 1, approved"
    board.post("rule/large/4", rule(version=4, severity="low"), "alice")
    assert [each.event for each in pipeline.look()] == ["waiting"]
    board.post("rule/large/5", rule(version=5), "alice")
    assert [each.event for each in pipeline.look()] == ["waiting"], "what says the same goes nowhere back"


def test_a_proof_is_of_the_files_that_a_rule_names_too() -> None:
    """A model, or a shared figure, that is another one than was proven; a proof of before does not say."""
    text = rule()
    (placed,) = read_files({"rule.yaml": FileContent(text.encode())}, NOTHING_KNOWN)["rule.yaml"]  # type: ignore[misc]
    digests = {"rule": hashlib.sha256(text.encode()).hexdigest(), "data": "d" * 64, "result": "e" * 64}

    def check(**more: str) -> None:
        check_proof({"text": text, "digests": {**digests, **more}}, placed.rule, lambda _: placed.rule)

    check()
    check(body=placed.rule.body_digest())
    with pytest.raises(PermanentError, match="a proof of another text than version 1 of large"):
        check(body="0" * 64)
    with pytest.raises(PermanentError, match="a proof of another text"):
        check(rule="0" * 64)
