"""``crossline rules approve``: of a version that somebody else published, in a topic or in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.cli.rules.topic import PIPELINE, As, PipelineFile, approve_there
from crossline.cli.screen import note, write_lines
from crossline.core.basics.errors import PermanentError, UsageError
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.sources import RulesTopic
from crossline.rulelog.content import content_in_folder, read_pipeline_in_place
from crossline.rulelog.directory import logs_in
from crossline.rulelog.history import History
from crossline.rulelog.logfile import read_log
from crossline.rulelog.publish import RuleFolder, no_rule
from crossline.rulelog.reading import FileRule, Known
from crossline.rulelog.sources.owned import APPROVALS, owner_of, user_name
from crossline.rulelog.sources.principals import ALPHABET, name_problem, same_principal
from crossline.rulelog.sources.review import approval_text
from crossline.rulelog.writing import held, replace_file

_BYTES_MAX = 4_096


def approve(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")],
    *,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Version; by default the highest.")] = None,
    pipeline: PipelineFile = PIPELINE,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one value a line.")] = False,
) -> None:
    """Approve of a version that somebody else published: with review: required it is effective from then on."""
    config = read_pipeline_in_place(pipeline)
    if config.rules.review != "required":
        note(f"{pipeline} does not ask for a review: versions are effective without this")
    if isinstance(config.rules, RulesTopic):
        approve_there(rule_id, version, pipeline, as_, as_json=as_json)
        return
    if as_ is not None:
        raise UsageError(f"--as {as_}: of files in a folder who owns them counts; run this as the one who approves")
    each, me = _approved(rule_id, version, config), user_name(os.geteuid())
    row = {"rule_id": rule_id, "version": each.rule.version, "change": "approved", "who": me}
    if as_json:
        write_lines([orjson.dumps(row)])
    else:
        typer.echo(f"{rule_id} version {each.rule.version}: approved by {me}")


def _approved(rule_id: str, version: int | None, config: PipelineConfig) -> FileRule:
    """The version of which this user approves; the approval is written."""
    path, me = Path(config.rules.path), user_name(os.geteuid())
    logs = [History(events) for log in logs_in(path).values() if (events := read_log(log))]
    figures = Path(config.figures) if config.figures else None
    folder = RuleFolder(path, logs, Known(config.streams, figures=figures))
    with held(path):
        standing, _ = folder.rules()
        mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
        if not mine:
            raise no_rule(rule_id, {each.rule.rule_id for each in standing}, version)
        each = mine[-1]
        author = owner_of(path / each.source)
        for name in (me, author):
            if name is not None and (problem := name_problem(name)) is not None:
                raise PermanentError(f"found a user who has {problem}; expected one whose name has {ALPHABET}")
        if same_principal(author, me):
            raise PermanentError(
                f"version {each.rule.version} of {rule_id} is {author}'s, whose file {path / each.source} is; expected "
                "another one's approval"
            )
        approvals = path / APPROVALS
        approvals.mkdir(exist_ok=True)
        file = approvals / f"{rule_id}.{each.rule.version}.{me}.json"
        replace_file(file, approval_text(each.rule), content_in_folder(file, _BYTES_MAX))
        return each
