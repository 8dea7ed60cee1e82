"""``crossline serve PIPELINE``: answer requests for decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossline.core.basics.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    said = "Answer requests for decisions over HTTP; the word may be left out: crossline serve PIPELINE."
    app.command(name="start", help=said)(start)


def start(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one value a line.")] = False,  # noqa: ARG001 - as all have
) -> None:
    """Answer requests for decisions, by the pipeline file's section serve."""
    raise UsageError(f"crossline serve {pipeline}: found no server in this version; expected one that has it")
