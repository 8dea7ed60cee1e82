"""``crossline reshard``: another number of shards for the checkpoint of a pipeline that is stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.terminal.notes import note
from crossline.settings.config import in_folder
from crossline.settings.process.engine import SHARDS_MAX

if TYPE_CHECKING:
    from crossline.runtime.state_log.reshard import Resharded


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="reshard", help="Give the checkpoint of a stopped pipeline another number of shards.")(reshard)


def reshard(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    shards: Annotated[int, typer.Option(min=1, max=SHARDS_MAX, help="The new number of shards.")],
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout.")] = False,
) -> None:
    """Write the state anew, by keys, beside the old one, and put it in its place; ids of alerts stay as they are."""
    from crossline.rule_registry.content import read_pipeline

    config = in_folder(read_pipeline(str(pipeline)), str(pipeline.parent.absolute()))
    place = config.engine.checkpoint
    stored = "://" in place
    place = place if stored else str(Path(place).absolute())
    done = _of_store(place, config.name, shards) if stored else _of_folder(Path(place), config.name, shards)
    body = {"checkpoint": place, "shards": done.shards, "before": done.before}
    if as_json:
        sys.stdout.write(f"{orjson.dumps({**body, 'batches': done.batches, 'bytes': done.bytes}).decode()}\n")
    elif done.before == done.shards:
        note(f"{place}: has {done.shards} shards already")
    else:
        note(f"{place}: {done.before} shards became {done.shards}; {done.batches} batches, {done.bytes:,} bytes")


def _of_folder(folder: Path, name: str, shards: int) -> Resharded:
    from crossline.runtime.snapshot.checkpoint import claim
    from crossline.runtime.state_log import reshard as resharding

    if not folder.is_dir():
        raise _none_at(str(folder))
    held = claim(str(folder))
    try:
        return resharding.reshard(folder, name, shards)
    finally:
        held.release()


def _of_store(uri: str, name: str, shards: int) -> Resharded:
    from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint, is_there
    from crossline.runtime.state_log import reshard as resharding

    if not is_there(uri):
        raise _none_at(uri)
    held = StoredCheckpoint(uri)
    try:
        return resharding.reshard_stored(held, name, shards)
    finally:
        held.release()


def _none_at(place: str) -> UsageError:
    return UsageError(f"{place}: there is no checkpoint; engine.shards sets the number of shards of a new one")
