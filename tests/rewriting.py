"""Asserts of test files, rewritten by processes of pytest-xdist together, not by each of them.

All processes collect all tests, in one order and at one time. In a fresh clone each would rewrite each file, which
takes longer than the rest of the collection, and find those of the others too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite  # nothing public writes such a file without running it


def rewrite_share(config: pytest.Config, files: Sequence[Path]) -> None:
    """Put rewritten bytecode where pytest looks for it, for those of ``files`` that have none."""
    state = config.stash[rewrite.assertstate_key]
    for path in files:
        folder = rewrite.get_cache_dir(path)
        compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(path, compiled) is None and rewrite.try_makedirs(folder):
            with suppress(SyntaxError):  # the collection reports it
                stat, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, stat, compiled)


def collected_files(config: pytest.Config) -> list[Path]:
    """Those that ``config`` is reported to collect, in the order in which it does."""
    folder = config.invocation_params.dir
    given = [folder / argument.partition("::")[0] for argument in config.args]
    return [file for path in given for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
