"""Writes the reference of the command line from its commands.

``python -m tools.docs.commands``
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from crossline.cli.app import app
from tools.docs.markdown import code, table

_HEAD = """\
# Command line

Every command, as its `--help` says it. Exit codes: 0 done, 1 the answer is no or the work failed, 2 wrong use.
"""
_CODE_OR_MARK = re.compile(r"`[^`]*`|[*<]")
_MARKS = {"*": "\\*", "<": "&lt;"}


def page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    return "\n".join([_HEAD, *_options(root, _context(root, "crossline", None)), *_commands(root, "crossline", 2)])


def _commands(group: Any, path: str, level: int) -> Iterator[str]:
    context = _context(group, path, None)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not command.hidden:
            yield from _command(command, f"{path} {name}", level)


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    context = _context(command, path, None)
    yield f"{'#' * level} {path}\n"
    yield f"{_text(command.help)}\n"
    if hasattr(command, "list_commands"):
        yield from _commands(command, path, level + 1)
        return
    yield f"```\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```\n"
    yield from _options(command, context)


def _options(command: Any, context: Any) -> Iterator[str]:
    rows = [_row(each, context) for each in command.get_params(context) if not getattr(each, "hidden", False)]
    yield from table(("argument or option", "meaning"), [row for row in rows if row[0] != "`--help`"])


def _row(parameter: Any, context: Any) -> tuple[str, str]:
    """Names and placeholder of a parameter, and its help with default and range."""
    record = parameter.get_help_record(context)
    names, said = record if record is not None else (parameter.make_metavar(context), "")
    return ", ".join(code(each.strip()) for each in names.split(",")), _text(said)


def _text(said: str | None) -> str:
    """Help as Markdown, with escaped angle brackets and asterisks."""
    paragraphs = (" ".join(each.split()) for each in (said or "").split("\n\n"))
    return _CODE_OR_MARK.sub(lambda found: _MARKS.get(found[0], found[0]), "\n\n".join(paragraphs))


def _context(command: Any, path: str, parent: Any) -> Any:
    return command.context_class(command, info_name=path, parent=parent)


if __name__ == "__main__":
    sys.stdout.write(page())
