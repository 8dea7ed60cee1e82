"""A last line without an end: it waits, or counts where nothing can follow, and is never cut in two."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.io.files.identity import read_chunk
from crossline.io.files.lines import Unended
from crossline.io.files.log import FileChunks


def taken(root: Path, unended: Unended) -> list[bytes]:
    """What is new since the last time, by a process of its own."""
    log = FileChunks([str(root / "in")], str(root / "list"), 100, unended=unended)
    before = len(log.chunks(0, 1 << 20))
    return [read_chunk(chunk) for chunk in log.chunks(before, log.poll(0))]


@pytest.mark.parametrize(
    ("last", "counts"),
    [
        (b'{"id": "b"}', True),
        (b'{"id": "b"}\r', True),
        (b'{"id": "b', False),
        (b'{"id": {"x": 1}', False),
        (b"12", False),  # may go on: 123
        (b"[1]", False),
        (b"tru", False),
        (b'{"id": "' + b"x" * (1 << 20) + b'"}', False),  # too long to be a record
    ],
)
def test_on_a_drain_a_whole_document_counts_and_half_a_line_is_left(tmp_path: Path, last: bytes, counts: bool) -> None:
    path = tmp_path / "in" / "a"
    path.parent.mkdir()
    path.write_bytes(b'{"id": "a"}\n' + last)
    assert taken(tmp_path, "waits") == [b'{"id": "a"}\n']
    assert taken(tmp_path, "document") == ([last] if counts else [])
    assert taken(tmp_path, "document") == []
    with path.open("ab") as file:
        file.write(b'"}}\n{"id": "c"}\n' if not counts else b'\n{"id": "c"}\n')
    assert b"".join(taken(tmp_path, "document")) == (b"" if counts else last + b'"}}') + b'\n{"id": "c"}\n'


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_however_often_a_growing_file_is_drained_no_line_is_cut(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, places: list[int]
) -> None:
    root = tmp_path_factory.mktemp("drained")
    (root / "in").mkdir()
    whole = b'{"id": "first"}\n' + noise.replace(b"\0", b"\n").replace(b"{", b"(") + b'\n{"id": "last"}\n'
    found, before = [], 0
    for place in [*sorted(places), len(whole)]:
        end = max(before, min(place, len(whole)))
        with (root / "in" / "a").open("ab") as file:
            file.write(whole[before:end])
        found += taken(root, "document")
        before = end
    assert b"".join(found) == whole
    lines = [line for chunk in found for line in chunk.split(b"\n")]
    # A document that counted before its end of line came leaves an empty line behind.
    assert [line for line in lines if line] == [line for line in whole.split(b"\n") if line]
