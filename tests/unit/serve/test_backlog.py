"""What stands in a log behind what a batch has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.serve.backlog import lines_behind
from crossline.serve.decisions.values import LogPosition

FIRST, SECOND = "00000001.jsonl", "00000002.jsonl"


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({}, [(FIRST, 0, b"a"), (FIRST, 2, b"bb"), (SECOND, 0, b"ccc")]),
        ({FIRST: 2}, [(FIRST, 2, b"bb"), (SECOND, 0, b"ccc")]),
        ({FIRST: 5}, [(SECOND, 0, b"ccc")]),
        ({SECOND: 0}, [(SECOND, 0, b"ccc")]),
        ({SECOND: 4}, []),
    ],
)
def test_lines_behind(tmp_path: Path, ends: dict[str, int], found: list[tuple[str, int, bytes]]) -> None:
    (tmp_path / FIRST).write_bytes(b"a\nbb\n")
    (tmp_path / SECOND).write_bytes(b"ccc\ntorn")
    assert list(lines_behind(tmp_path, ends)) == [(LogPosition(name, at), raw) for name, at, raw in found]
