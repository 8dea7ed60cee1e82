"""``crossline rules approve`` and ``set-share``: by which a version goes live, in a topic or in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.share import read_share
from crossline.cli.rules.topic import PIPELINE, As, PipelineFile, approve_there, goes_to_topic, set_share_there
from crossline.cli.terminal.notes import note, write_lines
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.outcomes.overview import written_row
from crossline.rule_registry.rule_files import Known
from crossline.rule_registry.sources.folders import approve_in_folder, folder_with_logs, known_of
from crossline.rule_registry.sources.ownership import user_name
from crossline.settings.sources import ReviewNeed, RulesTopic


def approve(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")],
    *,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Version; by default the highest.")] = None,
    proof: Annotated[
        Path | None, typer.Option("--proof", metavar="FILE", help="The reviewed proof, from rules prove --json.")
    ] = None,
    pipeline: PipelineFile = PIPELINE,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Approve a version that another user published; with review: required it is effective from then on."""
    config = read_pipeline_in_place(pipeline)
    if config.rules.review == "none":
        note(f"{pipeline} does not ask for a review: versions are effective without this")
    if isinstance(config.rules, RulesTopic):
        approve_there(rule_id, version, pipeline, as_, _proof(proof, config.rules.review), as_json=as_json)
        return
    if as_ is not None:
        raise UsageError(f"--as {as_}: of files in a folder who owns them counts; run this as the one who approves")
    path, me = Path(config.rules.path), user_name(os.geteuid())
    figures = Path(config.figures) if config.figures else None
    folder = folder_with_logs(path, Known(config.streams, figures=figures))
    each = approve_in_folder(folder, rule_id, version, me, _proof(proof, config.rules.review))
    row = {"rule_id": rule_id, "version": each.rule.version, "change": "approved", "who": me}
    if as_json:
        write_lines([orjson.dumps(row)])
    else:
        typer.echo(f"{rule_id} version {each.rule.version}: approved by {me}")


def set_share(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")],
    share: Annotated[str, typer.Argument(metavar="SHARE", help="Share of the keys, such as 10%; 0%: none.")],
    *,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Version; by default the highest.")] = None,
    rules: Annotated[Path, typer.Option("--rules", help="Folder of the rule files.")] = Path("rules"),
    pipeline: Annotated[
        Path | None, typer.Option("--pipeline", help="Pipeline file, which names the folder or topic of the rules.")
    ] = None,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Have a version decide about a share of keys; the version before goes on for the others."""
    try:
        wanted = read_share(share)
    except ValueError as error:
        raise UsageError(f"share: found {share}; {error}") from None
    if pipeline is not None and goes_to_topic(pipeline):
        set_share_there(rule_id, wanted, version, pipeline, as_, as_json=as_json)
        return
    if as_ is not None:
        raise UsageError(f"--as {as_}: of files in a folder who owns them counts; run this as the one who sets it")
    config = None if pipeline is None else read_pipeline_in_place(pipeline)
    known = Known() if config is None else known_of(config)
    folder = folder_with_logs(rules if config is None else Path(config.rules.path), known)
    written = folder.set_share(rule_id, wanted, version)
    if as_json:
        write_lines([orjson.dumps(written_row(written))])
    elif written.change == "unchanged":
        note(f"{rule_id} version {written.rule.version} has a share of {wanted} already")
    else:
        typer.echo(f"{rule_id} version {written.rule.version}: {wanted} of keys; effective when a pipeline loads it")


def _proof(file: Path | None, need: ReviewNeed) -> Any:
    """What stands in ``file``. Raises UsageError if there is none and the review asks for one."""
    if file is None:
        if need == "proven":
            raise UsageError("found no --proof; expected the proof of the version, since the review is: proven")
        return None
    try:
        return orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"--proof {file}: found no JSON that can be read ({error})") from None
