"""The output of a run: a progress line while it runs, a summary at its end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from crossline.basics.errors import PermanentError
from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.cli.terminal.tables import Listing, fitted, screen

if TYPE_CHECKING:
    from crossline.io.sinks.base import Delivery
    from crossline.rules.ruleset import RuleSet
    from crossline.runtime.work.totals import Totals
    from crossline.settings.config import PipelineConfig as Config

_SHOW_EVERY_S = 0.5
_PROGRESS = "CROSSLINE_PROGRESS"  # `lines`: the process that started the command reads how far it is
# How batches of a pipeline run, as `ran` of its totals has it, and what each way is.
_WAYS = {"in_process": "in a process beside Spark", "one_task": "as one task of Spark", "stages": "as stages of Spark"}
COSTLIEST = 3  # rules that the text of a summary names


class ProgressLine:
    """One line, written over itself on a terminal; silent elsewhere, but for a program that asks for lines."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines = os.environ.get(_PROGRESS) == "lines"
        self._shown_s = 0.0
        self._open = False

    def batch(self, delivery: Delivery, totals: Totals) -> None:
        """A batch was delivered."""
        now = time.monotonic()
        if not (self._lines or self._out.isatty()) or now - self._shown_s < _SHOW_EVERY_S:
            return
        self._shown_s = now
        rate = totals.records / max(now - totals.started_s, 1e-9)
        alerts = sum(totals.alerts.values())
        text = f"{totals.records:,} records, {rate:,.0f}/s, {alerts:,} alerts, {_far(delivery, totals, now)}"
        self.show(text)

    def show(self, text: str) -> None:
        """Write the line anew."""
        if self._lines:
            self._out.write(f"{text}\n")
            self._out.flush()
            return
        if not self._out.isatty():
            return
        self._open = True
        # A line that goes over the edge could not be written over.
        width = shutil.get_terminal_size().columns - 1
        self._out.write(f"\r\x1b[K{text if len(text) <= width else text[: width - 1] + '…'}")
        self._out.flush()

    def done(self) -> None:
        """End the line."""
        if self._open:
            self._open = False
            self._out.write("\n")


def _far(delivery: Delivery, totals: Totals, now_s: float) -> str:
    """How far a run is: which part of all is done and how long the rest takes, or else the batch it is at."""
    if not totals.share:
        return f"batch {delivery.batch_id}"
    left_s = round((now_s - totals.started_s) * (1 / totals.share - 1))
    return f"{totals.share:.0%}, {left_s // 60}:{left_s % 60:02} left"


