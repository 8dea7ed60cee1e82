"""Parts of generated pages: tables, text in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def cell(text: str) -> str:
    """``text`` on one line, for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table and an empty line; nothing if there are no rows."""
    found = [[cell(each) for each in row] for row in rows]
    if not found:
        return
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in found)
    yield ""


def code(text: str) -> str:
    """``text`` as code; an empty text for an empty one."""
    return f"`{text}`" if text else ""
