"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FOLDER_FILES_MAX = 20
# Of rule types and aggregates there may be any number.
MANY = ("types", "aggregates")
FOLDERS = sorted({path.parent for path in (ROOT / "src").rglob("*.py") if path.parent.name not in MANY})
CODE = ("src", "tests", "bench", "chaos", "tools", "dev")
FILES = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))


def too_long(path: Path) -> list[str]:
    text, name = path.read_text(), path.relative_to(ROOT)
    lines = len(text.splitlines())
    found = [f"{name} has {lines} lines"] if lines > FILE_LINES_MAX else []
    statements: list[ast.AST] = list(ast.parse(text).body)
    while statements:  # no expressions, which are most of a tree: a function stands among statements
        node = statements.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(f"{name}:{node.lineno}: {node.name} has {lines} lines")
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements += getattr(node, part, ()) if isinstance(getattr(node, part, None), list) else ()
    return found


# All in one: a test a file would take longer than what it looks at.
def test_files_and_functions_are_short() -> None:
    assert [found for path in FILES for found in too_long(path)] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_is_seen_at_once(folder: Path) -> None:
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= FOLDER_FILES_MAX


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) > 50
