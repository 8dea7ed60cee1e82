"""Cases as rows: read, searched, written, and what a change makes of one."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from crossline.basics.texts.problems import one_of, shown
from crossline.serve.cases import checks, rows, summary
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.linking import retie
from crossline.serve.cases.values import (
    NEXT_STATES,
    STATES,
    UNSET,
    Case,
    CaseChange,
    CaseEvent,
    CaseFilter,
    CaseList,
    EventKind,
    LinkedAlert,
    NotTakenError,
)

LIMIT_MAX = 500
_INT_MAX = 2**63 - 1
# What belongs to a state goes with it.
_OF_STATE = """UPDATE cases SET
resolved_ms = CASE WHEN state = 'resolved' THEN coalesce(resolved_ms, changed_ms) END,
verdict = CASE WHEN state = 'resolved' THEN coalesce(?, verdict) END,
escalated_to = CASE WHEN state = 'escalated' THEN escalated_to END,
snoozed_ms = CASE WHEN state = 'snoozed' THEN snoozed_ms END WHERE case_id = ?"""
_COLUMNS = "case_id, title, state, assignee, version, opened_ms, opened_by, changed_ms, changed_by"


def changed(case: Case, change: CaseChange, who: str, now_ms: int) -> Case:
    """``case`` with ``change``. Raises NotTakenError if the change does not fit it, or is none."""
    if change.state is not None and change.state not in NEXT_STATES[case.state] and change.state != case.state:
        known = change.state in STATES
        expected = one_of(NEXT_STATES[case.state]) if known else one_of(STATES)
        raise NotTakenError("/state", shown(change.state), f"{expected}, for the case is {case.state}")
    reopened = case.state == "resolved" and change.state == "open"
    if case.state == "resolved" and not reopened:
        raise NotTakenError("/state", "a change of a case that is resolved", 'state "open" with it, which reopens it')
    if change.verdict is not None and change.state != "resolved":
        raise NotTakenError("/label", "a label", 'state "resolved" with it')
    made = dataclasses.replace(
        case,
        state=change.state or case.state,
        title=case.title if change.title is None else checks.text("/title", change.title, checks.TITLE_MAX, least=1),
        assignee=case.assignee if change.assignee is UNSET else _assignee(change.assignee),
        alerts=_linked(case, change),
    )
    if made == case:
        raise NotTakenError("", "nothing that changes the case", "state, assignee, title, link or unlink")
    if change.verdict is not None and not records_of(made):
        hint = "link alerts with their stream and record_id, or put the label on the record itself"
        raise NotTakenError("/label", "a label, and no linked alert whose record is known", "such an alert", hint)
    return dataclasses.replace(made, version=case.version + 1, changed_ms=now_ms, changed_by=who)


def records_of(case: Case) -> list[tuple[str, str]]:
    """Stream and id of the records of its alerts, each once."""
    found = [(each.stream, each.record_id) for each in case.alerts]
    return [(stream, record) for stream, record in dict.fromkeys(found) if stream is not None and record is not None]


def difference(before: Case, after: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a person changed, as it was and as it is."""
    was, now = before.to_json(), after.to_json()
    names = [name for name in ("title", "state", "alerts", "assignee") if was[name] != now[name]]
    return {name: was[name] for name in names}, {name: now[name] for name in names}


def read(file: CaseFile, case_id: str) -> Case:
    """Raises NoSuchCaseError."""
    with file.reading():
        found = file.rows(f"SELECT seq, {_COLUMNS} FROM cases WHERE seq = ?", (rows.seq_of(file, case_id),))  # noqa: S608 - our names
        return _cases(file, found)[0]


def search(file: CaseFile, wanted: CaseFilter, cursor: str | None, limit: int) -> CaseList:
    """Those opened last first. Raises NotTakenError for a cursor or limit that is none."""
    if not 1 <= limit <= LIMIT_MAX:
        raise NotTakenError("?limit", shown(limit), f"1 to {LIMIT_MAX}")
    for each in wanted.states:
        if each not in STATES:
            raise NotTakenError("?state", shown(each), one_of(STATES))
    where, values = ["seq < ?"], [_seq(cursor)]
    for condition, given in _conditions(wanted):
        where.append(condition)
        values += given
    query = f"SELECT seq, {_COLUMNS} FROM cases WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?"  # noqa: S608
    with file.reading():
        found = file.rows(query, (*values, limit + 1))
        more = str(found[limit - 1]["seq"]) if len(found) > limit else None
        return CaseList(tuple(_cases(file, found[:limit])), more)


def write(file: CaseFile, case: Case, *, fresh: bool, verdict: bool | None = None) -> None:
    """Store it, in a transaction. ``verdict``: the label with which it is resolved."""
    row = case.to_row()
    names = _COLUMNS.split(", ")
    if fresh:
        marks = ", ".join("?" * len(names))
        file.run(f"INSERT INTO cases ({_COLUMNS}) VALUES ({marks})", [row[name] for name in names])  # noqa: S608
    else:
        put = ", ".join(f"{name} = ?" for name in names)
        file.run(f"UPDATE cases SET {put} WHERE case_id = ?", [*(row[name] for name in names), case.case_id])  # noqa: S608
        file.run(_OF_STATE, (None if verdict is None else int(verdict), case.case_id))
    (found,) = file.rows("SELECT seq FROM cases WHERE case_id = ?", (case.case_id,))
    for number, (name, value) in enumerate(case.about.items() if fresh else ()):
        file.run("INSERT INTO case_keys VALUES (?, ?, ?, ?)", (found["seq"], name, value, number))
    file.run("DELETE FROM case_alerts WHERE case_seq = ?", (found["seq"],))
    for number, each in enumerate(case.alerts):
        file.run(
            "INSERT INTO case_alerts (case_seq, position, alert_id, stream, record_id) VALUES (?, ?, ?, ?, ?)",
            (found["seq"], number, each.alert_id, each.stream, each.record_id),
        )
    retie(file, found["seq"])
    summary.refresh(file, found["seq"])


