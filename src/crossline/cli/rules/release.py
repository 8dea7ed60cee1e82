"""``crossline rules release``: what alerts of a rule hold is held no more, in a topic or in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.rules.topic import As, goes_to_topic, release_there
from crossline.cli.terminal.notes import write_lines
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.sources.folders import release_in_folder
from crossline.rule_registry.sources.ownership import user_name
from crossline.rule_registry.sources.releases import key_text, release_text
from crossline.rules.holds.release import release_key


def release(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the rule.")],
    *,
    key: Annotated[
        list[str],
        typer.Option("--key", metavar="FIELD=VALUE", help="The key, field=value; given again for each of its fields."),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason for the release.")],
    rules: Annotated[Path, typer.Option("--rules", help="Folder of the rule files.")] = Path("rules"),
    figures: Annotated[
        Path | None,
        typer.Option("--figures", help="Folder of the shared figures, if it is another."),
    ] = None,
    pipeline: Annotated[
        Path | None, typer.Option("--pipeline", help="Pipeline file, which names the folder or topic of the rules.")
    ] = None,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Release a key: records that come from then on are not held by alerts that came before."""
    wanted, why, now_ms = release_key(key_given(key)), reason.strip(), time.time_ns() // 1_000_000
    if not why:
        raise UsageError("found no reason; expected why the key is held no more: --reason TEXT")
    if pipeline is not None and goes_to_topic(pipeline):
        release_there(rule_id, wanted, why, pipeline, as_, as_json=as_json, now_ms=now_ms)
        return
    if as_ is not None:
        raise UsageError(f"--as {as_}: of files in a folder who owns them counts; run this as the one who releases")
    if pipeline is not None:
        config = read_pipeline_in_place(pipeline)
        rules, figures = Path(config.rules.path), Path(config.figures) if config.figures else None
    who = user_name(os.geteuid())
    release_in_folder(rules, figures, rule_id, wanted, release_text(rule_id, wanted, why, now_ms))
    if as_json:
        write_lines([orjson.dumps({"rule_id": rule_id, "released": dict(wanted), "reason": why, "who": who})])
    else:
        typer.echo(f"{rule_id}, {key_text(wanted)}: released by {who}; effective when a pipeline loads it")


def key_given(texts: Sequence[str]) -> dict[str, str]:
    """The fields of a key as the command line names them. Raises UsageError if they name none."""
    found: dict[str, str] = {}
    for name, value in map(_pair, texts):
        if found.setdefault(name, value) != value:
            raise UsageError(f"--key: found {name}={found[name]} and {name}={value}; expected one key, each field once")
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--key takes field=value, for example account_id=a1; found {text!r}")
    return name, value
