"""Help pages for narrow screens, and commands that are loaded on demand.

On a narrow screen options are listed one below the other, and nothing is truncated.
"""

from __future__ import annotations

import copy
import importlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_command_name, get_group
from typer.models import CommandInfo

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
        lines = [(name, each.get_short_help_str(limit=1_000)) for name, each in names if each is not None]
        yield from _section("Commands:", lines, width)


def _section(title: str, records: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    yield from ("", title)
    for name, text in records:
        yield from wrap(f"  {name}", width, subsequent_indent=_INDENT)
        yield from wrap(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT)


class Command(_Fitting, TyperCommand):
    """A command whose help fits."""


class FittedGroup(_Fitting, TyperGroup):
    """Commands under one name, whose help fits."""


def _function(info: CommandInfo) -> str:
    return "" if info.callback is None else info.callback.__name__


class Commands(typer.Typer):
    """A group of commands, of which some are in modules that are loaded on demand.

    ``elsewhere``: by name, ``module:function``; they are listed after those that are added here.
    """

    def __init__(self, elsewhere: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.elsewhere = elsewhere


class _Registered(Mapping[str, Any]):
    """The commands of a group, each created on demand: reading the signatures of all is slow."""

    def __init__(self, app: typer.Typer) -> None:
        self._app = app
        self._infos: dict[str, CommandInfo | str] = {
            each.name or get_command_name(_function(each)): each for each in app.registered_commands
        }
        if isinstance(app, Commands):
            self._infos |= app.elsewhere

    def __getitem__(self, name: str) -> Any:
        found = self._infos[name]
        if isinstance(found, str):
            module, _, function = found.partition(":")
            callback = getattr(importlib.import_module(module), function)
            found = CommandInfo(name, cls=Command, callback=callback)
        return get_command_from_info(
            found,
            pretty_exceptions_short=self._app.pretty_exceptions_short,
            rich_markup_mode=self._app.rich_markup_mode,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


def member_of(part: typer.Typer, name: str) -> Any:
    """The one command or group that ``part`` has, ``name``."""
    fit_help(part)
    whole = part.registered_groups[0].typer_instance if part.registered_groups else None
    if whole is None:
        return get_group(part).commands[name]
    bare = copy.copy(whole)
    bare.registered_commands = []
    part.registered_groups[0].typer_instance = bare
    group: Any = get_group(part).commands[name]
    group.commands = _Registered(whole)
    return group


class LazyGroup(FittedGroup):
    """Commands that are loaded on demand: none waits for the imports of another one.

    ``known``: their names and the texts of the list, for which none is loaded.
    """

    known: ClassVar[Mapping[str, str]]
    _listing = False

    @classmethod
    def load(cls, name: str) -> Any:
        """The command, with what it imports."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the method's
        """All of them."""
        return list(self.known)

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002 - the method's
        """The command of that name; in a listing, its text alone."""
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
    """Let the pages of ``app`` and of all below it fit; a group of a kind of its own stays it."""
    if not (isinstance(app.info.cls, type) and issubclass(app.info.cls, FittedGroup)):
        app.info.cls = FittedGroup
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            fit_help(group.typer_instance)
        group.cls = group.typer_instance.info.cls if group.typer_instance is not None else FittedGroup
