"""``crossline rules list``, ``show``, ``history``, ``publish``, ``set-status``: the rules of a folder and their log."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer
import yaml

from crossline.basics.errors import UsageError
from crossline.cli.rules.check import AsJson, Figures, Lists, PipelineFile, Stream, known, note_unchecked
from crossline.cli.rules.tables import events_table, publication_text, rules_table, show_text
from crossline.cli.rules.topic import (
    PIPELINE,
    As,
    goes_to_topic,
    publish_rules,
    set_status_there,
)
from crossline.cli.terminal import tables as terminal
from crossline.cli.terminal.notes import note, write_lines
from crossline.rule_registry.content import read_pipeline
from crossline.rule_registry.outcomes.overview import about, event_row, pending, rule_rows, written_row
from crossline.rule_registry.publish import RuleFolder, no_rule
from crossline.rule_registry.sources.folders import folder_with_log, folder_with_logs


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
PipelineName = Annotated[
    str | None, typer.Option("--pipeline", help="Name of the pipeline, where several use the folder.")
]
RuleId = Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Version; by default the highest.")]
To = Annotated[
    Destination | None,
    typer.Option("--to", help="Folder of rules, or the pipeline's control topic; by default as in the pipeline file."),
]
RULES = Path("rules")


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
    folder = folder_with_logs(rules, known(stream, lists, pipeline, figures))
    publication = folder.publish(file)
    if as_json:
        write_lines(orjson.dumps(written_row(each)) for each in publication.rules)
    else:
        sys.stdout.write(publication_text(publication.rules, ran=bool(folder.histories)))
    note_unchecked(stream, pipeline)
    if pipeline is not None and read_pipeline(pipeline).rules.review != "none":
        note("a review is required: a version is effective once another user approves of it: crossline rules approve")
    for name in publication.left_out:
        note(f"rule {name} was in the replaced file: it stays live until its status is set to retired")


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
    folder = folder_with_logs(rules, known(stream, None, pipeline, figures))
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


def _names(folder: RuleFolder) -> set[str]:
    standing = {each.rule.rule_id for each in folder.rules()[0]}
    return standing.union(*(history.rules for history in folder.histories))
