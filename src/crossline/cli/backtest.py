"""``crossline backtest``: rules over files of the past."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from crossline.cli.summary import Progress
from crossline.core.errors import UsageError
from crossline.core.rules.ruleset import RuleSet
from crossline.core.schema import StreamSpec, load_streams
from crossline.rulelog.content import read_text
from crossline.rulelog.reading import Known, read_rules


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="backtest", help="Judge files of the past; say what another rule set would change.")(backtest)


def backtest(
    rules: Annotated[Path, typer.Option(help="Rule file or folder.", exists=True)],
    stream: Annotated[Path, typer.Option(help="Stream file.", exists=True, dir_okay=False)],
    input_: Annotated[
        list[str],
        typer.Option("--input", help="Files, folders or globs; NAME=GLOB where the stream file has several streams."),
    ],
    output: Annotated[Path, typer.Option(help="Alerts, as JSON lines.")] = Path("alerts.jsonl"),
    as_of_log: Annotated[
        bool, typer.Option("--as-of-log", help="Use the rule versions that were live, from the rule log.")
    ] = False,
    pipeline: Annotated[str | None, typer.Option(help="Whose rule log, where there are several.")] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Other rules: show what would appear and disappear.", exists=True)
    ] = None,
    lists: Annotated[Path | None, typer.Option(help="Folder of named lists.", exists=True, file_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON on stdout.")] = False,
) -> None:
    """Run the same engine as ``crossline run`` over history."""
    from crossline.engine.runtime.session import build_session
    from crossline.replay.backtest import History
    from crossline.replay.backtest import backtest as replay
    from crossline.rulelog.lists import ListsDirectory

    streams = load_streams(read_text(stream), str(stream))
    history = History(streams, inputs_by_stream(input_, streams))
    named = ListsDirectory(lists).load() if lists else {}
    mine = rules_as_of_log(rules, pipeline) if as_of_log else RuleSet.from_rules(read_rules(rules, Known(streams)))
    other = RuleSet.from_rules(read_rules(compare, Known(streams))) if compare else None
    spark = build_session("backtest")
    progress = Progress(sys.stderr)
    try:
        first = replay(spark, mine, history, output, lists=named, on_batch=progress.batch)
        figures: dict[str, Any] = {
            "records": first.totals.records,
            "alerts": dict(sorted(first.totals.alerts.items())),
            "dead_letters": first.totals.dead,
            "late_records": first.totals.late,
            "output": str(output),
        }
        if other is not None:
            with tempfile.TemporaryDirectory() as folder:
                second = replay(
                    spark, other, history, Path(folder) / "other.jsonl", lists=named, on_batch=progress.batch
                )
                figures["compare"] = differences(output, second.path)
    finally:
        progress.done()
        spark.stop()
    sys.stdout.write(orjson.dumps(figures).decode() + "\n" if as_json else as_text(figures))


def inputs_by_stream(given: list[str], streams: dict[str, StreamSpec]) -> dict[str, list[str]]:
    """Patterns by stream. Raises UsageError where it is not clear which stream a pattern belongs to."""
    inputs: dict[str, list[str]] = {}
    for item in given:
        name, found, pattern = item.partition("=")
        if found and name in streams:
            inputs.setdefault(name, []).append(pattern)
        elif len(streams) == 1:
            inputs.setdefault(next(iter(streams)), []).append(item)
        else:
            raise UsageError(f"--input {item}: the stream file has {', '.join(streams)}; write --input NAME={item}")
    return inputs


def rules_as_of_log(path: Path, pipeline: str | None) -> RuleSet:
    """The versions that were live, each with its interval, from the log beside the rules."""
    from crossline.rulelog.directory import find_log, ruleset_of_log

    log = find_log(path, pipeline)
    if log is None:
        raise UsageError(
            f"{path}: found no rule log; a pipeline that runs these rules writes one (or name it with --pipeline)"
        )
    return ruleset_of_log(log)


def differences(old: Path, new: Path) -> dict[str, Any]:
    """Per rule what appears and disappears with the other rules."""
    from crossline.replay.compare import compare, read_alerts

    found = compare(read_alerts(old), read_alerts(new))
    return {
        rule: {
            "both": d.both,
            "appear": d.appear,
            "disappear": d.disappear,
            "appearing": d.appearing,
            "disappearing": d.disappearing,
        }
        for rule, d in found.items()
    }


def as_text(figures: dict[str, Any]) -> str:
    """The figures as tables."""
    console = Console(file=sys.stdout, highlight=False)
    with console.capture() as captured:
        console.print(f"{figures['records']:,} records, alerts in {figures['output']}")
        table = Table("rule", "alerts")
        for rule, count in figures["alerts"].items():
            table.add_row(rule, f"{count:,}")
        console.print(table)
        for reason, count in figures["dead_letters"].items():
            console.print(f"dead letters: {count:,} {reason}")
        if figures["late_records"]:
            console.print(f"late records, not judged: {figures['late_records']:,}")
        if "compare" in figures:
            console.print("with the other rules:")
            table = Table("rule", "both", "appear", "disappear")
            for rule, d in figures["compare"].items():
                table.add_row(rule, f"{d['both']:,}", f"+{d['appear']:,}", f"-{d['disappear']:,}")
            console.print(table)
    return captured.get()
