"""``crossline alerts``: what the store knows: lists, the story of one alert, exports, dead letters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer
from rich.console import Console
from rich.progress import track

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import nearest
from crossline.basics.times import parse_duration_ms
from crossline.cli.alerts.store_options import Db, Pipeline, Since, Until, opened_store, since_until
from crossline.cli.alerts.text import csv_lines, dead_table, list_table, story
from crossline.cli.help import Commands
from crossline.cli.terminal import tables as terminal
from crossline.cli.terminal.notes import note, write_lines
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.jsonl import dead_line
from crossline.io.sinks.outfile import written
from crossline.io.stores.protocol import AlertFilter, Store

# What a store can count to.
LIMIT_MAX = 2**63 - 1

# What judges an alert again stands in a module of its own: a list does not wait for it.
app = Commands(
    {"evidence": "crossline.cli.alerts.evidence:evidence", "counterfactuals": "crossline.cli.alerts.evidence:what_if"},
    help="Read the alerts and dead letters of a store.",
    no_args_is_help=True,
)


class AlertKind(StrEnum):
    """Kinds of alerts."""

    ALERT = "alert"
    CORRECTION = "correction"
    SHADOW = "shadow"


class Severity(StrEnum):
    """Severities, least first."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Format(StrEnum):
    """Forms of an export."""

    JSONL = "jsonl"
    CSV = "csv"


Rule = Annotated[str | None, typer.Option(help="Only alerts of this rule.")]
Key = Annotated[list[str] | None, typer.Option(help="Only alerts whose key has field=value; may be given again.")]
OfKind = Annotated[AlertKind | None, typer.Option(help="Only alerts of this kind.")]
OfSeverity = Annotated[Severity | None, typer.Option(help="Only alerts of this severity.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="alerts")


@app.command(name="list")
def list_alerts(
    *,
    db: Db = None,
    pipeline: Pipeline = None,
    rule: Rule = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    kind: OfKind = None,
    severity: OfSeverity = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="The most alerts to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List alerts, the latest first."""
    which = alert_filter(rule=rule, key=key, since=since, until=until, kind=kind, severity=severity)
    with opened_store(db, pipeline) as reader:
        alerts = list(reader.alerts(which, limit))
        if as_json:
            write_lines(map(json_bytes, alerts))
            return
        if not alerts:
            note(_nothing(reader, which))
            return
        from crossline.cli.alerts.origin import corrections

        last = {each["alert_id"]: corrections(each, reader)[-1:] for each in alerts}
        terminal.show(list_table(alerts, {name: found[0]["outcome"] for name, found in last.items() if found}))
        total = reader.count(which)
    if total > len(alerts):
        note(f"the latest {len(alerts):,} of {total:,} alerts; --limit {total} lists all, export writes them to a file")


@app.command()
def show(
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the alert, or its first characters.")],
    *,
    db: Db = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(help="Pipeline file: its store (unless --db or --alerts names another), its sources and rules."),
    ] = None,
    alerts: Annotated[
        Path | None, typer.Option(help="JSON lines of alerts, from a backtest or a jsonl sink, instead of a store.")
    ] = None,
    stream: Annotated[Path | None, typer.Option(help="Stream file for --input, without a pipeline.")] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="Files with the records; NAME=GLOB for several streams."),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="Rule file or folder, for the fields that rules name; by default those in the store."),
    ] = None,
    records: Annotated[bool, typer.Option(help="Read the records of the alert from their source.")] = True,
    read_for: Annotated[
        str, typer.Option(metavar="DURATION", help="How far to read back for records at most.")
    ] = "10s",
    as_json: AsJson = False,
) -> None:
    """Show how an alert arose: its figures, its records, its rule and its times.

    The records are read from the pipeline's lake, where it has one that covers the alert. Else they are read from the
    source, back from the one at which the alert fired. What neither has, or is not found in time, is reported. An alert
    that the store does not have is read from the lake.
    """
    from crossline.cli.alerts.alert_search import opened
    from crossline.cli.alerts.origin import OriginOptions, corrections, read_origin

    asked = OriginOptions(db, pipeline, alerts, stream, tuple(input_ or ()), rules, _duration("--read-for", read_for))
    with opened(asked) as search:
        found, source = search.find(alert_id)
        for each in found:  # several where pipelines that share the store found the same
            seen = read_origin(asked, each, source, search.lake) if records else None
            later = corrections(each.alert, source)
            if as_json:
                more = {"corrections": later} if later else {}
                write_lines([json_bytes({**each.alert, **more, **(seen.as_json() if seen else {})})])
            else:
                terminal.show(story(each.alert, seen.as_table() if seen else None, later))


