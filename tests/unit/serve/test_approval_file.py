"""``approvals.db``: what an earlier version of it kept, and what was approved and not done."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.serve.approvals.file import FILE, ApprovalFile

TEXT = "rule_id: r\n"
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
# As version 1 made them, written out: what people have is a promise.
FIRST = """
CREATE TABLE drafts (rule_id TEXT NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL, at_ms INTEGER NOT NULL,
    PRIMARY KEY (rule_id, who)) WITHOUT ROWID, STRICT;
CREATE TABLE proofs (proof_id TEXT PRIMARY KEY, text_digest TEXT NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL,
    said TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX proofs_by_text ON proofs (text_digest, at_ms);
CREATE TABLE requests (number INTEGER PRIMARY KEY AUTOINCREMENT, rule_id TEXT NOT NULL, version INTEGER NOT NULL,
    name TEXT NOT NULL, text TEXT NOT NULL, proof_id TEXT NOT NULL, who TEXT NOT NULL, asked_ms INTEGER NOT NULL,
    state TEXT NOT NULL, decided_by TEXT, decided_ms INTEGER, reason TEXT NOT NULL) STRICT;
INSERT INTO drafts VALUES ('r', 'ann', 'draft', 1);
INSERT INTO proofs VALUES ('p', 'DIGEST', 'ann', 2, '{"digests": {}}');
INSERT INTO requests VALUES (1, 'r', 1, 'r.yaml', 'x', 'p', 'ann', 3, 'published', 'bob', 4, '');
INSERT INTO requests VALUES (2, 'r', 2, 'r.yaml', 'x', 'p', 'ann', 5, 'waiting', NULL, NULL, '');
PRAGMA user_version = 1;
"""


def first(folder: Path, version: int = 1) -> None:
    (folder / FILE).touch(mode=0o600)
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.executescript(FIRST.replace("DIGEST", DIGEST).replace("user_version = 1", f"user_version = {version}"))


def test_what_an_earlier_version_kept_is_supplied_up_to_date(tmp_path: Path) -> None:
    first(tmp_path)
    for _ in range(2):
        kept = ApprovalFile(tmp_path)
        assert kept.draft("r", "ann") is not None
        done, waits = kept.request(1), kept.request(2)
        assert done is not None
        assert waits is not None
        assert (done.state, done.decided_by, done.beneath, done.done_ms) == ("published", "bob", None, 4)
        assert (waits.state, waits.beneath, waits.done_ms) == ("waiting", None, None)
        assert kept.unfinished() == [], "what was approved then counts as done"
        assert list(kept.foretold()) == [("r", 1)]


def test_one_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    first(tmp_path, 3)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StateError, match="found version 3; expected 2"):
        ApprovalFile(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_what_was_approved_is_unfinished_until_it_is_noted(tmp_path: Path) -> None:
    first(tmp_path)
    kept = ApprovalFile(tmp_path)
    kept.decide(2, "bob", "", 7, approved=True)
    assert [each.number for each in ApprovalFile(tmp_path).unfinished()] == [2]
    assert kept.note_done(2, 9).done_ms == 9
    assert kept.unfinished() == []
    made = kept.ask("r", 3, "r.yaml", TEXT, "ann", 9, "abc")
    assert kept.request(made.number) == made
    assert kept.decide(made.number, "bob", "no", 10, approved=False).done_ms == 10
    assert kept.unfinished() == []
    kept.reopen(made.number)
    found = kept.request(made.number)
    assert found is not None
    assert (found.state, found.done_ms, found.beneath) == ("waiting", None, "abc")