def without_row(missed: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """By table, how many records it had no row for; nothing where rules read no table."""
    return {"without_row": dict(sorted(missed.items()))} if missed else {}


def cost_json(totals: Totals) -> dict[str, dict[str, float]]:
    """Processor time of judging by rule version, the costliest first; nothing where nothing was judged."""
    return {"cost_ms": {rule: round(ms, 1) for rule, ms in totals.costliest}} if totals.cost_ms else {}


def summary_json(config: Config, totals: Totals, start_ms: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The figures of a run; ``start_ms``: what its start was spent on, by step."""
    elapsed_s = max(0.0, totals.ended_s - totals.first_s)  # stopped in its first batch, it has begun and not ended
    return {
        "pipeline": config.name,
        "records": totals.records,
        "batches": totals.batches,
        **({"batches_run": {way: totals.ran.get(way, 0) for way in _WAYS}} if totals.ran else {}),
        "elapsed_ms": round(elapsed_s * 1000),
        "records_per_s": round(totals.records / elapsed_s) if elapsed_s > 0 else None,
        "alerts": dict(sorted(totals.alerts.items())),
        **({"decisions": dict(sorted(totals.decisions.items()))} if config.policy is not None else {}),
        "dead_letters": dict(sorted(totals.dead.items())),
        "late_records": totals.late,
        **without_row(totals.missed),
        **({"without_context": dict(sorted(totals.without_context.items()))} if totals.without_context else {}),
        **cost_json(totals),
        **({"refused": [refusal_json(each) for each in totals.refused]} if totals.refused else {}),
        **({"waiting": dict(sorted(totals.waiting.items()))} if totals.waiting else {}),
        "left": totals.left,
        "start_ms": dict(start_ms or {}),
        "results": [str(getattr(sink, "path", sink.kind)) for sink in config.sinks],
    }


def _ways(totals: Totals) -> str:
    """How many batches ran which way."""
    return ", ".join(f"{totals.ran[way]:,} {text}" for way, text in _WAYS.items() if totals.ran.get(way))


def refusal_json(event: Mapping[str, Any]) -> dict[str, Any]:
    """What is refused: its file or message, how many rules that takes, and why."""
    of_rules = "list_name" not in event and "table_name" not in event
    rules = {"rules": event["count"]} if of_rules and "count" in event else {}
    return {"source": event["source"], **rules, "text": event["text"]}


def refused_lines(event: Mapping[str, Any]) -> list[str]:
    """The same, to read: a line, and the report on what is wrong below it."""
    figures = refusal_json(event)
    count = figures.get("rules")
    lost = "" if not count else f", and with it its {'only rule' if count == 1 else f'{count:,} rules'}"
    return [f"refused: {figures['source']}{lost}", *(f"  {line}" for line in figures["text"].splitlines() if line)]


def costs_text(totals: Totals) -> list[str]:
    """The costliest of several rules: what each cost a record, and how much of the time of all rules that is."""
    whole_ms = sum(totals.cost_ms.values())
    if len(totals.cost_ms) < 2 or not whole_ms or not totals.records:
        return []
    costliest = totals.costliest[:COSTLIEST]
    lines = (f"{name} {ms / totals.records * 1e6:,.0f} ns ({ms / whole_ms:.0%})" for name, ms in costliest)
    return [f"costliest rules, processor time a record: {', '.join(lines)}"]


def summary_text(config: Config, totals: Totals, start_ms: Mapping[str, int] | None = None) -> str:
    """The figures of a run, to read."""
    figures = summary_json(config, totals, start_ms)
    steps = ", ".join(f"{name} {ms / 1000:.1f} s" for name, ms in figures["start_ms"].items())
    lines = [
        f"pipeline {config.name}: {figures['records']:,} records in {figures['elapsed_ms'] / 1000:.1f} s"
        + (f" ({figures['records_per_s']:,} records/s)" if figures["records_per_s"] else ""),
        *([f"batches: {figures['batches']:,} ({_ways(totals)})"] if totals.ran else []),
        *([f"started in {sum(figures['start_ms'].values()) / 1000:.1f} s: {steps}"] if steps else []),
        f"alerts: {sum(figures['alerts'].values()):,}",
        *(f"  {count:>9,}  {rule}" for rule, count in figures["alerts"].items()),
    ]
    if figures.get("decisions"):
        lines.append(f"decisions on records with hits: {sum(figures['decisions'].values()):,}")
        lines += [f"  {count:>9,}  {decision}" for decision, count in figures["decisions"].items()]
    if figures["dead_letters"]:
        lines.append(f"dead letters: {sum(figures['dead_letters'].values()):,}")
        lines += [f"  {count:>9,}  {reason}" for reason, count in figures["dead_letters"].items()]
    if figures["late_records"]:
        lines.append(f"late records (not judged, written to the store): {figures['late_records']:,}")
    lines += [
        f"records that never got the context of rule {rule}: {count:,}"
        for rule, count in figures.get("without_context", {}).items()
    ]
    lines += [
        f"records without a row in table {table}: {count:,}" for table, count in figures.get("without_row", {}).items()
    ]
    lines += costs_text(totals)
    lines += [
        f"waiting in the topics of stream {stream}: {count:,} records"
        for stream, count in figures.get("waiting", {}).items()
    ]
    lines += [f"left for the next run: {text}" for text in figures["left"]]
    lines += [line for event in totals.refused for line in refused_lines(event)]
    lines.append(f"results: {', '.join(figures['results'])}")
    return fitted(printable_lines("\n".join(lines)))


def check_some_judged(records: int, dead: Mapping[str, int]) -> None:
    """Raises PermanentError if all records were dead letters: then there is no result."""
    if dead and not records:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dead.items()))
        raise PermanentError(f"every record was a dead letter, and none was judged: {counts}")


def recorded_only(rules: RuleSet) -> dict[str, list[str]]:
    """The rules whose alerts no sink gets; nothing where all are delivered."""
    each = (version.rule for version in rules.versions)
    names = {rule.rule_id for rule in each if getattr(rule, "emit_to_sink", True) is False}
    return {"recorded_only": sorted(names)} if names else {}


def first_dead(figures: Mapping[str, Any]) -> list[str]:
    """The dead letters by reason, of each the first."""
    first = figures.get("first_dead", {})
    return [
        f"{count:,} {reason}{f' (the first: {first[reason]})' if reason in first else ''}"
        for reason, count in figures["dead_letters"].items()
    ]


def differences(old: Path, new: Path) -> dict[str, Any]:
    """Per rule what appears and disappears with the other rules."""
    from crossline.backtest.compare import compare, read_alerts

    found = compare(read_alerts(old), read_alerts(new))
    columns = ("both", "appear", "disappear", "appearing", "disappearing")
    return {rule: {name: getattr(d, name) for name in columns} for rule, d in found.items()}


def as_text(figures: dict[str, Any]) -> str:
    """The figures of a backtest as tables."""
    recorded = set(figures.get("recorded_only", ())) & set(figures["alerts"])
    alerts = Listing("rule", "alerts", *(["to"] if recorded else []))
    for rule, count in figures["alerts"].items():
        to = "no sink: emit_to_sink is false" if rule in recorded else "the sinks"
        alerts.add(rule, f"{count:,}", *([to] if recorded else []))
    console = screen()
    with console.capture() as captured:
        console.print(Text(printable(f"{figures['records']:,} records, alerts in {figures['output']}")))
        console.print(alerts)
        for decision, count in figures.get("decisions", {}).items():
            console.print(f"decisions: {count:,} {decision}")
        for text in first_dead(figures):
            console.print(Text(printable(f"dead letters: {text}")))
        if figures["late_records"]:
            console.print(f"late records, not judged: {figures['late_records']:,}")
        for table, count in figures.get("without_row", {}).items():
            console.print(f"records without a row in table {table}: {count:,}")
        if "compare" in figures:
            console.print("with the other rules:")
            changes = Listing("rule", "both", "appear", "disappear")
            for rule, d in figures["compare"].items():
                changes.add(rule, f"{d['both']:,}", f"+{d['appear']:,}", f"-{d['disappear']:,}")
            console.print(changes)
            for line in _changed(figures["compare"]):
                console.print(Text(printable(line)))
    return captured.get()


def _changed(compared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What appears and disappears, some of each, and how many more there are."""
    for rule, each in compared.items():
        for word, samples in (("appear", "appearing"), ("disappear", "disappearing")):
            for alert in each[samples]:
                yield f"{word}s: {rule} at {alert['record_id']}, {alert['event_time']}: {alert['message']}"
            if each[samples] and (more := each[word] - len(each[samples])) > 0:
                yield f"{word}{'s' if more == 1 else ''}: {rule} at {more:,} more"
