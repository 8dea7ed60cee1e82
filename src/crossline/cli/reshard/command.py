"""``crossline reshard``: another number of shards for the checkpoint of a pipeline that is stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.cli.screen import note
from crossline.core.basics.errors import UsageError
from crossline.core.settings.config import SHARDS_MAX, in_folder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="reshard", help="Give the checkpoint of a stopped pipeline another number of shards.")(reshard)


def reshard(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    shards: Annotated[int, typer.Option(min=1, max=SHARDS_MAX, help="How many shards it is to have.")],
    as_json: Annotated[bool, typer.Option("--json", help="What was done as JSON on stdout.")] = False,
) -> None:
    """Write the state anew, by keys, beside the old one, and put it in its place; ids of alerts stay as they are."""
    from crossline.engine.book.checkpoint import claim
    from crossline.engine.state import reshard as resharding
    from crossline.rulelog.content import read_pipeline

    config = in_folder(read_pipeline(str(pipeline)), str(pipeline.parent.absolute()))
    if "://" in config.engine.checkpoint:
        raise UsageError(
            f"engine.checkpoint: found {config.engine.checkpoint}, expected a folder: a checkpoint on a store "
            "keeps the number of shards that it began with, in this version"
        )
    folder = Path(config.engine.checkpoint).absolute()
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no checkpoint; engine.shards says how many shards a new one has")
    held = claim(str(folder))
    try:
        done = resharding.reshard(folder, config.name, shards)
    finally:
        held.release()
    said = {"checkpoint": str(folder), "shards": done.shards, "before": done.before}
    if as_json:
        sys.stdout.write(f"{orjson.dumps({**said, 'batches': done.batches, 'bytes': done.bytes}).decode()}\n")
    elif done.before == done.shards:
        note(f"{folder}: has {done.shards} shards already")
    else:
        note(f"{folder}: {done.before} shards became {done.shards}; {done.batches} batches, {done.bytes:,} bytes")