@app.command()
def export(
    *,
    db: Db = None,
    pipeline: Pipeline = None,
    rule: Rule = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    kind: OfKind = None,
    severity: OfSeverity = None,
    form: Annotated[Format, typer.Option("--format", help="jsonl has every field; csv is for spreadsheets.")] = (
        Format.JSONL
    ),
    output: Annotated[str, typer.Option(help="File to write; - is standard output.")] = "-",
    as_json: Annotated[bool, typer.Option("--json", help="Summary as JSON; needs --output FILE.")] = False,
) -> None:
    """Write alerts to a file, in order of event time."""
    if as_json and output == "-":
        raise UsageError("--json prints a summary, and standard output has the alerts: add --output FILE")
    which = alert_filter(rule=rule, key=key, since=since, until=until, kind=kind, severity=severity)
    with opened_store(db, pipeline) as reader, _target(output, reader.files) as out:
        total = reader.count(which)
        quiet = output == "-" or not sys.stderr.isatty()
        alerts = track(
            reader.alerts(which, newest_first=False), "exporting", total, console=Console(stderr=True), disable=quiet
        )
        if form is Format.CSV:
            out.writelines(line.encode() for line in csv_lines(alerts))
        else:
            out.writelines(json_bytes(alert) + b"\n" for alert in alerts)
    if as_json:
        write_lines([orjson.dumps({"alerts": total, "format": form.value, "output": output})])
    elif output != "-":
        note(f"{total:,} alerts written to {output}")


@app.command()
def dead(
    *,
    db: Db = None,
    pipeline: Pipeline = None,
    reason: Annotated[str | None, typer.Option(help="Only dead letters of this reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="The most dead letters to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters: records that could not be read, by reason, with their positions."""
    with opened_store(db, pipeline) as reader:
        counts = reader.dead_counts()
        letters = reader.dead_letters(reason, limit)
    if as_json:
        fields = DeadLetter.__dataclass_fields__
        write_lines(orjson.dumps(dead_line(DeadLetter(**{name: row[name] for name in fields}))) for row in letters)
        return
    if not counts:
        note("no dead letters: every record could be read")
    elif reason is not None and reason not in counts:
        note(f"no dead letters for {reason!r}; there are: {', '.join(f'{name} ({n:,})' for name, n in counts.items())}")
    else:
        terminal.show(dead_table(counts, letters))


def alert_filter(
    *,
    rule: str | None,
    key: list[str] | None,
    since: str | None,
    until: str | None,
    kind: AlertKind | None,
    severity: Severity | None,
) -> AlertFilter:
    """The filter that options give. Raises UsageError for an instant or a key that is none."""
    since_ms, until_ms = since_until(since, until)
    return AlertFilter(
        rule_id=rule,
        kind=kind.value if kind else None,
        severity=severity.value if severity else None,
        key=dict(_pair(text) for text in key or ()),
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--key takes field=value, for example account_id=a1; found {text!r}")
    return name, value


def _duration(option: str, text: str) -> float:
    """Seconds."""
    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@contextmanager
def _target(output: str, inputs: Iterable[Path]) -> Iterator[BinaryIO]:
    """Standard output, or what ``output`` names."""
    if output == "-":
        yield sys.stdout.buffer
        return
    with written(Path(output), inputs=inputs) as file:
        yield file


def _nothing(reader: Store, which: AlertFilter) -> str:
    rules = reader.rule_ids()
    if not rules:
        return f"the store {reader.name} has no alerts yet"
    if which.rule_id is not None and which.rule_id not in rules:
        hint = nearest(which.rule_id, rules)
        return f"no alerts of rule {which.rule_id!r}; there are alerts of: {', '.join(rules)}" + (
            f"; {hint}" if hint else ""
        )
    return f"no alert matches; the store has {reader.count(AlertFilter()):,} alerts, of: {', '.join(rules)}"
