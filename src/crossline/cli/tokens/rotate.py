"""``crossline tokens rotate``: the keys of persons under a new master key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.streams.sensitive import TokenSettings
from crossline.cli.terminal.notes import note
from crossline.cli.tokens.streams import given_streams

if TYPE_CHECKING:
    from crossline.io.tokens.rotation import Rotation

NEW_KEY_ENV = "CROSSLINE_TOKEN_KEY_NEW"


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Wrap the keys of all persons under a new master key; no token changes."
    app.command(name="rotate", help=text)(rotate_command)


def rotate_command(
    *,
    pipeline: Annotated[Path | None, typer.Option("--pipeline", help="Pipeline file, whose streams are meant.")] = None,
    stream_file: Annotated[Path | None, typer.Option("--stream", help="Stream file, in place of a pipeline.")] = None,
    new_key_env: Annotated[
        str | None,
        typer.Option("--new-key-env", metavar="NAME", help=f"Variable with the new master key; default {NEW_KEY_ENV}."),
    ] = None,
    new_key_file: Annotated[
        Path | None, typer.Option("--new-key-file", help="File with the new master key, in place of the variable.")
    ] = None,
    end: Annotated[
        bool,
        typer.Option("--end", help="Close the store to the master key before; every process has the new one."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Wrap the keys of all persons under a new master key; no token changes.

    Pipelines go on beside it. Afterwards both master keys open the store. Put the new one in the place of the one
    before, start every process again, then close the store to the one before: --end. A command that was cut off goes on
    when it is given again.
    """
    from crossline.io.tokens import rotation
    from crossline.io.tokens.master_key import read_master_key
    from crossline.io.tokens.opening import stores_anew

    if end and (new_key_env is not None or new_key_file is not None):
        raise UsageError("found a new master key beside --end; expected one of the two")
    if new_key_env is not None and new_key_file is not None:
        raise UsageError("found both --new-key-env and --new-key-file; expected one of them")
    stores = stores_anew(given_streams(pipeline, stream_file))
    if not stores:
        raise UsageError("found no sensitive field in the streams; expected one: there is no store of keys without")
    if end:
        done = [rotation.end(each) for each in stores]
    else:
        given = str(new_key_file) if new_key_file is not None else None
        name = None if given is not None else new_key_env or NEW_KEY_ENV
        new = read_master_key(TokenSettings(master_key_env=name, master_key_file=given))
        done = [rotation.rotate(each, new) for each in stores]
    for each in done:
        if as_json:
            typer.echo(orjson.dumps(asdict(each)).decode())
        else:
            _show(each)


def _show(done: Rotation) -> None:
    note(f"{done.store}: keys wrapped anew: {done.keys:,}; the store is of master key {done.now}")
    if done.before is None:
        note("no other master key opens the store")
    elif done.ended:
        note(
            f"master key {done.before} opens the store no more: destroy it. It still opens backups of the store that "
            "were made before"
        )
    else:
        note(
            f"master key {done.before} opens the store too: put {done.now} in its place, start every process again, "
            "then run crossline tokens rotate --end"
        )
