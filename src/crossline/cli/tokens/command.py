"""``crossline tokens``: ``tokens FIELD`` prints tokens; the rotation of the master key stands below it."""

from __future__ import annotations

import importlib
from typing import Any

import typer

from crossline.cli.help import LazyGroup, member_of

MAKE = "make"
HELP = "Print the tokens of values of a sensitive field, for lists, tables, rules and questions; rotate the master key."


class Tokens(LazyGroup):
    """The commands below ``tokens``. What is no name of one is an argument of ``make``: ``crossline tokens FIELD``."""

    known = {  # noqa: RUF012 - as the class above has it
        MAKE: "Print the tokens of values; the word may be left out: crossline tokens FIELD.",
        "rotate": "Wrap the keys of all persons under a new master key; no token changes.",
    }

    @classmethod
    def load(cls, name: str) -> Any:
        """The command ``name``, with what it imports."""
        part = typer.Typer()
        importlib.import_module(f"crossline.cli.tokens.{name}").register(part)
        return member_of(part, name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``make`` before what begins with no name of a command."""
        if args and args[0] not in self.known and args[0] != "--help":
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


def register(parent: typer.Typer) -> None:
    """Add the commands to the command line."""
    app = typer.Typer(cls=Tokens, help=HELP, no_args_is_help=True)
    parent.add_typer(app, name="tokens")
