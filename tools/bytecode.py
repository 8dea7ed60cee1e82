"""Compiles Python's bytecode ahead: ``bytecode.py --packages FOLDER --sources FOLDER``.

Without it the first start of each command compiles what it imports. Where PYTHONDONTWRITEBYTECODE is set, as images
have it, every start does, and takes twice as long. The variable is not asked here: it is about what imports leave.

Needs nothing but Python's standard library. It is run by the Python whose bytecode it shall be.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import py_compile
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_HEAD_BYTES = 16  # of bytecode: magic number, flags, and the hash of the source, or its time and size
_CHECKED_HASH = (0b11).to_bytes(4, "little")


def main(arguments: Sequence[str]) -> int:
    """Compile files without bytecode; return 1 if a file of crossline could not be compiled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path, action="append", default=[])
    parser.add_argument("--sources", type=Path, action="append", default=[])
    asked = parser.parse_args(arguments)
    compiled = [packages(folder) for folder in asked.packages]
    if not all(compiled):
        print("some packages have no bytecode (see above): what imports them starts slower", file=sys.stderr)
    return 1 if sum(sources(folder) for folder in asked.sources) else 0


def packages(folder: Path) -> bool:
    """Compile installed packages, but not the tests that they bring along. False where some could not be.

    Python knows a source again by its time and size: an installer that replaces one removes its bytecode. With
    SOURCE_DATE_EPOCH, under which an image's files may be given another time, it is by their hash.
    """
    tests = re.compile(rf"^{re.escape(str(folder))}/(.*/)?tests?/")
    return bool(compileall.compile_dir(str(folder), quiet=1, workers=0, rx=tests))


def sources(folder: Path) -> int:
    """Compile sources that people edit; how many could not be.

    Python knows them again by their hash, so that an edit counts whatever its time is: an editor's, or the one time
    that all files of an image have.
    """
    return sum(not _compiled(source) for source in sorted(folder.rglob("*.py")) if not is_fresh(source))


def is_fresh(source: Path) -> bool:
    """Whether there is bytecode of exactly this source, which Python checks by the source's hash."""
    try:
        with Path(importlib.util.cache_from_source(str(source))).open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return head == importlib.util.MAGIC_NUMBER + _CHECKED_HASH + importlib.util.source_hash(source.read_bytes())


def _compiled(source: Path) -> bool:
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    try:
        py_compile.compile(str(source), doraise=True, invalidation_mode=mode)
    except (py_compile.PyCompileError, OSError) as error:
        print(f"{source}: no bytecode: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
