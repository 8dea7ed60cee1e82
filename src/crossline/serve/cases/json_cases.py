"""The store of labels and cases in terms of JSON: what routes that know no dataclasses call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossline.basics.texts.problems import one_of, shown
from crossline.basics.times import parse_instant_ms
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.values import (
    UNSET,
    Case,
    CaseChange,
    CaseFilter,
    CaseVerdict,
    Label,
    LinkedAlert,
    NoSuchCaseError,
    NotTakenError,
    Unset,
)

_FILTERS = ("status", "assignee", "alert_id")
_CHANGES = ("status", "title", "assignee", "alert_ids", "alerts", "label", "reason")
_NOTES_MAX = 10_000


class JsonCases:
    """``cases`` as JSON values in and out. Errors are those of ``Cases``.

    A case's ``state`` is called ``status`` here, its alerts stand as ``alerts``, and their ids as ``alert_ids`` too.
    """

    def __init__(self, cases: Cases) -> None:
        self.cases_store = cases

    def put_label(
        self, stream: str, record_id: str, label: Mapping[str, Any], who: str, version: int | None
    ) -> dict[str, Any]:
        """Label a record over the label of that ``version``; None: there is none yet."""
        made = self.cases_store.put_label(
            stream,
            record_id,
            label["is_fraud"],
            who=who,
            reason=label.get("reason") or "",
            known_ms=_instant("/known_at", label.get("known_at")),
            version=version or 0,
        )
        return _label(made)

    def label(self, stream: str, record_id: str) -> dict[str, Any] | None:
        """The last word on a record; None if there is none."""
        found = self.cases_store.label(stream, record_id)
        return None if found is None else _label(found)

    def create_case(self, case: Mapping[str, Any], who: str) -> dict[str, Any]:
        """Open a case of ``title``, ``key``, ``alert_ids`` or ``alerts``, ``assignee``."""
        made = self.cases_store.create_case(
            case["title"],
            _alerts(case) or (),
            who=who,
            assignee=case.get("assignee"),
            about=case.get("key") or {},
        )
        return self._case(made)

    def case(self, case_id: str) -> dict[str, Any] | None:
        """A case with its notes; None if there is none."""
        try:
            return self._case(self.cases_store.case(case_id))
        except NoSuchCaseError:
            return None

    def cases(self, filters: Mapping[str, str], after: str | None, limit: int) -> Sequence[dict[str, Any]]:
        """Cases by ``status``, ``assignee``, ``alert_id``, those opened last first, behind the case ``after``."""
        for name in filters:
            if name not in _FILTERS:
                raise NotTakenError(f"?{name}", shown(filters[name]), one_of(_FILTERS))
        wanted = CaseFilter(
            states=(filters["status"],) if "status" in filters else (),  # type: ignore[arg-type]  # it is checked
            assignee=filters.get("assignee", UNSET),
            alert_id=filters.get("alert_id"),
        )
        cursor = None if after is None else self.cases_store.cursor_after(after)
        found: list[Case] = []
        while len(found) < limit:
            page = self.cases_store.cases(wanted, cursor, min(limit - len(found), 500))
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return [_plain(each) for each in found]

    def change_case(self, case_id: str, version: int, change: Mapping[str, Any], who: str) -> dict[str, Any]:
        """Change what ``change`` names: ``status``, ``title``, ``assignee``, ``alert_ids`` or ``alerts``, ``label``."""
        for name in change:
            if name not in _CHANGES:
                raise NotTakenError(f"/{name}", shown(change[name]), one_of(_CHANGES))
        link: tuple[LinkedAlert, ...] = ()
        unlink: tuple[str, ...] = ()
        alerts = _alerts(change)
        if alerts is not None:
            known = {each.alert_id: each for each in self.cases_store.case(case_id).alerts}
            named = {each.alert_id for each in alerts}
            # What is only an id does not take its record from an alert that is linked already.
            link = tuple(each for each in alerts if each.alert_id not in known or each.stream is not None)
            unlink = tuple(name for name in known if name not in named)
        label = change.get("label")
        assignee: str | Unset | None = change.get("assignee", UNSET)
        verdict = None
        if label is not None:
            known_ms = _instant("/label/known_at", label.get("known_at"))
            verdict = CaseVerdict(label["is_fraud"], label.get("reason") or "", known_ms)
        made = CaseChange(
            state=change.get("status"),
            assignee=assignee,
            title=change.get("title"),
            link=link,
            unlink=unlink,
            verdict=verdict,
            reason=change.get("reason") or "",
        )
        return self._case(self.cases_store.change_case(case_id, version, made, who))

    def note(self, case_id: str, text: str, who: str) -> dict[str, Any]:
        """Write a note under a case; the case as it is then."""
        self.cases_store.note(case_id, text, who)
        return self._case(self.cases_store.case(case_id))

    def _case(self, case: Case) -> dict[str, Any]:
        notes = [each.to_json() for each in self.cases_store.notes(case.case_id, _NOTES_MAX)]
        return {**_plain(case), "notes": [{name: each[name] for name in ("at", "by", "text")} for each in notes]}


def _plain(case: Case) -> dict[str, Any]:
    found = case.to_json()
    return {**found, "status": found.pop("state"), "alert_ids": [each.alert_id for each in case.alerts]}


def _label(label: Label) -> dict[str, Any]:
    return {**label.to_json(), "who": label.who}


def _alerts(given: Mapping[str, Any]) -> tuple[LinkedAlert, ...] | None:
    if given.get("alerts") is not None:
        return tuple(LinkedAlert(**each) for each in given["alerts"])
    if given.get("alert_ids") is not None:
        return tuple(LinkedAlert(each) for each in given["alert_ids"])
    return None


def _instant(pointer: str, value: str | int | None) -> int | None:
    try:
        return None if value is None else parse_instant_ms(value)
    except ValueError as error:
        raise NotTakenError(pointer, shown(value), "an RFC 3339 instant") from error
