"""Alerts and dead letters as people read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from crossline.basics.texts.plaintext import printable, printable_json, spreadsheet_cell
from crossline.basics.times import format_duration, parse_instant_ms
from crossline.cli.terminal.tables import Listing, NameValues
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.console import SEVERITY_STYLE, alert_line

_ID_WIDTH = 8
_RAW_WIDTH = 60
_DAY_MS = 86_400_000


def list_table(alerts: Sequence[Mapping[str, Any]], became: Mapping[str, str] | None = None) -> Listing:
    """One line an alert, with the start of its id; ``became``: by id what the last word on an alert is, if any."""
    table = Listing("id", "happened", "severity", "rule", "what", long=("rule", "what"))
    for alert in alerts:
        lines = [] if alert["kind"] == "alert" else [alert["kind"]]
        lines += [outcome] if (outcome := (became or {}).get(alert["alert_id"])) is not None else []
        kind = f" ({', '.join(lines)})" if lines else ""
        table.add(
            Text(printable(alert["alert_id"][:_ID_WIDTH]), "cyan"),
            Text(printable(alert["event_time"]), "dim"),
            _severity(alert),
            f"{alert['rule_id']}@{alert['rule_version']}{kind}",
            alert["message"],
        )
    return table


def candidates(alerts: Sequence[Mapping[str, Any]]) -> str:
    """Alerts to choose from, one a line, with their whole ids."""
    return "\n".join(f"  {alert['alert_id']}  {alert_line(alert).plain}" for alert in alerts)


def story(
    alert: Mapping[str, Any],
    records: RenderableType | None = None,
    corrections: Iterable[Mapping[str, Any]] = (),
) -> RenderableType:
    """How ``alert`` came about, and what became of it in ``corrections``.

    ``records``: its records, if they were read; else their ids are printed.
    """
    rule = printable(f"{alert['rule_id']}@{alert['rule_version']}")
    head = Text.assemble((rule, "bold"), "  ", _severity(alert), f"  {printable(alert['kind'])}\n")
    head.append(printable(alert["message"]) + "\n")
    became = map(_became, corrections)
    rests_on = (*_rests_on(alert), *(() if records else _ids(alert)))
    head_text = Group(head, NameValues([*_subject_rows(alert), *became, *_when(alert), *rests_on]))
    return head_text if records is None else Group(head_text, Text(), records)


def _subject_rows(alert: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "alert", alert["alert_id"]
    if alert["corrects"] is not None:
        yield "corrects", str(alert["corrects"])
        yield _became(alert)
    yield "asks for", f"{alert['action']} (score {_figure(alert['score'])})"
    for name, value in alert["key"].items():
        yield name, _figure(value)
    yield "record", f"{alert['record_id']} of {alert['stream']}"
    for number, (name, value) in enumerate(_flat(alert.get("record") or {})):
        yield ("" if number else "carries"), f"{name} {'missing' if value is None else _figure(value)}"
    if alert["threshold"] is not None:
        yield "line", f"{_figure(alert['value'])} {alert['operator']} {_figure(alert['threshold'])}"
    elif alert["value"] is not None:
        yield "value", _figure(alert["value"])
    if alert["window_start"] is not None:
        length_ms = parse_instant_ms(alert["window_end"]) - parse_instant_ms(alert["window_start"])
        yield "window", f"{alert['window_start']} to {alert['window_end']} ({format_duration(length_ms)})"
    for name in ("owner", "sink_topic"):
        if alert.get(name):
            yield name.replace("_", " "), str(alert[name])
    if alert.get("tags"):
        yield "tags", ", ".join(alert["tags"])


def _flat(record: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a record by their dotted names."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{outer}{name}.")
        else:
            yield f"{outer}{name}", value


def _became(correction: Mapping[str, Any]) -> tuple[str, str]:
    """What a correction makes of an alert."""
    before, now = correction.get("value_before"), correction["value"]
    values = f"; {_figure(before)} before, {_figure(now)} now" if correction["outcome"] == "amended" else ""
    return str(correction["outcome"]), f"by record {correction['caused_by']}{values}"


def _when(alert: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The instants on its way, each with the time since the one before."""
    before = None
    steps = (("happened", "event_time"), ("ingested", "ingest_time"))
    for name, field in (*steps, ("detected", "detected_at"), ("delivered", "delivered_at")):
        if alert[field] is None:
            continue
        instant = parse_instant_ms(alert[field])
        # Records of the past are detected long after: the latency means nothing there.
        after = before is not None and 0 <= instant - before < _DAY_MS
        yield name, alert[field] + (f"  (+{format_duration(instant - before)})" if after and before is not None else "")
        before = instant


