"""Parquet files in pieces. What is expected are the rows that were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.basics.errors import SourceError
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import make_layout
from crossline.io.chunks import ChunkRef, ReadLimit
from crossline.io.files import parquet_rows
from crossline.io.files.log import FileChunks
from crossline.io.files.parquet_rows import read_rows, rows_between
from crossline.runtime.sources.formats import decode_chunk

FIELDS = {"id": "string", "at": "integer"}
SPEC = StreamSpec.model_validate({"id": "id", "event_time": {"field": "at"}, "fields": FIELDS})
LAYOUT = make_layout("s", SPEC)
EACH = 2 * parquet_rows.COLUMN_BYTES
CHUNK = 30 * EACH + 7  # thirty rows


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    parquet_rows.FORWARD_READERS.clear()


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": f"r{number}", "at": number} for number in range(first, last)]


def write(path: Path, given: list[dict[str, Any]], group: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    schema = pa.schema([("id", pa.string()), ("at", pa.int64())])
    pq.write_table(pa.Table.from_pylist(given, schema), path, row_group_size=group, use_dictionary=False)
    return path


def log_of(folder: Path, unended: Any = "waits") -> FileChunks:
    patterns = [str(folder / "in" / "*")]
    return FileChunks(patterns, str(folder / "list"), CHUNK, whole_files=True, unended=unended)


@pytest.mark.parametrize("group", [7, 30, 64, 1_000])
def test_pieces_are_the_rows_whatever_their_groups(tmp_path: Path, group: int) -> None:
    write(tmp_path / "in" / "a", rows(0, 100), group)
    write(tmp_path / "in" / "b", rows(100, 110), group)
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(0))
    assert [rows_between(chunk) for chunk in chunks] == [(0, 30), (30, 60), (60, 90), (90, 100), (0, 10)]
    assert [read_rows(chunk).to_pylist() for chunk in chunks] == [
        *(rows(*rows_between(chunk)) for chunk in chunks[:4]),
        rows(100, 110),
    ]
    assert not len(parquet_rows.FORWARD_READERS), "what was read to its end is closed"
    again = log_of(tmp_path)
    assert again.chunks(0, again.poll(1)) == chunks
    decoded = [decode_chunk("parquet", LAYOUT, chunk) for chunk in reversed(chunks[:4])]
    assert [each.records.ids.to_pylist() for each in reversed(decoded)] == [
        [row["id"] for row in rows(*rows_between(chunk))] for chunk in chunks[:4]
    ]
    assert decoded[0].records.offsets.tolist() == list(range(90, 100))


def test_a_process_reads_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in" / "a", rows(0, 300), 1_000)
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(0))
    opened: list[ChunkRef] = []
    real = parquet_rows.open_chunk
    monkeypatch.setattr(parquet_rows, "open_chunk", lambda chunk: opened.append(chunk) or real(chunk))
    for chunk in (*chunks[::2], chunks[1], chunks[4], chunks[-1]):
        assert read_rows(chunk).to_pylist() == rows(*rows_between(chunk))
    assert len(opened) == 2, "anew only for rows before those that were read"


def test_a_batch_has_as_many_rows_as_fit(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a", rows(0, 100), 1_000)
    log = log_of(tmp_path)
    log.poll(0)
    assert [log.reach(start, ReadLimit(2 * CHUNK, 99)) for start in (0, 2)] == [2, 4]


def test_one_without_rows_and_one_that_is_no_table_are_a_piece(tmp_path: Path) -> None:
    empty = write(tmp_path / "in" / "a", [], 10)
    spoiled = tmp_path / "in" / "b"
    spoiled.write_bytes(b"PAR1" + b"\0" * 40 + (40).to_bytes(4, "little") + b"PAR1")
    log = log_of(tmp_path, "counts")
    chunks = log.chunks(0, log.poll(0))
    assert [(c.start, c.end, c.row_bytes) for c in chunks] == [(0, empty.stat().st_size, None), (0, 52, None)]
    first, second = (decode_chunk("parquet", LAYOUT, chunk) for chunk in chunks)
    assert (len(first.records), first.dead) == (0, [])
    assert [(each.reason, each.offset) for each in second.dead] == [("malformed_parquet", 0)]


def test_rows_that_are_damaged_are_a_dead_letter_for_each_piece(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a", rows(0, 100), 50)
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(0))
    start = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 20] = b"\xff" * 20
    path.write_bytes(data)  # in the middle, where no check compares
    decoded = [decode_chunk("parquet", LAYOUT, chunk) for chunk in chunks]
    assert [len(each.records) for each in decoded] == [30, 0, 0, 0]
    letters = [letter for each in decoded for letter in each.dead]
    assert [(letter.reason, letter.offset, letter.raw) for letter in letters] == [
        ("malformed_parquet", first, bytes(data[:4096])) for first in (30, 60, 90)
    ]
    assert "of which rows 30-60 are missing now" in letters[0].detail


def test_a_list_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a", rows(0, 100), 1_000)
    assert log_of(tmp_path).poll(0) == 4
    listed = tmp_path / "list" / "chunks.jsonl"
    every = listed.read_bytes().splitlines(keepends=True)
    for kept in range(len(every)):
        listed.write_bytes(b"".join(every[:kept]) + every[kept][:7])
        log = log_of(tmp_path)
        found = [row for chunk in log.chunks(0, log.poll(0)) for row in read_rows(chunk).to_pylist()]
        assert found == rows(0, 100)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a", rows(0, 100), 1_000)
    log = log_of(tmp_path)
    (chunk,) = log.chunks(0, log.poll(0))[:1]
    path.unlink()
    with pytest.raises(SourceError, match="put the file back"):
        decode_chunk("parquet", LAYOUT, chunk)
