"""Rules and what became of them, as rows: what ``--json`` writes and the API answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from crossline.basics.times import BEGINNING_MS, FOREVER_MS, format_instant
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.history import History, event_rule
from crossline.rule_registry.publish import Written
from crossline.rule_registry.rule_files import FileRule

Row = dict[str, Any]
_CHANGES = ("published", "status_changed")
IN_FORCE = (*_CHANGES, "tripped", "released")


def rule_rows(
    events: Iterable[RuleEvent] | None, standing: Iterable[FileRule], *, every_version: bool = False
) -> list[Row]:
    """A row for each rule and version, by name and number, from the log, or without one from the files.

    Of each rule the version in force and drafts that wait, unless ``every_version`` is asked for.
    """
    if events is None:
        return [_file_row(each) for each in standing]
    events = list(events)
    history = History(events)
    intervals: dict[tuple[str, int], list[dict[str, str | None]]] = {}
    for each in history.rule_set().versions:
        interval = {
            "from": instant(each.effective_from_ms),
            "until": instant(each.effective_until_ms),
            "kind": each.kind,
        }
        intervals.setdefault((each.rule.rule_id, each.rule.version), []).append(interval)
    last = {(str(each.rule_id), int(each.version or 0)): each for each in events if each.event in _CHANGES}
    tripped = {(str(each.rule_id), int(each.version or 0)): each for each in events if each.event == "tripped"}
    rows = []
    for (rule_id, version), event in sorted(last.items()):
        current = history.rules[rule_id].in_force
        if every_version or current is None or version >= current:
            judged = intervals.get((rule_id, version), [])
            trip = tripped.get((rule_id, version)) if version in history.rules[rule_id].tripped else None
            rows.append(_event_row(event, judged) if trip is None else _tripped_row(event, trip, judged))
    return rows


def pending(events: Iterable[RuleEvent]) -> list[RuleEvent]:
    """The versions that wait for approval, each with its last event."""
    waiting: dict[tuple[str, int], RuleEvent] = {}
    for event in events:
        name = (str(event.rule_id), int(event.version or 0))
        if event.event == "waiting":
            waiting[name] = event
        elif event.event in _CHANGES and event.status != "draft":
            for other in [each for each in waiting if each[0] == name[0] and each[1] <= name[1]]:
                del waiting[other]
    return list(waiting.values())


def _tripped_row(event: RuleEvent, trip: RuleEvent, judged: list[dict[str, str | None]]) -> Row:
    """As shadow, since the breaker found that it floods."""
    body = {"status": trip.status, "effective_from": instant(trip.effective_from_ms), "tripped": trip.text}
    return {**_event_row(event, judged), **body}


def _event_row(event: RuleEvent, judged: list[dict[str, str | None]]) -> Row:
    rule = event_rule(event)
    return {
        "rule_id": rule.rule_id,
        "version": rule.version,
        "rule_type": rule.rule_type,
        "status": rule.status,
        "effective_from": None if rule.status == "draft" else instant(event.effective_from_ms),
        "severity": rule.severity,
        "source": f"{event.source}:{event.line}",
        "live": True,
        "judges": judged,
        "body": rule.display_json(),
    }


def _file_row(each: FileRule) -> Row:
    rule = each.rule
    return {
        "rule_id": rule.rule_id,
        "version": rule.version,
        "rule_type": rule.rule_type,
        "status": rule.status,
        "effective_from": None if rule.effective_from is None else instant(rule.effective_from),
        "severity": rule.severity,
        "source": f"{each.source}:{each.line}",
        "live": False,
        "judges": [],
        "body": rule.display_json(),
    }


def instant(ms: int | None) -> str | None:
    """An instant as text; None for the beginning and for no end."""
    if ms is None or ms in {BEGINNING_MS, FOREVER_MS}:
        return None
    try:
        return format_instant(ms)
    except OverflowError:
        return f"{ms} ms"


def about(rule_id: str, history: History, events: Iterable[RuleEvent]) -> list[RuleEvent]:
    """What happened to a rule, to the files that it stood in, and to lists and tables that any version refers to."""
    events = list(events)
    sources = {event.source for event in events if event.rule_id == rule_id and event.source}
    conditions = [each for rule in history.rules[rule_id].versions.values() for each in rule.all_conditions()]
    lists = {name for condition in conditions for name in condition.lists()}
    bodies = json.dumps([rule.to_json() for rule in history.rules[rule_id].versions.values()], default=str)

    def concerns(event: RuleEvent) -> bool:
        if event.list_name is not None:
            return event.list_name in lists
        if event.table_name is not None:
            return re.search(rf"\b{event.table_name}\.", bodies) is not None
        return event.rule_id == rule_id or (event.event == "refused" and event.source in sources)

    return [event for event in events if concerns(event)]


def event_row(event: RuleEvent) -> Row:
    """An event as it stands in the log, its instants also as text."""
    row = event.as_dict()
    if event.event in IN_FORCE:
        row["effective_from"] = instant(event.effective_from_ms)
    if event.until_ms is not None:
        row["until"] = instant(event.until_ms)
    if event.begins_ms is not None:
        row["begins"] = {stream: instant(ms) for stream, ms in event.begins_ms.items()}
    return row


def written_row(written: Written) -> Row:
    """What became of one rule."""
    rule = written.rule
    undone = {} if written.taken_back is None else {"taken_back": written.taken_back}
    return {
        "rule_id": rule.rule_id,
        "version": rule.version,
        "status": rule.status,
        "change": written.change,
        "file": str(written.file),
        "effective_from": instant(rule.effective_from),
        **undone,
    }