def note_event(
    file: CaseFile,
    case: Case,
    kind: EventKind,
    who: str,
    now_ms: int,
    text: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> CaseEvent:
    """Add an event, in a transaction."""
    number = rows.event(file, case.case_id, case.version, kind, who, now_ms, text, before, after)
    if kind == "created" or "title" in after:
        ids = (name for each in case.alerts for name in (each.alert_id, each.record_id) if name is not None)
        rows.found_by(file, number, " ".join((case.title, *case.about.values(), *ids)))
    return CaseEvent(number, case.case_id, kind, now_ms, who, text, case.version, before, after)


def events(file: CaseFile, case_id: str | None, after: int, limit: int) -> list[CaseEvent]:
    """Of a case, or of all, in their order."""
    where = "" if case_id is None else "case_id = ? AND "
    found = file.rows(
        f"SELECT * FROM case_events WHERE {where}number > ? ORDER BY number LIMIT ?",  # noqa: S608
        (*([] if case_id is None else [case_id]), min(max(after, 0), _INT_MAX), limit),
    )
    return [_event(each) for each in found]


def notes(file: CaseFile, case_id: str, limit: int) -> list[CaseEvent]:
    """The last ``limit`` notes of a case, in their order."""
    found = file.rows(
        "SELECT * FROM case_events WHERE case_id = ? AND kind = 'note' AND NOT EXISTS "
        "(SELECT 1 FROM case_events AS u WHERE u.case_id = case_events.case_id AND u.kind = 'undone' "
        "AND u.after = '{\"note\":' || case_events.number || '}') ORDER BY number DESC LIMIT ?",
        (case_id, limit),
    )
    return [_event(each) for each in reversed(found)]


def cursor_after(file: CaseFile, case_id: str) -> str:
    """Raises NoSuchCaseError."""
    return str(rows.seq_of(file, case_id))


def _event(row: sqlite3.Row) -> CaseEvent:
    return CaseEvent(**{**row, **{name: orjson.loads(row[name]) for name in ("before", "after")}})


def _conditions(wanted: CaseFilter) -> list[tuple[str, list[Any]]]:
    found: list[tuple[str, list[Any]]] = []
    if wanted.states:
        found.append((f"state IN ({', '.join('?' * len(wanted.states))})", list(wanted.states)))
    if wanted.assignee is not UNSET:
        found.append(("assignee IS ?", [wanted.assignee]))
    if wanted.alert_id is not None:
        found.append(("seq IN (SELECT case_seq FROM case_alerts WHERE alert_id = ?)", [wanted.alert_id]))
    if wanted.record is not None:
        inner = "SELECT case_seq FROM case_alerts WHERE stream = ? AND record_id = ?"
        found.append((f"seq IN ({inner})", list(wanted.record)))
    if wanted.about is not None:
        found.append(("seq IN (SELECT case_seq FROM case_keys WHERE field = ? AND value = ?)", list(wanted.about)))
    for operator, bound_ms in ((">=", wanted.from_ms), ("<", wanted.until_ms)):
        if bound_ms is not None:
            found.append((f"opened_ms {operator} ?", [max(-_INT_MAX, min(bound_ms, _INT_MAX))]))
    if wanted.text:
        found.append(("instr(lower(title), lower(?)) > 0", [wanted.text]))
    return found


def _cases(file: CaseFile, found: Sequence[sqlite3.Row]) -> list[Case]:
    marks = ", ".join("?" * len(found))
    linked = file.rows(
        f"SELECT * FROM case_alerts WHERE case_seq IN ({marks}) ORDER BY case_seq, position",  # noqa: S608
        [each["seq"] for each in found],
    )
    by_case: dict[int, list[LinkedAlert]] = {}
    for each in linked:
        by_case.setdefault(each["case_seq"], []).append(
            LinkedAlert(each["alert_id"], each["stream"], each["record_id"])
        )
    about: dict[int, dict[str, str]] = {}
    keys = f"SELECT * FROM case_keys WHERE case_seq IN ({marks}) ORDER BY case_seq, position"  # noqa: S608
    for each in file.rows(keys, [each["seq"] for each in found]):
        about.setdefault(each["case_seq"], {})[each["field"]] = each["value"]
    return [
        Case(
            alerts=tuple(by_case.get(each["seq"], ())),
            about=about.get(each["seq"], {}),
            **{name: each[name] for name in _COLUMNS.split(", ")},
        )
        for each in found
    ]


def _assignee(value: str | None) -> str | None:
    return None if value is None else checks.text("/assignee", value, checks.ID_MAX, least=1)


def _linked(case: Case, change: CaseChange) -> tuple[LinkedAlert, ...]:
    known = {each.alert_id for each in case.alerts}
    for number, name in enumerate(change.unlink):
        if name not in known:
            raise NotTakenError(f"/unlink/{number}", shown(name), "an alert of the case")
    kept = [each for each in case.alerts if each.alert_id not in set(change.unlink)]
    checks.alerts("/link", change.link)
    return checks.alerts("/link", [*kept, *change.link])


def _seq(cursor: str | None) -> int:
    if cursor is None:
        return _INT_MAX
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(_INT_MAX))):
        raise NotTakenError("?cursor", "no cursor of this list", "next_cursor of the page before")
    return int(cursor)
