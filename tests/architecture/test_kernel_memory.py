"""Kernels get and put by declared names; only the memory's own package picks loads and stores by their width."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

STATE = Path(__file__).parents[2] / "src" / "crossline" / "state"
WIDTHS = {"u8", "i32", "u32", "i64", "f64", "fixed", "8", "32", "64"}
OWN = STATE / "memory"
KERNELS = [
    path
    for name in ("windows", "panes", "patterns", "records", "arithmetic")
    for path in sorted((STATE / name).rglob("*.py"))
    if OWN not in path.parents
]


def picked(path: Path) -> list[str]:
    """The names of loads and stores of one width that a file imports."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
    names = [alias.name for node in nodes for alias in node.names]
    return [name for name in names if name.partition("_")[0] in {"load", "store"} and name.partition("_")[2] in WIDTHS]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: str(path.relative_to(STATE)))
def test_no_kernel_picks_a_width(path: Path) -> None:
    assert picked(path) == []


def test_what_picks_a_width_is_seen() -> None:
    assert "load_u8" in picked(STATE / "memory/hashing.py")
