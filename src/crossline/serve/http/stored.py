"""What the routes ask of stores and feed, answered by those of this pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from crossline.core.basics.errors import UsageError
from crossline.core.basics.times import parse_instant_ms
from crossline.serve.cases import values
from crossline.serve.cases.cases import Cases
from crossline.serve.feed.reader import EventId, FeedReader
from crossline.serve.http.events.source import Event, EventsGoneError
from crossline.serve.http.writes.casework import ChangedError

PAGE_MAX = 500


class StoredCases:
    """Labels and cases of the file, as JSON."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases

    def put_label(
        self, stream: str, record_id: str, label: Mapping[str, Any], who: str, version: int | None
    ) -> Mapping[str, Any]:
        """See ``CaseStore``."""
        known_ms, reason = parse_instant_ms(label["known_at"]), label["reason"] or ""
        try:
            kept = self._cases.put_label(
                stream, record_id, label["is_fraud"], who=who, reason=reason, known_ms=known_ms, version=version or 0
            )
        except values.ChangedError as error:
            raise ChangedError(error.version) from None
        return _label(kept)

    def label(self, stream: str, record_id: str) -> Mapping[str, Any] | None:
        """See ``CaseStore``."""
        found = self._cases.label(stream, record_id)
        return None if found is None else _label(found)

    def create_case(self, case: Mapping[str, Any], who: str) -> Mapping[str, Any]:
        """See ``CaseStore``."""
        alerts = [values.LinkedAlert(each) for each in case["alert_ids"]]
        made = self._cases.create_case(case["title"], alerts, who=who, assignee=case["assignee"], about=case["key"])
        return self._case(made)

    def case(self, case_id: str) -> Mapping[str, Any] | None:
        """See ``CaseStore``."""
        try:
            return self._case(self._cases.case(case_id))
        except values.NotThereError:
            return None

    def cases(self, filters: Mapping[str, str], after: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
        """See ``CaseStore``."""
        status, assignee = filters.get("status"), filters.get("assignee", values.UNSET)
        wanted = values.CaseFilter(tuple(each for each in values.STATES if each == status), assignee)
        cursor, found = None if after is None else self._cases.cursor_after(after), list[values.Case]()
        while len(found) < limit:
            page = self._cases.cases(wanted, cursor, min(PAGE_MAX, limit - len(found)))
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return [_plain(each) for each in found]

    def change_case(self, case_id: str, version: int, change: Mapping[str, Any], who: str) -> Mapping[str, Any]:
        """See ``CaseStore``."""
        said: dict[str, Any] = {name: change[name] for name in ("title", "assignee") if name in change}
        if "status" in change:
            said["state"] = change["status"]
        if change.get("alert_ids") is not None:
            there = {each.alert_id for each in self._cases.case(case_id).alerts}
            wanted = dict.fromkeys(change["alert_ids"])
            said["link"] = tuple(values.LinkedAlert(each) for each in wanted if each not in there)
            said["unlink"] = tuple(sorted(there - wanted.keys()))
        try:
            return self._case(self._cases.change_case(case_id, version, values.CaseChange(**said), who))
        except values.ChangedError as error:
            raise ChangedError(error.version) from None

    def note(self, case_id: str, text: str, who: str) -> Mapping[str, Any]:
        """See ``CaseStore``."""
        self._cases.note(case_id, text, who)
        return self._case(self._cases.case(case_id))

    def _case(self, case: values.Case) -> dict[str, Any]:
        return {**_plain(case), "notes": [each.to_json() for each in self._cases.notes(case.case_id)]}


def _label(label: values.Label) -> dict[str, Any]:
    return {**label.to_json(), "who": label.who}


def _plain(case: values.Case) -> dict[str, Any]:
    said = case.to_json()
    alert_ids = [each["alert_id"] for each in said.pop("alerts")]
    return {**said, "status": said.pop("state"), "alert_ids": alert_ids}


class FeedEvents:
    """What batches gave, as events."""

    def __init__(self, reader: FeedReader) -> None:
        self._reader = reader

    async def follow(self, after: str | None) -> AsyncIterator[Event]:
        """See ``EventSource``."""
        try:
            begin = None if after is None else EventId.of(after)
        except UsageError as error:
            raise EventsGoneError(str(error)) from None
        async for each in self._reader.events(begin):
            if each.missed and begin is not None:
                raise EventsGoneError(f"{each.missed} batches behind {after} are not kept any more")
            key = each.value().get("key") if each.kind in {"alert", "correction"} else None
            said = {name: str(value) for name, value in key.items()} if isinstance(key, dict) else {}
            yield Event(str(each.id), each.kind, each.raw, said)
            begin = None
