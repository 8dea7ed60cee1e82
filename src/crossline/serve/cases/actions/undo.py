"""Undoes the last act on a case, in a transaction, as long as no other act followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from crossline.basics.texts.problems import shown
from crossline.serve.cases import labels, rows, summary
from crossline.serve.cases.actions import alert_moves, case_state
from crossline.serve.cases.actions.case_state import MutableCase
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import NotTakenError

UNDO_MS = 600_000  # for how long an act can be undone


def undo(file: CaseFile, case_id: str, who: str, now_ms: int, version: int | None = None) -> int:
    """The row of the case. Raises NoSuchCaseError, ChangedError as ``do``, NotTakenError if nothing can be undone."""
    case = case_state.read_live(file, case_id)
    case_state.check_version(case, version)
    found = file.rows("SELECT * FROM acts WHERE case_seq = ? ORDER BY number DESC LIMIT 1", (case.seq,))
    if not found:
        raise NotTakenError("/act", "undo", "an act on this case before it")
    last = found[0]
    if last["who"] != who:
        raise NotTakenError("/act", f"undo of what {shown(last['who'])} did", "one's own last act on the case")
    if now_ms > last["at_ms"] + UNDO_MS:
        raise NotTakenError("/act", "undo of an act of long ago", f"one within {UNDO_MS // 60_000} minutes")
    for seq, expected in orjson.loads(last["versions"]):
        stands = case_state.read(file, seq)
        if stands.version != expected:
            raise NotTakenError("/act", f"undo, and {stands.case_id} was changed since", "an act that was the last one")
    file.run("DELETE FROM acts WHERE number = ?", (last["number"],))
    _undone(file, case, last["act"], orjson.loads(last["before"]), who, now_ms)
    return case.seq


def _undone(file: CaseFile, case: MutableCase, act: str, before: Mapping[str, Any], who: str, now_ms: int) -> None:
    text = f"undo of {act}"
    if "note" in before:
        rows.event(file, case.case_id, case.version, "undone", who, now_ms, text, {}, {"note": before["note"]})
        summary.touch(file, case.seq)
        return
    for stream, record_id, given, earlier in before.get("labels", ()):
        known = {each.version: each for each in labels.history(file, stream, record_id)}
        labels.withdraw(file, known[given], known.get(earlier), who, now_ms)
    touched = {int(seq): columns for seq, columns in before["cases"].items()}
    for from_seq, names in before.get("moved", ()):
        alert_moves.move(file, names, case.seq, from_seq)
    for seq, columns in touched.items():
        stands = case_state.read(file, seq)
        case_state.write(file, stands, _with(stands, columns), who, now_ms, text, {})
    if "detached" in before:
        made, alert_id = before["detached"]
        alert_moves.move(file, [alert_id], made, case.seq)
        stands = case_state.read(file, made)
        case_state.write(file, stands, stands.moved("merged", merged_into=case.seq), who, now_ms, text, {})
        touched[made] = {}
    if "moved" in before or "detached" in before:
        alert_moves.settle(file, touched)


def _with(case: MutableCase, columns: Mapping[str, Any]) -> MutableCase:
    kept = {name: getattr(case, name) for name in ("seq", "case_id", "version")}
    return MutableCase(**kept, **columns)
