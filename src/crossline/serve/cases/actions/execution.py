"""Does one act on one case, in a transaction, and notes how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from crossline.basics.times import instant_text
from crossline.serve.cases import labels, rows, summary
from crossline.serve.cases.actions import alert_moves, case_state
from crossline.serve.cases.actions.case_state import MutableCase
from crossline.serve.cases.actions.values import LABELS, CaseAction
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import CaseVerdict, NotTakenError


@dataclass(slots=True)
class ActionRun:
    """Who acts, and when; what was there before, by row, and the versions behind the act."""

    file: CaseFile
    who: str
    now_ms: int
    before: dict[str, Any] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    cases: dict[str, Any] = field(default_factory=dict)

    def put(self, was: MutableCase, now: MutableCase, text: str = "", more: Mapping[str, Any] | None = None) -> None:
        """Store a case's next version."""
        self.cases[str(was.seq)] = was.columns()
        self.versions[was.seq] = case_state.write(self.file, was, now, self.who, self.now_ms, text, more or {})


def do(file: CaseFile, case_id: str, act: CaseAction, who: str, now_ms: int, version: int | None = None) -> int:
    """The row of the case that stands for it after the act.

    Raises NoSuchCaseError, NotTakenError if the act does not fit the case, ChangedError if it has another version.
    """
    case = case_state.read_live(file, case_id)
    case_state.check_version(case, version)
    doing = ActionRun(file, who, now_ms)
    _ACTS[act.act](doing, case, act)
    file.run(
        "INSERT INTO acts (case_seq, who, at_ms, act, versions, before) VALUES (?, ?, ?, ?, ?, ?)",
        (
            *(case.seq, who, now_ms, act.act),
            orjson.dumps(sorted(doing.versions.items())).decode(),
            orjson.dumps({"cases": doing.cases, **doing.before}).decode(),
        ),
    )
    return case.seq


def _assign(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    to = act.to or doing.who
    now = replace(case.moved("acknowledged"), assignee=to)
    _check_news(case, now, f"it is {to}'s already")
    doing.put(case, now)


def _unassign(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    del act
    _unless_resolved(case)
    if case.assignee is None:
        raise NotTakenError("/act", "unassign", "another act, since the case is not assigned")
    state = "open" if case.state == "acknowledged" else case.state
    doing.put(case, replace(case, state=state, assignee=None))


def _snooze(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    until = {} if act.until_ms is None else {"until": instant_text(act.until_ms)}
    doing.put(case, case.moved("snoozed", snoozed_ms=act.until_ms), act.reason or "", until)


def _escalate(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    now = case.moved("escalated", escalated_to=act.to)
    _check_news(case, now, f"{act.to} has it already")
    doing.put(case, now, act.reason or "")


def _note(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    text = act.text or ""
    number = rows.event(doing.file, case.case_id, case.version, "note", doing.who, doing.now_ms, text, {}, {})
    doing.before["note"] = number
    doing.versions[case.seq] = case.version
    summary.touch(doing.file, case.seq)


def _resolve(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    given = None if act.label is None else LABELS[act.label]
    more: dict[str, Any] = {}
    if given is not None:
        records = doing.file.rows(
            "SELECT DISTINCT stream, record_id FROM case_alerts WHERE case_seq = ? AND stream IS NOT NULL "
            "AND record_id IS NOT NULL ORDER BY position",
            (case.seq,),
        )
        if not records:
            raise NotTakenError("/label", "a label, and no alert whose record is known", "such an alert")
        doing.before["labels"] = [_labelled(doing, case, (*each,), given, act.reason or "") for each in records]
        more = {"label": {"is_fraud": given, "records": [list(each) for each in records]}}
    now = case.moved("resolved", resolved_ms=doing.now_ms, verdict=None if given is None else int(given))
    doing.put(case, now, act.reason or "", more)


def _labelled(doing: ActionRun, case: MutableCase, record: tuple[str, str], given: bool, reason: str) -> Any:
    """Label a record; its version now, and that of the label before, 0 where there was none."""
    before = labels.last(doing.file, *record)
    made = labels.add(doing.file, record, CaseVerdict(given, reason), doing.who, doing.now_ms, case_id=case.case_id)
    return [*record, made.version, 0 if before is None else before.version]


def _reopen(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    if case.state != "resolved":
        raise NotTakenError("/act", "reopen", f"another act, for the case is {case.state}")
    doing.put(case, case.moved("acknowledged" if case.assignee else "open"), act.reason or "")


def _merge(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    wanted = list(dict.fromkeys(rows.seq_of(doing.file, each) for each in act.case_ids or ()))
    others = [case_state.read_live(doing.file, f"{rows.PREFIX}{each}") for each in wanted if each != case.seq]
    if not others:
        raise NotTakenError("/case_ids", "no other case", "the cases that become part of this one")
    alert_moves.check_room(doing.file, [case.seq, *(each.seq for each in others)])
    doing.before["moved"] = [[each.seq, alert_moves.move_all(doing.file, each.seq, case.seq)] for each in others]
    for each in others:
        gone = each.moved("merged", merged_into=case.seq)
        doing.put(each, gone, f"merged into {case.case_id}")
    doing.put(case, case, "", {"merged": [each.case_id for each in others]})
    alert_moves.settle(doing.file, [case.seq, *(each.seq for each in others)])


def _detach(doing: ActionRun, case: MutableCase, act: CaseAction) -> None:
    _unless_resolved(case)
    seq, case_id = alert_moves.detached(doing.file, case.seq, act.alert_id or "", doing.who, doing.now_ms)
    doing.before |= {"detached": [seq, act.alert_id]}
    doing.put(case, case, "", {"detached": {"alert_id": act.alert_id, "case_id": case_id}})
    doing.versions[seq] = 1
    alert_moves.settle(doing.file, [case.seq, seq])


def _unless_resolved(case: MutableCase) -> None:
    if case.state == "resolved":
        raise NotTakenError("/act", "an act on a case that is resolved", "reopen before it, or a note")


def _check_news(was: MutableCase, now: MutableCase, why: str) -> None:
    if was == now:
        raise NotTakenError("/act", "an act that changes nothing", "another one", why)


_ACTS: dict[str, Callable[[ActionRun, MutableCase, CaseAction], None]] = {
    "assign": _assign,
    "unassign": _unassign,
    "snooze": _snooze,
    "escalate": _escalate,
    "note": _note,
    "resolve": _resolve,
    "reopen": _reopen,
    "merge": _merge,
    "detach": _detach,
}
