from __future__ import annotations

import numpy as np
import pytest

from crossline.runtime.stages import rows
from crossline.runtime.stages.rows import OUT, rows_of

ROWS = [(1, 0, "parts", b"abc"), (2, 7, "parts", memoryview(b"")), (OUT, 0, "spent", memoryview(b"\x00\xff" * 40_000))]


def test_rows_come_back_as_they_were_given() -> None:
    found = rows_of(ROWS).to_pydict()
    assert list(zip(*found.values(), strict=True)) == [(*others, bytes(body)) for *others, body in ROWS]


def test_a_body_in_pieces_is_the_body() -> None:
    pieces = [b"ab", memoryview(b"cd"), b"", memoryview(np.arange(3, dtype=np.uint8))]
    rows = rows_of([(1, 0, "parts", pieces), (1, 1, "parts", b"e"), (1, 2, "parts", [])])
    assert rows.column(3).to_pylist() == [b"abcd\0\1\2", b"e", b""]


def test_no_rows() -> None:
    assert rows_of([]).num_rows == 0
    assert rows_of([]).schema == rows_of(ROWS).schema


def test_a_body_of_signed_bytes_as_arrow_gives_them() -> None:
    body = memoryview(rows_of(ROWS).column(3)[2].as_buffer())
    assert rows_of([(0, 0, "parts", body)]).column(3)[0].as_py() == bytes(ROWS[2][3])


def test_more_than_an_array_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_BYTES_MAX", 5)
    assert rows_of([(0, 0, "parts", b"12345")]).num_rows == 1
    with pytest.raises(OverflowError, match="rows of 6 bytes: expected less than 2 GiB"):
        rows_of([(0, 0, "parts", b"123"), (0, 0, "parts", b"456")])
