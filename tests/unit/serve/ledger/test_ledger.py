"""The ledger: one answer per id, for all callers, over restarts; revisions, counts, retention, damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.serve.decisions.adapters import SqliteReads
from crossline.serve.ledger.chain import faults_of
from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import BASIS, Clock, asked, decision_of, entry, key_files, opening, outcomes

Open = Callable[..., SqliteLedger]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serve" / "ledger.db"


@pytest.fixture
def opened(path: Path, clock: Clock) -> Iterator[Open]:
    with opening(partial(SqliteLedger, path, clock_ms=clock)) as made:
        yield made


def test_an_id_is_asked_answered_and_asked_again(opened: Open) -> None:
    ledger = opened()
    assert outcomes(ledger, asked("t1"), asked("t1"), asked("t1", "{1}"), asked("t2")) == [
        "fresh",
        "pending",
        "differs",
        "fresh",
    ]
    (kept,) = ledger.answer([entry("t1")])
    assert kept is not None
    assert orjson.loads(kept.body) == {**decision_of("t1"), "receipt": kept.digest}
    (again, other) = ledger.claim([asked("t1"), asked("t1", "{1}")])
    assert (again.outcome, again.body, again.decision_id) == ("answered", kept.body, kept.decision_id)
    assert (other.outcome, other.body) == ("differs", None)
    assert outcomes(ledger, asked("t1", stream="others")) == ["fresh"], "ids are those of a stream"
    found = ledger.by_record("payments", "t1")
    assert found == ledger.decision(kept.decision_id)
    assert found is not None
    assert (found.body, found.digest, found.revisions) == (kept.body, kept.digest, ())
    assert ledger.by_record("payments", "t2") is None
    assert ledger.decision("none") is None
    assert ledger.receipt("none") is None


def test_the_receipt_of_an_answer(opened: Open, tmp_path: Path) -> None:
    private, _ = key_files(tmp_path)
    signer = Signer.from_file(private)
    ledger = opened(signer=signer)
    first, second = ledger.answer([entry("t1"), entry("t2", basis=None, answered="fallback")])
    assert first is not None
    assert second is not None
    receipts = [ledger.receipt(each.decision_id) for each in (first, second)]
    assert [each and each["digest"] for each in receipts] == [first.digest, second.digest]
    for receipt in receipts:
        assert receipt is not None
        assert faults_of(receipt, signer.public()) == []
    assert receipts[0] is not None
    assert receipts[1] is not None
    assert receipts[0]["decision"] == decision_of("t1")
    assert receipts[0]["rules"] == list(BASIS.rules)
    assert receipts[1]["previous"] == first.digest
    assert [each["sequence"] for each in receipts if each] == [1, 2]


def test_restarts_go_on_with_the_chain(path: Path, opened: Open) -> None:
    first = opened()
    (kept,) = first.answer([entry("t1")])
    replica, end = first.replica, first.link
    first.close()
    second = opened()
    assert (second.replica, second.link) == (replica, end)
    assert second.claim([asked("t1")])[0].body == (kept and kept.body)
    second.answer([entry("t2")])
    assert second.link.sequence == 2
    second.close()
    assert check_ledger(path).chains == {replica: 2}
    assert check_ledger(path).faults == []


def test_several_at_once_have_chains_of_their_own(path: Path, opened: Open) -> None:
    one, two = opened(), opened()
    assert one.replica != two.replica
    assert outcomes(one, asked("t1")) == ["fresh"]
    assert outcomes(two, asked("t1"), asked("t1", "{1}")) == ["pending", "differs"]
    (kept,) = one.answer([entry("t1")])
    two.answer([entry("t2")])
    assert kept is not None
    assert two.claim([asked("t1")])[0].body == kept.body
    assert check_ledger(path).chains == {one.replica: 1, two.replica: 1}


def test_the_claim_of_one_that_ended_is_taken_over(opened: Open) -> None:
    one, two = opened(), opened()
    assert outcomes(one, asked("t1")) == ["fresh"]
    one.close()
    (claimed,) = two.claim([asked("t1")])
    assert (claimed.outcome, claimed.again) == ("fresh", True)
    assert outcomes(two, asked("t1")) == ["pending"]


def test_a_slot_that_was_given_again_does_not_keep_old_claims(opened: Open) -> None:
    one, two = opened(), opened()
    outcomes(one, asked("t1"), asked("t2"))
    one.close()
    third = opened()
    assert third.replica == one.replica
    assert outcomes(two, asked("t1")) == ["fresh"]
    assert outcomes(third, asked("t2")) == ["fresh"]


def test_a_claim_without_an_answer_expires(opened: Open, clock: Clock) -> None:
    ledger = opened(claim_ms_max=1_000)
    outcomes(ledger, asked("t1"))
    clock.now_ms += 999
    assert outcomes(ledger, asked("t1")) == ["pending"]
    clock.now_ms += 1
    assert outcomes(ledger, asked("t1"), asked("t1")) == ["fresh", "pending"]


def test_the_first_answer_is_the_answer(opened: Open, clock: Clock) -> None:
    slow, quick = opened(claim_ms_max=1_000), opened(claim_ms_max=1_000)
    outcomes(slow, asked("t1"))
    clock.now_ms += 1_000
    outcomes(quick, asked("t1"))
    (first,) = quick.answer([entry("t1", decision="block")])
    (second,) = slow.answer([entry("t1", decision="allow")])
    assert first is not None
    assert second is not None
    assert (second.body, second.digest, second.first) == (first.body, first.digest, False)
    assert slow.link.sequence == 0, "an answer that does not hold has no receipt"


def test_claims_are_given_up(opened: Open) -> None:
    one, two = opened(), opened()
    outcomes(one, asked("t1"), asked("t2"))
    two.release([asked("t1"), asked("t2")])
    assert outcomes(two, asked("t1")) == ["pending"], "only who has it gives it up"
    one.release([asked("t1")])
    one.release([asked("t2")], forget=True)
    (claimed,) = two.claim([asked("t1", "{1}")])
    assert claimed.outcome == "differs", "its record may be in the stream"
    (claimed,) = two.claim([asked("t1")])
    assert (claimed.outcome, claimed.again) == ("fresh", True)
    (claimed,) = two.claim([asked("t2", "{1}")])
    assert (claimed.outcome, claimed.again) == ("fresh", False)
    assert one.answer([entry("t2")]) == [None], "it belongs to another body now"
    (kept,) = one.answer([entry("t1")])
    one.release([asked("t1")], forget=True)
    assert kept is not None
    assert two.claim([asked("t1")])[0].body == kept.body


def test_an_answer_that_cannot_be_kept_leaves_the_chain(opened: Open, path: Path) -> None:
    ledger = opened()
    ledger.answer([entry("t1")])
    link = ledger.link
    with pytest.raises(TypeError):
        ledger.answer([entry("t2"), entry("t3", score=object())])
    assert ledger.link == link
    assert ledger.by_record("payments", "t2") is None
    ledger.answer([entry("t2")])
    assert check_ledger(path).faults == []


def test_a_full_disk(opened: Open, path: Path) -> None:
    ledger = opened()
    ledger.answer([entry("t1")])
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = [entry(f"large{number}", message="x" * 4096) for number in range(20)]
    with pytest.raises(RetryableError, match="takes nothing now: database or disk is full"):
        ledger.answer(large)
    assert ledger.link.sequence == 1
    ledger._connection.execute("PRAGMA max_page_count = 100000")
    assert [each is not None and each.first for each in ledger.answer(large)] == [True] * 20
    assert check_ledger(path).faults == []


def test_a_chain_is_checked_in_parts(opened: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.serve.ledger.queries._PART", 2)
    ledger = opened()
    ledger.answer([entry(f"t{number}") for number in range(7)])
    assert (check_ledger(path).faults, check_ledger(path).chains) == ([], {ledger.replica: 7})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM receipts WHERE sequence IN (2, 3, 5)")
    assert [(each.fault, each.sequence) for each in check_ledger(path).faults[:2]] == [("left_out", 2), ("left_out", 5)]


def revision(number: int, decision: str) -> dict[str, Any]:
    return {"decision_id": f"revision-{number}", "kind": "revision", "revision": number, "decision": decision}


def test_revisions_and_counts(opened: Open) -> None:
    ledger = opened()
    kinds = ["peek", "peek", "peek", "fallback"]
    kept = ledger.answer([entry(f"t{n}", answered=kind) for n, kind in enumerate(kinds)])
    ids = [each.decision_id for each in kept if each]
    ledger.claim([asked("open")])
    assert ledger.revise(ids[0], revision(1, "block"))
    assert not ledger.revise(ids[0], revision(1, "block")), "sent twice"
    assert ledger.revise(ids[1], revision(1, "allow")), "revised, and the same decision"
    assert ledger.revise(ids[3], revision(1, "block"))
    assert not ledger.revise("none", revision(1, "block"))
    counts = ledger.counts()
    assert counts.answered == {"peek": 3, "fallback": 1}
    assert counts.revised == {"peek": 2, "fallback": 1}
    assert counts.differs == {"peek": 1, "fallback": 1}
    assert (counts.share("peek"), counts.share("exact"), counts.pending) == (1 / 3, 0.0, 1)
    assert ledger.revise(ids[0], revision(2, "allow")), "and back again"
    assert ledger.counts().differs["peek"] == 0
    assert ledger.revise(ids[1], revision(3, "block"))
    assert ledger.revise(ids[1], revision(2, "allow")), "sent late: the last one counts"
    assert ledger.counts().differs["peek"] == 1
    found = ledger.decision(ids[1])
    assert found is not None
    assert [each["revision"] for each in found.revisions] == [1, 2, 3]


def test_what_differs_and_figures_of_records(path: Path, opened: Open) -> None:
    ledger = opened()
    kept = ledger.answer([entry(f"t{n}", answered=kind) for n, kind in enumerate(["peek", "peek", "fallback"])])
    ids = [each.decision_id for each in kept if each]
    assert ledger.revise(ids[0], {**revision(1, "block"), "was": "allow", "answered": "peek"})
    assert ledger.revise(ids[1], revision(1, "block")), "by the stream itself"
    reads = SqliteReads(path)
    ((answer, decided),) = reads.differing(0, 10)
    assert (answer["record_id"], answer["decision"], decided["decision"]) == ("t0", "allow", "block")
    assert reads.differing(1 << 60, 10) == []
    found = reads.figures([("payments", "t0"), ("payments", "t2"), ("payments", "never")])
    receipt = reads.receipt(ids[0])
    assert receipt is not None
    assert found == {("payments", "t0"): {each["name"]: each for each in receipt["figures"]}}
    assert found["payments", "t0"]
    reads.close()


def test_retention_in_small_steps(path: Path, opened: Open, clock: Clock) -> None:
    one, two = opened(), opened()
    for number in range(6):
        (one, two)[number % 2].answer([entry(f"t{number}")])
        clock.now_ms += 10
    outcomes(one, asked("never"))
    before_ms = clock.now_ms - 20  # the last two are younger
    assert [one.expire(before_ms, most=3), one.expire(before_ms, most=3), one.expire(before_ms)] == [3, 1, 0]
    assert [one.by_record("payments", f"t{n}") is None for n in range(6)] == [True] * 4 + [False] * 2
    checked = check_ledger(path)
    assert (checked.faults, checked.chains) == ([], {one.replica: 1, two.replica: 1})
    assert one.counts().pending == 1
    clock.now_ms += 1_000
    assert one.expire(clock.now_ms) == 3
    assert check_ledger(path).faults == []
    two.answer([entry("later")])
    assert two.link.sequence == 4
    assert check_ledger(path).faults == []
    assert outcomes(one, asked("t0")) == ["fresh"]


DAMAGE = {
    "an answer": ("UPDATE answers SET body = replace(body, 'allow', 'block') WHERE record_id = 't1'", "altered", 2),
    "an answer's end": ("UPDATE answers SET body = X'7B' WHERE record_id = 't1'", "altered", 2),
    "what was in force": ("UPDATE bases SET body = replace(body, 'card', 'cord')", "altered", 1),
    "a receipt": ("UPDATE receipts SET rest = replace(rest, 't2', 't9') WHERE sequence = 2", "altered", 2),
    "a receipt gone": ("DELETE FROM receipts WHERE sequence = 2", "left_out", 2),
    "the last gone": ("DELETE FROM receipts WHERE sequence = 3", "left_out", 3),
    "the first gone": ("DELETE FROM receipts WHERE sequence = 1", "left_out", 1),
    "an answer gone": ("DELETE FROM answers WHERE record_id = 't2'", "altered", 3),
    "a chain gone": ("DELETE FROM chains", "altered", 0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_was_done_to_the_file_is_found(what: str, path: Path, opened: Open) -> None:
    opened().answer([entry(f"t{number}") for number in range(3)])
    assert check_ledger(path).faults == []
    statement, fault, sequence = DAMAGE[what]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    faults = check_ledger(path).faults
    assert (faults[0].fault, faults[0].sequence) == (fault, sequence), faults


def test_two_answers_changed_places(path: Path, opened: Open) -> None:
    opened().answer([entry(f"t{number}") for number in range(3)])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bodies = dict(connection.execute("SELECT record_id, body FROM answers"))
        for mine, other in (("t0", "t1"), ("t1", "t0")):
            connection.execute("UPDATE answers SET body = ? WHERE record_id = ?", (bodies[other], mine))
    assert [(each.fault, each.sequence) for each in check_ledger(path).faults] == [("altered", 1), ("altered", 2)]


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE alerts (n)")
    with pytest.raises(StateError, match="is a database of something else"):
        SqliteLedger(path)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(StateError, match="is not a readable SQLite file"):
        SqliteLedger(tmp_path / "text.db")
    with pytest.raises(StateError, match="found no ledger"):
        check_ledger(tmp_path / "none.db")


def test_a_ledger_of_a_later_version(path: Path, opened: Open) -> None:
    opened().close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = '9' WHERE name = 'schema_version'")
    with pytest.raises(StateError, match="schema version 9; this crossline reads version 1"):
        opened()


def test_a_ledger_that_is_moved_away_takes_nothing(path: Path, opened: Open) -> None:
    ledger = opened()
    path.rename(path.with_name("moved.db"))
    with pytest.raises(RetryableError, match="was deleted or moved away"):
        ledger.claim([asked("t1")])


def test_it_is_for_its_owner_alone(path: Path, opened: Open) -> None:
    ledger = opened()
    ledger.answer([entry("t1")])
    files = [each for each in path.parent.rglob("*") if each.is_file()]
    assert len(files) == 4
    assert {each.stat().st_mode & 0o077 for each in files} == {0}


def test_a_closed_ledger_says_so(opened: Open) -> None:
    ledger = opened()
    ledger.close()
    ledger.close()
    with pytest.raises(StateError, match="is not open"):
        ledger.claim([asked("t1")])


@pytest.mark.parametrize("record_id", ["", "'; DROP TABLE answers; --", "\x00", "é" * 1000, "\ud7ff", "a\nb"])
def test_hostile_ids(record_id: str, opened: Open, path: Path) -> None:
    ledger = opened()
    ledger.claim([asked(record_id)])
    (kept,) = ledger.answer([entry(record_id)])
    assert kept is not None
    found = ledger.by_record("payments", record_id)
    assert found is not None
    assert found.body == kept.body
    assert check_ledger(path).faults == []
