"""``crossline rules``: check, list, show and change the rules of a folder, and show which version judged when."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer
import yaml

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import render
from crossline.cli import terminal
from crossline.cli.help import Commands
from crossline.cli.rules.tables import events_table, publication_text, rules_table, show_text
from crossline.cli.rules.topic import (
    PIPELINE,
    As,
    goes_to_topic,
    publish_rules,
    set_status_there,
)
from crossline.cli.terminal import note, write_lines
from crossline.rule_registry.content import FileContent, read_pipeline, read_pipeline_in_place, read_text
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.lists import lists_in
from crossline.rule_registry.outcomes.overview import about, event_row, pending, rule_rows, written_row
from crossline.rule_registry.outcomes.warnings import warnings_of
from crossline.rule_registry.publish import RuleFolder, no_rule
from crossline.rule_registry.rule_files import Known, figures_beside, files_at
from crossline.rule_registry.sources.folders import folder_with_log, folder_with_logs, known_of
from crossline.rules.figure_tables import SharedFigure

# Commands in modules of their own, so that a check does not load the engine.
_ELSEWHERE = {
    "approve": "approval:approve",
    "set-share": "approval:set_share",
    "release": "release:release",
    "publish-list": "topic:publish_list",
    "publish-table": "publish_table:publish_table",
    "test": "trial:try_rules",
    "explain": "explain:explain",
    "lint": "lint:lint",
    "prove": "prove:prove",
    "compare": "compare:compare",
    "shadow": "shadow:shadow",
    "suggest-threshold": "suggest:suggest_threshold",
}
app = Commands(
    {name: f"crossline.cli.rules.{place}" for name, place in _ELSEWHERE.items()},
    help="Check, explain, test, compare, publish and list rules.",
    no_args_is_help=True,
)


class Destination(StrEnum):
    """Where rules are published."""

    FOLDER = "folder"
    KAFKA = "kafka"


class StatusName(StrEnum):
    """The statuses of a rule."""

    DRAFT = "draft"
    SHADOW = "shadow"
    ACTIVE = "active"
    PAUSED = "paused"
    RETIRED = "retired"


Rules = Annotated[Path, typer.Option("--rules", help="Folder of the rule files.")]
Stream = Annotated[Path | None, typer.Option("--stream", help="Stream file to check fields and types against.")]
Lists = Annotated[Path | None, typer.Option("--lists", help="Folder of the named lists that rules refer to.")]
Figures = Annotated[Path | None, typer.Option("--figures", help="Folder of the shared figures, if it is another.")]
PipelineFile = Annotated[
    Path | None,
    typer.Option("--pipeline", help="Pipeline file: rules are checked against its streams, lists and topics."),
]
PipelineName = Annotated[
    str | None, typer.Option("--pipeline", help="Name of the pipeline, where several use the folder.")
]
RuleId = Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Version; by default the highest.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]
To = Annotated[
    Destination | None,
    typer.Option("--to", help="Folder of rules, or the pipeline's control topic; by default as in the pipeline file."),
]
RULES = Path("rules")


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="rules")


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Rule files, or folders of them.")],
    *,
    stream: Stream = None,
    lists: Lists = None,
    figures: Figures = None,
    pipeline: PipelineFile = None,
    as_json: AsJson = False,
) -> None:
    """Check rule files; print every fault, and exit with 1 if there is one."""
    files: dict[str, FileContent] = {}
    for path in paths:
        files |= files_at(path, empty=True)
    accepted, refused = judge_files(files, History(), _known(stream, lists, pipeline, figures))
    problems = [problem for error in refused.values() for problem in error.problems]
    warnings = [each for item in accepted for each in warnings_of(item)]
    shared = len(_shared_figures(files)) if not accepted and not problems else 0
    none = not accepted and not problems and not shared
    if as_json:
        counts = {"files": len(files), "rules": len(accepted), "problems": problems, "warnings": warnings}
        write_lines([orjson.dumps({"ok": not problems and not none, **counts})])
    elif problems:
        sys.stdout.write(render(problems) + "\n")
    for each in () if as_json else warnings:
        note(f"warning: {each.source}:{each.line}: {each.path}: {each.found}; {each.expected}")
    if none:
        note(f"found no rules in {', '.join(map(str, paths))}; expected files with a rule or a list of rules")
    elif not as_json and not problems:
        counted = _counted(shared, "shared figure") if shared else _counted(len(accepted), "rule")
        note(f"{counted} in {_counted(len(files), 'file')}: nothing wrong")
    _note_unchecked(stream, pipeline)
    if problems or none:
        raise typer.Exit(1)


def _shared_figures(files: Mapping[str, FileContent]) -> list[SharedFigure]:
    """Those that stand in ``files``: a folder of them has no rules, and that is no mistake."""
    return [figure for name, content in files.items() for figure, _ in figures_beside(name, content, Known())]


@app.command(name="list")
def list_rules(
    *, rules: Rules = RULES, figures: Figures = None, pipeline: PipelineName = None, as_json: AsJson = False
) -> None:
    """List rules: as they are live, by the rule log; where no pipeline has run yet, as they stand in the folder."""
    folder, events = folder_with_log(rules, pipeline, figures)
    standing, refused = folder.rules()
    rows = rule_rows(events, standing)
    if as_json:
        write_lines(orjson.dumps(row) for row in rows)
    elif rows:
        terminal.show(rules_table(rows))
    else:
        note(f"there are no rules in {rules}")
    if events is None:
        note(f"no pipeline has run on {rules} yet: these are its files")
    else:
        waiting = [each for each in standing if all(history.moves(each.rule) for history in folder.histories)]
        if waiting:
            names = ", ".join(f"{each.rule.rule_id} version {each.rule.version}" for each in waiting)
            note(f"not loaded yet; a running pipeline loads them: {names}")
    for each in pending(events or ()):
        note(str(each.text))
    for source in refused:
        note(f"{rules / source} has errors: crossline rules check {rules / source}")


@app.command()
def show(
    rule_id: RuleId,
    *,
    version: Version = None,
    rules: Rules = RULES,
    figures: Figures = None,
    pipeline: PipelineName = None,
    as_json: AsJson = False,
) -> None:
    """Show a version of a rule: its body, and since when it judges."""
    folder, events = folder_with_log(rules, pipeline, figures)
    rows = [row for row in rule_rows(events, folder.rules()[0], every_version=True) if row["rule_id"] == rule_id]
    chosen = [row for row in rows if version in {None, row["version"]}]
    if not chosen:
        raise no_rule(rule_id, _names(folder), version if rows else None)
    row = chosen[-1]
    if as_json:
        write_lines([orjson.dumps(row)])
    else:
        body = yaml.safe_dump(row["body"], sort_keys=False, allow_unicode=True)
        sys.stdout.write(f"{show_text(row)}\n\n{body}")


@app.command()
def history(
    rule_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Name of the rule; or --all.")] = None,
    *,
    all_rules: Annotated[bool, typer.Option("--all", help="All rules.")] = False,
    rules: Rules = RULES,
    pipeline: PipelineName = None,
    as_json: AsJson = False,
) -> None:
    """Show when versions of rules and lists took effect, and which were refused."""
    if (rule_id is None) != all_rules:
        raise UsageError("name one rule, or give --all")
    folder, events = folder_with_log(rules, pipeline)
    if events is None:
        note(f"no pipeline has run on {rules} yet: there is no history")
        return
    if rule_id is not None and rule_id not in folder.histories[0].rules:
        raise no_rule(rule_id, folder.histories[0].rules)
    mine = events if rule_id is None else about(rule_id, folder.histories[0], events)
    if as_json:
        write_lines(orjson.dumps(event_row(event)) for event in mine)
    else:
        terminal.show(events_table(mine))


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A rule file.")],
    *,
    rules: Rules = RULES,
    stream: Stream = None,
    lists: Lists = None,
    figures: Figures = None,
    pipeline: PipelineFile = None,
    to: To = None,
    as_: As = None,
    as_json: AsJson = False,
) -> None:
    """Put a rule file into the folder or topic, if it is right and may follow what is live; pipelines take it up."""
    if _to_topic(to, pipeline):
        publish_rules(file, pipeline or PIPELINE, as_, as_json=as_json)
        return
    folder = folder_with_logs(rules, _known(stream, lists, pipeline, figures))
    publication = folder.publish(file)
    if as_json:
        write_lines(orjson.dumps(written_row(each)) for each in publication.rules)
    else:
        sys.stdout.write(publication_text(publication.rules, ran=bool(folder.histories)))
    _note_unchecked(stream, pipeline)
    if pipeline is not None and read_pipeline(pipeline).rules.review != "none":
        note("a review is required: a version is effective once another user approves of it: crossline rules approve")
    for name in publication.left_out:
        note(f"rule {name} was in the replaced file: it stays live until its status is set to retired")


@app.command(name="set-status")
def set_status(
    rule_id: RuleId,
    status: Annotated[StatusName, typer.Argument(metavar="STATUS", help="draft, shadow, active, paused or retired.")],
    *,
    version: Version = None,
    rules: Rules = RULES,
    stream: Stream = None,
    figures: Figures = None,
    pipeline: PipelineFile = None,
    to: To = None,
    as_: As = None,
    as_json: AsJson = False,
) -> None:
    """Set a rule's status in its file or message, if the transition is allowed; comments and layout stay."""
    if _to_topic(to, pipeline):
        set_status_there(rule_id, status.value, version, pipeline or PIPELINE, as_, as_json=as_json)
        return
    folder = folder_with_logs(rules, _known(stream, None, pipeline, figures))
    written = folder.set_status(rule_id, status.value, version)
    if as_json:
        write_lines([orjson.dumps(written_row(written))])
    elif written.taken_back is not None:
        undone = f"{written.taken_back}, which no pipeline has loaded, is undone"
        text = f"{rule_id} version {written.rule.version}: {status.value} in {written.file} again"
        sys.stdout.write(f"{text}; {undone}\n")
    elif written.change == "unchanged":
        note(f"{rule_id} version {written.rule.version} is {status.value} already")
    else:
        sys.stdout.write(publication_text([written], ran=bool(folder.histories)))


