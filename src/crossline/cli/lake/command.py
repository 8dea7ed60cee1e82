"""``crossline lake``: the commands of the lake."""

from __future__ import annotations

import importlib
from typing import Any

import typer

from crossline.cli.help import LazyGroup, member_of

HELP = "Iceberg tables with every record, alert and decision: write, look into, maintain."


class Lake(LazyGroup):
    """The commands below ``lake``."""

    known = {  # noqa: RUF012 - as the class above has it
        "write": "Follow the committed batches of a pipeline and append them to its tables.",
        "status": "Show the tables: rows, files, bytes, snapshots, and how far the writer is.",
        "gaps": "Show which hours of the lake a live rule has not judged; --fill judges them.",
        "late": "Show what records beyond the allowed lateness would have changed.",
        "at": "Show what was known at an instant: records, alerts, decisions, rules, labels.",
        "parity": "Compare a sample of alerts as stream, API and a replay of the lake have them.",
        "alerts": "List alerts of the lake, of any age, the latest first.",
        "decisions": "List decisions of the lake, of any age, the latest first.",
        "restore": "Make a lost checkpoint from a snapshot of the state in the lake; --list lists them.",
        "maintain": "Merge small files, expire snapshots and old rows, delete orphaned files.",
    }

    @classmethod
    def load(cls, name: str) -> Any:
        """The command ``name``, with what it imports."""
        part = typer.Typer()
        importlib.import_module(f"crossline.cli.lake.{name}").register(part)
        return member_of(part, name)


def register(parent: typer.Typer) -> None:
    """Add the commands to the command line."""
    app = typer.Typer(cls=Lake, help=HELP, no_args_is_help=True)
    parent.add_typer(app, name="lake")
