"""What commands print for people: tables that fit their screen."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from crossline.basics.texts.plaintext import printable

# Wide enough that nothing is cut where no terminal sets a width: the lines go to a file or another program.
_WIDTH_PIPED = 2000
_GAP = 2
# What a column of long texts gets at least; where it cannot have that, the lines of the table are stacked.
_WIDTH_LONG = 16


class _Screen(Console):
    """A console whose closed pipe is an error as any other; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def screen() -> Console:
    """The standard output: as wide as the terminal or COLUMNS, unlimited elsewhere."""
    console = _Screen(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = _WIDTH_PIPED
    return console


def show(*what: RenderableType) -> None:
    """Print to the standard output."""
    console = screen()
    for each in what:
        console.print(each)


def fitted(text: str) -> str:
    """``text`` with its lines broken where the screen is narrower; what follows of a line is indented."""
    width = screen().width
    lines = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()) + _GAP, width // 2)
        wrapped = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
        lines += wrapped or [""]
    return "\n".join(lines)


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(printable(value))


def _width(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


class Listing:
    """A table with a line for each thing; where that does not fit, its fields one below the other.

    ``long``: the columns whose texts may go over several lines. Texts are made printable; nothing is cut off.
    """

    def __init__(self, *columns: str, long: Sequence[str] = ()) -> None:
        self._columns = columns
        self._long = long
        self._rows: list[tuple[list[Text], str]] = []

    def add(self, *cells: str | Text, style: str = "") -> None:
        """A line of it."""
        self._rows.append(([_cell(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The form that fits."""
        yield self._table() if self._needs() <= options.max_width else self._stack()

    def _needs(self) -> int:
        """The least width of the table."""
        total = 0
        for number, name in enumerate(self._columns):
            width = max([cell_len(name), *(_width(cells[number]) for cells, _ in self._rows)])
            total += _GAP + (min(width, _WIDTH_LONG) if name in self._long else width)
        return total - _GAP

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bold", pad_edge=False)
        for name in self._columns:
            table.add_column(name, no_wrap=name not in self._long, overflow="fold")
        for cells, style in self._rows:
            table.add_row(*cells, style=style)
        return table

    def _stack(self) -> Group:
        parts: list[RenderableType] = []
        for cells, style in self._rows:
            filled = [(name, cell) for name, cell in zip(self._columns, cells, strict=True) if cell.plain]
            parts += [*([Text()] if parts else []), NameValues(filled, style)]
        return Group(*parts)


class NameValues:
    """Names, each with its value, one below the other."""

    def __init__(self, pairs: Iterable[tuple[str, str | Text]], style: str = "") -> None:
        self._pairs = [(_cell(name), _cell(value)) for name, value in pairs]
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Two columns; the names get no more than half."""
        widest = max((_width(name) for name, _ in self._pairs), default=0)
        table = Table(box=None, show_header=False, padding=(0, _GAP, 0, 0), pad_edge=False)
        table.add_column(style="dim", width=min(widest, options.max_width // 2 - _GAP), overflow="fold")
        table.add_column(overflow="fold")
        for name, value in self._pairs:
            table.add_row(name, value, style=self._style)
        yield table
