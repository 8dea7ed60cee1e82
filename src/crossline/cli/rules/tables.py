"""Rules and their history as people read them: tables and sentences, and the rows that ``--json`` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from crossline.cli.screen import Listing
from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS, format_instant
from crossline.core.rules.holds.release import release_key
from crossline.core.texts.plaintext import printable_lines
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.history import History, event_rule
from crossline.rulelog.publish import Written
from crossline.rulelog.reading import FileRule
from crossline.rulelog.sources.releases import key_said

Row = dict[str, Any]
_CHANGES = ("published", "status_changed")
_IN_FORCE = (*_CHANGES, "tripped", "released")
_UNCHANGED = "unchanged"


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
    """The versions that wait for approval, each as it was said last."""
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
    told = {"status": trip.status, "effective_from": instant(trip.effective_from_ms), "tripped": trip.text}
    return {**_event_row(event, judged), **told}


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
        "body": rule.told(),
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
        "body": rule.told(),
    }


def instant(ms: int | None) -> str | None:
    """An instant as text; None for the beginning and for no end."""
    if ms is None or ms in {BEGINNING_MS, FOREVER_MS}:
        return None
    try:
        return format_instant(ms)
    except OverflowError:
        return f"{ms} ms"


def rules_table(rows: Iterable[Row]) -> Listing:
    """One line a rule."""
    table = Listing("rule", "version", "type", "status", "effective from", "severity", "source")
    for row in rows:
        since = row["effective_from"] or ("" if row["status"] == "draft" else "the beginning")
        cells = (row["rule_id"], str(row["version"]), row["rule_type"], row["status"], since)
        table.add(*cells, row["severity"], row["source"])
    return table


def show_text(row: Row) -> str:
    """What there is to say of a version beside its body."""
    lines = [f"{row['rule_id']} version {row['version']}, {row['rule_type']}, {row['status']}, in {row['source']}"]
    if not row["live"]:
        lines.append("no pipeline has run on it yet")
    elif not row["judges"]:
        lines.append("has judged nothing")
    if row.get("tripped"):
        lines.append(row["tripped"])
    for interval in row["judges"]:
        shadow = ", as shadow" if interval["kind"] == "shadow" else ""
        since, until = interval["from"] or "the beginning", interval["until"]
        lines.append(f"judges records ingested from {since}" + (f" until {until}" if until else " on") + shadow)
    return "\n".join(lines)


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
    if event.event in _IN_FORCE:
        row["effective_from"] = instant(event.effective_from_ms)
    if event.begins_ms is not None:
        row["begins"] = {stream: instant(ms) for stream, ms in event.begins_ms.items()}
    return row


def _since(event: RuleEvent) -> str:
    """From when on it holds. A list holds from an instant of each stream, which are told apart where they differ."""
    if event.event in _IN_FORCE:
        return "" if event.status == "draft" else instant(event.effective_from_ms) or "the beginning"
    if event.event not in {"list_changed", "table_changed"}:
        return ""
    begins = {stream: instant(ms) or "the beginning" for stream, ms in (event.begins_ms or {}).items()}
    if len(set(begins.values())) > 1:
        return ", ".join(f"{stream}: {since}" for stream, since in begins.items())
    return next(iter(begins.values()), "the beginning")


def _named(event: RuleEvent) -> str:
    """The list or table that it happened to, if any."""
    if event.table_name is not None:
        return f"table {event.table_name}"
    return f"list {event.list_name}" if event.list_name is not None else ""


def events_table(events: Iterable[RuleEvent]) -> Listing:
    """One line an event, and more where it has a report."""
    columns = ("at", "event", "rule", "version", "status", "effective from", "source", "what")
    table = Listing(*columns, long=("what",))
    for event in events:
        source = "" if event.source is None else event.source + (f":{event.line}" if event.line else "")
        table.add(
            format_instant(event.at_ms),
            event.event.replace("_", " "),
            event.rule_id or _named(event),
            "" if event.version is None else str(event.version),
            event.status or "",
            _since(event),
            source,
            Text(printable_lines("\n".join(filter(None, (_by(event), _key(event), event.text))))),
        )
    return table


def _key(event: RuleEvent) -> str:
    """Which key is held no more."""
    return "" if event.key is None else key_said(release_key(event.key))


def _by(event: RuleEvent) -> str:
    """Who published it, from where, and who approved."""
    if event.event == "tripped" or (event.sent_ms is None and event.who is None):
        return ""
    said = f"by {event.who or 'nobody who says so'}" + (f" on {event.host}" if event.host else "")
    said += f" at {instant(event.sent_ms)}" if event.sent_ms is not None else ""
    if event.approved_by is not None:
        said += f", approved by {event.approved_by}"
        said += f" at {instant(event.approved_ms)}" if event.approved_ms is not None else ""
    return said


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


def publication_text(rules: Sequence[Written], *, ran: bool) -> str:
    """A line a rule: what was written where, and when it will hold; ``ran``: a pipeline has run on the folder."""
    lines = []
    for each in rules:
        name = f"{each.rule.rule_id} version {each.rule.version}"
        if each.change == _UNCHANGED:
            lines.append(f"{name}: live already, nothing changes")
        else:
            lines.append(f"{name}: {each.rule.status} in {each.file}; {_when(each, ran=ran)}")
    return "".join(f"{line}\n" for line in lines)


def _when(each: Written, *, ran: bool) -> str:
    if each.rule.status == "draft":
        return "a draft is never evaluated"
    asked = instant(each.rule.effective_from)
    if not ran:
        return f"effective from {asked or 'the beginning'}, once a pipeline first starts on it"
    return "effective when the pipeline takes it up, " + (
        f"not before {asked}" if asked else "within a second where it runs, else after its next start"
    )