def _to_topic(to: Destination | None, pipeline: Path | None) -> bool:
    topic = goes_to_topic(pipeline)
    if to is Destination.FOLDER and topic:
        raise UsageError(f"--to folder: {pipeline} has its rules in a topic, and would not find them there")
    return to is Destination.KAFKA or topic


def _known(stream: Path | None, lists: Path | None, pipeline: Path | None, figures: Path | None) -> Known:
    """What rules are checked against: a pipeline file, or a stream file and folders of lists and figures."""
    if pipeline is None:
        streams = None if stream is None else load_streams(read_text(stream), str(stream))
        return Known(streams, _list_names(lists), figures=figures)
    if stream is not None or lists is not None or figures is not None:
        raise UsageError("--pipeline names streams, lists and figures: leave out --stream, --lists and --figures")
    return known_of(read_pipeline_in_place(pipeline))


def _list_names(lists: Path | None) -> list[str] | None:
    return None if lists is None else sorted(lists_in(lists))


def _note_unchecked(stream: Path | None, pipeline: Path | None) -> None:
    if stream is None and pipeline is None:
        note("fields and types were not checked: name the stream file with --stream")


def _names(folder: RuleFolder) -> set[str]:
    standing = {each.rule.rule_id for each in folder.rules()[0]}
    return standing.union(*(history.rules for history in folder.histories))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