_EVIDENCE = frozenset(
    {"count", "record_ids", "records", "figures", "fields", "steps"}
)  # what else there is, has a name


def _rests_on(alert: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    evidence = alert["evidence"]
    for name, value in (evidence.get("figures") or {}).items():
        yield name, _read(value) if isinstance(value, Mapping) else _figure(value)
    for name, value in (evidence.get("fields") or {}).items():
        yield name, "missing" if value is None else _figure(value)
    for step in evidence.get("steps") or ():
        yield step["name"], ", ".join(map(_figure, step["record_ids"]))
    yield from ((name, _figure(value)) for name, value in evidence.items() if name not in _EVIDENCE)
    ids, count = evidence["record_ids"], evidence["count"]
    more = f", of which the last {len(ids):,}" if count is not None and count > len(ids) else ""
    yield "rests on", f"{len(ids) if count is None else count:,} record{'' if count == 1 else 's'}{more}"


def _read(figure: Mapping[str, Any]) -> str:
    """A figure that a formula read, with its window."""
    value = "missing" if figure["value"] is None else _figure(figure["value"])
    count, start, end = figure["count"], figure["window_start"], figure["window_end"]
    length = format_duration(parse_instant_ms(end) - parse_instant_ms(start))
    return f"{value}  (of {count:,} record{'' if count == 1 else 's'}; {length} to {end})"


def _ids(alert: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    evidence = alert["evidence"]
    shown = {record.get("record_id"): record for record in evidence.get("records") or ()}
    for number, record_id in enumerate(evidence["record_ids"], 1):
        rest = {name: value for name, value in shown.get(record_id, {}).items() if name != "record_id"}
        yield "", f"{number:>3}  {record_id}" + "".join(f"  {name} {_figure(value)}" for name, value in rest.items())


def _figure(value: Any) -> str:
    return value if isinstance(value, str) else json_bytes(value).decode()


_CSV_FIELDS = (
    *("alert_id", "kind", "rule_id", "rule_version", "rule_type", "severity", "score", "action", "key", "stream"),
    *("record_id", "event_time", "ingest_time", "value", "operator", "threshold", "window_start", "window_end"),
    *("evidence_count", "evidence_record_ids", "message", "corrects", "detected_at", "delivered_at", "record"),
)


def csv_lines(alerts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A header and one line an alert; ``key``, ``evidence_record_ids`` and ``record`` as JSON, what is null left empty.

    Control characters are written out, and no spreadsheet runs a cell; a figure is a number as it stands.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV_FIELDS)
    for alert in alerts:
        evidence = alert["evidence"]
        cells = {
            **{name: spreadsheet_cell(cell) if isinstance(cell, str) else cell for name, cell in alert.items()},
            "key": _json(alert["key"]),
            "evidence_count": evidence["count"],
            "evidence_record_ids": _json(evidence["record_ids"]),
            "record": _json(alert["record"]) if "record" in alert else "",
        }
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        writer.writerow([cells[name] for name in _CSV_FIELDS])
    yield buffer.getvalue()


def _json(value: Any) -> str:
    return printable_json(json_bytes(value).decode())


def dead_table(counts: Mapping[str, int], letters: Sequence[Mapping[str, Any]]) -> RenderableType:
    """How many of each reason, and the letters with their places."""
    totals = Listing("reason", "dead letters")
    for reason, count in counts.items():
        totals.add(reason, f"{count:,}")
    table = Listing("reason", "where", "detail", "bytes", long=("where", "detail", "bytes"))
    for letter in letters:
        place = f"{letter['stream']} {letter['partition']}:{letter['offset']}"
        table.add(letter["reason"], place, letter["detail"], _crop(letter["raw"]))
    return Group(totals, Text(), table)


def _crop(raw: bytes | None) -> str:
    if raw is None:
        return "(in the source)"
    text = raw[: _RAW_WIDTH * 4].decode(errors="backslashreplace")
    return text if len(text) <= _RAW_WIDTH else text[: _RAW_WIDTH - 1] + "…"


def _severity(alert: Mapping[str, Any]) -> Text:
    return Text(printable(alert["severity"]), SEVERITY_STYLE.get(alert["severity"], ""))
