"""Rules and their history as people read them: tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from crossline.basics.texts.plaintext import printable_lines
from crossline.basics.times import format_instant
from crossline.cli.terminal.tables import Listing
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.outcomes.overview import IN_FORCE, Row, instant
from crossline.rule_registry.publish import Written
from crossline.rule_registry.sources.releases import key_text
from crossline.rules.holds.release import release_key

_UNCHANGED = "unchanged"


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


def _since(event: RuleEvent) -> str:
    """When it takes effect. A list does so at an instant of each stream, listed by stream if these differ."""
    if event.event in IN_FORCE:
        return "" if event.status == "draft" else instant(event.effective_from_ms) or "the beginning"
    if event.event not in {"list_changed", "table_changed", "held"}:
        return ""
    begins = {stream: instant(ms) or "the beginning" for stream, ms in (event.begins_ms or {}).items()}
    if len(set(begins.values())) > 1:
        return ", ".join(f"{stream}: {since}" for stream, since in begins.items())
    return next(iter(begins.values()), "the beginning")


def _named(event: RuleEvent) -> str:
    """The list, table or hold that it happened to, if any."""
    if event.table_name is not None:
        return f"table {event.table_name}"
    if event.hold_id is not None:
        return f"hold {event.hold_id}"
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
    """Which key is held, or held no more."""
    if event.key is None:
        return ""
    key = key_text(release_key(event.key))
    return f"{key}: {event.action} until {instant(event.until_ms)}" if event.event == "held" else key


def _by(event: RuleEvent) -> str:
    """Who published it, from where, and who approved."""
    if event.event == "tripped" or (event.sent_ms is None and event.who is None):
        return ""
    text = f"by {event.who or 'an unknown user'}" + (f" on {event.host}" if event.host else "")
    text += f" at {instant(event.sent_ms)}" if event.sent_ms is not None else ""
    if event.approved_by is not None:
        text += f", approved by {event.approved_by}"
        text += f" at {instant(event.approved_ms)}" if event.approved_ms is not None else ""
    return text


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
    return "effective when the pipeline loads it, " + (
        f"not before {asked}" if asked else "within a second where it runs, else after its next start"
    )
