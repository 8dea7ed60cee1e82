"""No kernel is kept by less than it is made of, and none needs numba to be loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import crossline
from crossline.ingest.decode import jit
from crossline.state.memory import source_digest

TOP = Path(crossline.__file__).parent
STATE = (*source_digest._SHARED, *source_digest._DECLARED, "crossline.state.panes", "crossline.state.patterns")
STATE += ("crossline.state.retraction",)
# Of other packages: types alone, which no code is made of.
TYPES = {"DeadLetter", "UsageError", "FieldSpec", "StreamSpec", "TimeField", "F64", "I32", "I64", "U8", "Columns"}
TYPES |= {"Records", "TextPlaces", "Tokeniser"}


# What declares parts of kernels, as it is imported.
DECLARING = ("crossline.state.memory.access import", "crossline.ingest.decode.jit import")


def compiled_modules() -> list[Path]:
    """Those that declare parts; by their text, since each process collects this, and a tree of each takes 2 s."""
    sources = ((path, path.read_text()) for path in TOP.rglob("*.py"))
    found = [path for path, text in sources if any(declaring in text for declaring in DECLARING)]
    assert len(found) > 30
    return found


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of ``crossline`` that it imports, and names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossline."):
            for alias in node.names:
                yield f"{node.module}", alias.name


@pytest.mark.parametrize("path", compiled_modules(), ids=lambda path: str(path.relative_to(TOP)))
def test_what_a_compiled_module_uses_is_in_its_digest(path: Path) -> None:
    module = ".".join(("crossline", *path.relative_to(TOP).with_suffix("").parts))
    covered = jit._PACKAGES if module.startswith("crossline.ingest") else STATE
    assert module.startswith(covered), f"{module} has parts of kernels, and is in no digest"
    for used, name in imported(path):
        if used.startswith("crossline.") and not used.startswith(("crossline.basics.kernels", *covered)):
            assert name in TYPES, f"{module} uses {used}.{name}: a change of it would meet an older kernel"


def test_all_kernels_are_loaded_without_numba() -> None:
    program = """
import sys
from crossline.runtime.workers.kernel_warmup import ALL, warm
warm(**ALL)
assert "numba" not in sys.modules
"""
    for _ in range(2):  # the first one compiles what is missing
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        if not done.returncode:
            break
    assert done.returncode == 0, done.stderr
