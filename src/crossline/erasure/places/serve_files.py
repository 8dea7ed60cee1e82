"""The SQLite files of the API: the ledger of answers and receipts, labels and cases."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from crossline.erasure.places.sqlite_files import SqlitePlace
from crossline.erasure.receipts import ERASED, erased_rest
from crossline.erasure.rows import GONE, decoded, treat
from crossline.erasure.subject import Subject, parsed
from crossline.lake.writing.side_logs import CASE_FILE, LEDGER_FILE

# A case stays, though its alerts and labels go; the acts of people on it too.
_CASES_KEEP = ("cases", "acts", "keys", "views", "case_events", "marks", "counters")
# Counts, which name no person, and versions of rules.
_LEDGER_KEEP = ("meta", "chains", "counts", "bases")


def ledger_place(folder: Path) -> SqlitePlace:
    """Answers and receipts in ``serve.path``."""
    return SqlitePlace("ledger of answers and receipts", folder / LEDGER_FILE, ledger_row, needs_stop=True)


def cases_place(folder: Path) -> SqlitePlace:
    """Labels, cases and the requests that were answered, in ``serve.path``."""
    return SqlitePlace("labels and cases", folder / CASE_FILE, _case_row, _find_texts_anew, needs_stop=True)


def ledger_row(subject: Subject, table: str, row: dict[str, Any]) -> Any:
    """What becomes of a row of a ledger, in SQLite or PostgreSQL: answers and receipts stay, without ids."""
    if table == "receipts":
        text = decoded(row["rest"])
        own = _is_marked(subject, row["decision_id"])
        after = None if text is None else erased_rest(subject, text, None, own=own)
        return row if after is None else {**row, "rest": after.encode()}
    if table == "answers":
        return _answer(subject, row)
    return treat(subject, row, keeps=table in _LEDGER_KEEP or table == "revisions")


def _answer(subject: Subject, row: dict[str, Any]) -> Any:
    """An answer stays, for its receipt rests on it; a claim without an answer goes."""
    body = parsed(decoded(row["body"]) or "") if row["body"] is not None else None
    own = subject.is_id(row["stream"], row["record_id"]) or (isinstance(body, dict) and subject.owns(body))
    if row["body"] is None:
        return GONE if own else row
    after = treat(subject, row, keeps=True)
    if own and row["record_id"] == after["record_id"]:
        after = {**after, "record_id": subject.pseudonym(row["record_id"])}
    if own:
        subject.add(row["stream"], [row["record_id"]])
        after = {**after, "body_digest": ERASED}
    if after is not row:
        _mark(subject, row["decision_id"])
    return row if after == row else after


# Which answers had a trace: their receipts are marked too. A table of answers comes before that of receipts.
_MARKS = "\x00decisions"


def _mark(subject: Subject, decision_id: str | None) -> None:
    if decision_id is not None:
        subject.notes.setdefault(_MARKS, set()).add(decision_id)


def _is_marked(subject: Subject, decision_id: str) -> bool:
    return decision_id in subject.notes.get(_MARKS, ())


def _case_row(subject: Subject, table: str, row: dict[str, Any]) -> Any:
    return treat(subject, row, keeps=table in _CASES_KEEP)


def _find_texts_anew(connection: sqlite3.Connection) -> None:
    """Make the search index again, from the rows that are left: a text cannot be taken out of it."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if "texts" not in known:
        return
    put = "INSERT INTO texts (rowid, text) VALUES (?, ?)"
    connection.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
    alerts = "SELECT number, message, record_id, alert_id, rule_id, ties FROM alerts WHERE suppressed_by IS NULL"
    for number, *words, ties in connection.execute(alerts).fetchall():
        values = [str(each[1]) for each in parsed(ties) or () if isinstance(each, list) and len(each) > 1]
        connection.execute(put, (2 * number, " ".join(dict.fromkeys([*words, *values]))))
    notes = "SELECT number, text FROM case_events WHERE kind = 'note'"
    for number, text in connection.execute(notes).fetchall():
        connection.execute(put, (2 * number + 1, text))
    made = """SELECT e.number, c.title, c.seq FROM case_events AS e JOIN cases AS c USING (case_id)
        WHERE e.kind = 'created' AND e.who != 'crossline'"""
    for number, title, seq in connection.execute(made).fetchall():
        values = [each for (each,) in connection.execute("SELECT value FROM case_keys WHERE case_seq = ?", (seq,))]
        ids = [
            str(each)
            for pair in connection.execute("SELECT alert_id, record_id FROM case_alerts WHERE case_seq = ?", (seq,))
            for each in pair
            if each is not None
        ]
        connection.execute(put, (2 * number + 1, " ".join((title, *values, *ids))))
