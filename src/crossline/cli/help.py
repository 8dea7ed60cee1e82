"""Help pages that fit narrow screens: there, options stand one below the other, and nothing is cut off."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

# Below this, typer's own pages cut off names of options.
_WIDTH_MIN = 80
_INDENT = "    "


class _Fitting:
    """Overrides how a command writes its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page, as wide as the screen."""
        width = shutil.get_terminal_size().columns
        if width >= _WIDTH_MIN:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        else:
            formatter.write("\n".join(_page(self, ctx, width)) + "\n")


def _page(command: Any, context: Any, width: int) -> Iterator[str]:
    yield from wrap(context.get_usage(), width, subsequent_indent=_INDENT)
    for paragraph in (command.help or "").split("\n\n"):
        yield from ("", *wrap(paragraph, width))
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    yield from _section("Arguments and options:", records, width)
    if isinstance(command, TyperGroup):
        names = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        said = [(name, each.get_short_help_str(limit=1_000)) for name, each in names if each is not None]
        yield from _section("Commands:", said, width)


def _section(title: str, records: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    yield from ("", title)
    for name, said in records:
        yield from wrap(f"  {name}", width, subsequent_indent=_INDENT)
        yield from wrap(said, width, initial_indent=_INDENT, subsequent_indent=_INDENT)


class Command(_Fitting, TyperCommand):
    """A command whose help fits."""


class FittedGroup(_Fitting, TyperGroup):
    """Commands under one name, whose help fits."""


class LazyGroup(FittedGroup):
    """Commands each of which is loaded when it is asked for: none waits for what only another one imports.

    ``known``: their names, and what the page that lists them says of each, for which none is loaded.
    """

    known: ClassVar[Mapping[str, str]]
    _listing = False

    @classmethod
    def load(cls, name: str) -> TyperCommand | TyperGroup:
        """The command, with what it imports."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the method's
        """All of them."""
        return list(self.known)

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002 - the method's
        """The command of that name; while they are listed, what the list says of it."""
        if name not in self.known:
            return None
        return Command(name, help=self.known[name]) if self._listing else self.load(name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page, as wide as the screen."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def fit_help(app: typer.Typer) -> None:
    """Let the pages of ``app`` and of all below it fit."""
    app.info.cls = FittedGroup
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = FittedGroup
        if group.typer_instance is not None:
            fit_help(group.typer_instance)
