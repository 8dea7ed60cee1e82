"""``crossline serve``: ``serve PIPELINE`` starts the decision API; all else stands below it."""

from __future__ import annotations

import importlib
from typing import Any

import typer

from crossline.cli.help import LazyGroup, member_of

START = "start"
HELP = "Answer requests for decisions over HTTP, and serve the console; its keys, its users, its audit log."


class Serve(LazyGroup):
    """The commands below ``serve``. What is no name of one is an argument of ``start``: ``crossline serve FILE``."""

    known = {  # noqa: RUF012 - as the class above has it
        START: "Answer requests for decisions over HTTP; the word may be left out: crossline serve PIPELINE.",
        "keys": "Make, list, rotate and revoke API keys.",
        "users": "Make, list, change and disable local users of the console.",
        "audit": "Check the audit log of writes through the API.",
        "openapi": "Print the API as OpenAPI 3.1.",
    }

    @classmethod
    def load(cls, name: str) -> Any:
        """The command ``name``, with what it imports."""
        part = typer.Typer()
        importlib.import_module(f"crossline.cli.serve.{name}").register(part)
        return member_of(part, name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``start`` before what begins with no name of a command."""
        if args and args[0] not in self.known and args[0] != "--help":
            args = [START, *args]
        return super().parse_args(ctx, args)


def register(parent: typer.Typer) -> None:
    """Add the commands to the command line."""
    app = typer.Typer(cls=Serve, help=HELP, no_args_is_help=True)
    parent.add_typer(app, name="serve")
