"""``crossline backtest``: rules over files of the past."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from crossline.cli.stopping import Stopping, stoppable
from crossline.cli.summary import Progress
from crossline.core.errors import UsageError
from crossline.core.rules.ruleset import RuleSet, load_rules_text
from crossline.core.schema import StreamSpec, load_streams

if TYPE_CHECKING:
    from crossline.replay.backtest import History

Lists = Mapping[str, Sequence[Any]]
RULE_SUFFIXES = (".yaml", ".yml", ".json")


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
    from crossline.replay.backtest import History
    from crossline.rulelog.lists import ListsDirectory

    streams = load_streams(stream.read_text(encoding="utf-8"), str(stream))
    history = History(streams, inputs_by_stream(input_, streams))
    named = ListsDirectory(lists).load() if lists else {}
    mine = rules_as_of_log(rules, pipeline) if as_of_log else read_rules(rules, streams)
    other = read_rules(compare, streams) if compare else None
    with stoppable() as stopping:
        figures = _figures(stopping, (mine, other), history, output, named)
    sys.stdout.write(orjson.dumps(figures).decode() + "\n" if as_json else as_text(figures))


def _figures(
    stopping: Stopping, rules: tuple[RuleSet, RuleSet | None], history: History, output: Path, named: Lists
) -> dict[str, Any]:
    """Judge ``history`` by the first rules, and compare with the second where there are such."""
    from crossline.engine.runtime.gateway import end_session
    from crossline.engine.runtime.session import build_session
    from crossline.engine.runtime.temp import own_folder_for
    from crossline.replay.backtest import backtest as replay

    spark = build_session("backtest")
    progress = Progress(sys.stderr)
    mine, other = rules
    judge = partial(replay, spark, lists=named, on_batch=progress.batch, on_start=stopping.stops)
    try:
        stopping.check()
        first = judge(mine, history, output)
        figures: dict[str, Any] = {
            "records": first.totals.records,
            "alerts": dict(sorted(first.totals.alerts.items())),
            "dead_letters": first.totals.dead,
            "late_records": first.totals.late,
            "output": str(output),
        }
        if other is not None:
            with own_folder_for("compare") as folder:
                second = judge(other, history, folder / "other.jsonl")
                figures["compare"] = differences(output, second.path)
    finally:
        progress.done()
        end_session(spark)
    return figures


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


def read_rules(path: Path, streams: dict[str, StreamSpec]) -> RuleSet:
    """The rules of a file, or of all rule files of a folder."""
    files = sorted(p for p in path.iterdir() if p.suffix in RULE_SUFFIXES) if path.is_dir() else [path]
    loaded = [item.rule for f in files for item in load_rules_text(f.read_text(encoding="utf-8"), str(f), streams)]
    if not loaded:
        raise UsageError(f"{path}: found no rules; expected rule files ({', '.join(RULE_SUFFIXES)})")
    return RuleSet.from_rules(loaded)


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
