"""Files that pages, docstrings and comments name are there: who follows a reference finds what it speaks of."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from .pages import GENERATED, PAGES, ROOT

CODE = ("src", "tests", "tools", "bench", "chaos", "dev", "examples")
# A path, or a file's name alone; what ends a longer word (`x.pyc`, `a.md5`) is none, nor is a pattern.
_NAMED = re.compile(r"(?<![\w/.*{}~-])(?:[\w.-]+/)*[\w-]+\.(?:py|md)(?![\w*])")
_FENCED = re.compile(r"```.*?```", re.DOTALL)
# Folders and modules of the package, as people shorten them: `state/batch`, `runtime/stages`.
_PLACE = re.compile(
    r"(?<![\w/.-])(?:basics|programs|aggregates|rules|settings|plan|state|ingest|evaluate|analysis|io|generate|rule_registry"
    r"|runtime|backtest|observe|serve|cli)(?:/[a-z_]+)+(?![\w.*/-])"
)
# What is no file of the repository, and why it is named.
ELSEWHERE = {
    "io/spool.py": "the reader of CONTRIBUTING.md writes it",
    "docs/kernel-memory.md": "is made on demand",
    "out/chaos/report.md": "the drill writes it",
    "state/backfills": "a folder of checkpoints",
    "state/decided": "as above",
    "state/pasts": "as above, of earlier formats",
}


def texts_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments, with the line that each begins on."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node, clean=False)
            if found is not None:
                yield node.body[0].lineno, found
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def texts() -> Iterator[tuple[str, str]]:
    """Where each text stands, and the text."""
    for page in [*PAGES, *(ROOT / "docs" / name for name in GENERATED)]:
        yield page.name, _FENCED.sub("", page.read_text(encoding="utf-8"))
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, found in texts_of_code(path):
                yield f"{path.relative_to(ROOT)}:{line}", found


def known_files() -> set[str]:
    """Every end of the path of every page and program: `alert.py`, `alerts/alert.py` and so on."""
    found = {str(path.relative_to(ROOT / "src/crossline")) for path in (ROOT / "src/crossline").rglob("*")}
    found |= {name.removesuffix(".py") for name in found}
    roots = [ROOT / folder for folder in (*CODE, "docs", "deploy", ".ci")]
    files = [path for root in roots for pattern in ("*.py", "*.md") for path in root.rglob(pattern)]
    for path in [*files, *ROOT.glob("*.md"), *ROOT.glob("*.py")]:
        parts = path.relative_to(ROOT).parts
        found |= {"/".join(parts[at:]) for at in range(len(parts))}
    return found


def dead(text: str, known: set[str]) -> list[str]:
    """The files that a text names and that are nowhere."""
    named = [*_NAMED.findall(text), *_PLACE.findall(text)]
    return [name for name in named if re.sub(r"^(\.\.?/)+", "", name) not in known and name not in ELSEWHERE]


def test_what_is_named_is_there() -> None:
    known = known_files()
    assert [f"{where}: {name}" for where, reported in texts() for name in dead(reported, known)] == []


def test_a_name_of_nothing_is_found() -> None:
    known = {"alert.py", "alerts/alert.py", "semantics.md"}
    assert dead("see ``alerts/alert.py``, `semantics.md` and (alert.py).", known) == []
    assert dead("see evaluate/alerts/making.py, or streams.md", known) == ["evaluate/alerts/making.py", "streams.md"]
    assert dead("`evaluate/alerts` and io/making, 1/io/x", {*known, "evaluate/alerts"}) == ["io/making"]
    assert dead("*.py, x.pyc and {name}.py are patterns", known) == []
