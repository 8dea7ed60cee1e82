"""Rows of cases and of what became of them, as every part of the store adds them. In a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from crossline.basics.texts.problems import shown
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import EventKind, NoSuchCaseError

PREFIX, DIGITS_MAX = "C-", 18


def next_id(file: CaseFile) -> str:
    """The number of the next case, as people say it: they rise, and none is given twice."""
    found = file.rows("SELECT seq FROM sqlite_sequence WHERE name = 'cases'")
    return f"{PREFIX}{(found[0]['seq'] if found else 0) + 1}"


def seq_of(file: CaseFile, case_id: str) -> int:
    """The row of a case by its id, or by its number (``C-2041``). Raises NoSuchCaseError."""
    found = file.rows("SELECT seq FROM cases WHERE case_id = ?", (case_id,))
    number = case_id.removeprefix(PREFIX)
    if not found and number != case_id and number.isascii() and number.isdigit() and len(number) < DIGITS_MAX:
        found = file.rows("SELECT seq FROM cases WHERE seq = ?", (int(number),))
    if not found:
        raise NoSuchCaseError(f"there is no case {shown(case_id)}")
    return int(found[0]["seq"])


def insert(file: CaseFile, title: str, who: str, now_ms: int, at_ms: int) -> tuple[int, str]:
    """A new open case whose first alert is of ``at_ms``; its row and its number."""
    case_id = next_id(file)
    seq = file.run(
        "INSERT INTO cases (case_id, title, state, version, opened_ms, opened_by, changed_ms, changed_by, first_ms, "
        "last_ms) VALUES (?, ?, 'open', 1, ?, ?, ?, ?, ?, ?)",
        (case_id, title, now_ms, who, now_ms, who, at_ms, at_ms),
    )
    return seq, case_id


def event(
    file: CaseFile,
    case_id: str,
    version: int,
    kind: EventKind,
    who: str,
    now_ms: int,
    text: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> int:
    """Add an event; its number."""
    number = file.run(
        "INSERT INTO case_events (case_id, kind, at_ms, who, text, version, before, after) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (case_id, kind, now_ms, who, text, version, _json(before), _json(after)),
    )
    if kind == "note":
        file.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", (2 * number + 1, text))
    return number


def found_by(file: CaseFile, number: int, text: str) -> None:
    """Have a search find ``text`` under event ``number``."""
    file.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", (2 * number + 1, text))


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(value)).decode()
