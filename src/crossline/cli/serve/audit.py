"""``crossline serve audit``: check the log of what was written through the API."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from crossline.basics.errors import PermanentError
from crossline.cli.serve.setting import PIPELINE, AsJson, PipelineFile, audit_folder, serve_settings
from crossline.cli.terminal.notes import note, write_lines
from crossline.serve.access import audit
from crossline.serve.access.auditfiles import FILE, parts_of

app = typer.Typer(help="Check the audit log of writes through the API.", no_args_is_help=True)


@app.callback()
def audit_log() -> None:
    """Nothing of its own; it makes the one command below one that is named."""


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="audit")


@app.command()
def verify(
    *,
    head: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Last digest of an earlier check; it must still be in the log.")
    ] = None,
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Follow the chain of the audit log; exit with 1 if a line was altered, removed or added."""
    path = audit_folder(serve_settings(pipeline)[1]) / FILE
    if head is None and not path.exists() and not parts_of(path):
        note(f"there is no audit log at {path}: nothing was written yet")
        return
    found = audit.verify(path, head)
    if as_json:
        body = {"events": found.events, "head": found.head, "problems": found.problems}
        more = {"open_writes": found.open_writes, "torn_bytes": found.torn, "erased": found.erased}
        write_lines([orjson.dumps(body | more)])
        if found.problems:
            raise typer.Exit(1)
        return
    if found.problems:
        raise PermanentError("\n".join([f"{path}: the chain does not hold", *found.problems[:100]]))
    typer.echo(f"{found.events:,} events, the chain holds; the last digest is {found.head}")
    if found.open_writes:
        note(f"of writes {', '.join(map(str, found.open_writes[:20]))} it is not known how they ended")
    if found.torn:
        note(f"half a line of {found.torn:,} bytes stands at the end, as a kill leaves it")
    if found.erased:
        note(f"of {found.erased:,} events a person was erased: their place is proven, what is left of them is not")
