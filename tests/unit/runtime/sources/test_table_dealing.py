"""Pieces of Parquet files, dealt out: each once and in order, each group by one process, none without work."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.io.chunks import ChunkRef
from crossline.io.files.log import FileChunks
from crossline.runtime.sources.references import deal_chunks
from crossline.runtime.sources.table_dealing import TableDealer

ROW_BYTES = 16  # of a table of one column of few values
PIECE_ROWS = 100


def pieces(folder: Path, rows: list[int], group_rows: int) -> list[ChunkRef]:
    """Those of files with so many rows each."""
    (folder / "in").mkdir()
    for number, count in enumerate(rows):
        table = pa.table({"a": pa.array(range(count), pa.int8() if count < 128 else pa.int64())})
        pq.write_table(table, folder / "in" / f"{number}.parquet", row_group_size=group_rows)
    log = FileChunks([str(folder / "in")], str(folder / "log"), PIECE_ROWS * ROW_BYTES, whole_files=True)
    found = log.chunks(0, log.poll(0))
    assert {each.row_bytes for each in found} == {ROW_BYTES}
    return found


def numbers(dealt: list[list[ChunkRef]]) -> list[list[int]]:
    return [[each.sequence for each in mine] for mine in dealt]


def test_a_group_of_several_pieces_is_read_by_one_process(tmp_path: Path) -> None:
    chunks = pieces(tmp_path, [500, 500, 500, 500], 500)
    dealer = TableDealer(2, 500 * ROW_BYTES)
    batches = [numbers(dealer.deal(chunks[start : start + 4])) for start in range(0, 20, 4)]
    # Five pieces a file; the files by turns.
    assert batches == [
        [[0, 1, 2, 3], []],
        [[4], [5, 6, 7]],
        [[10, 11], [8, 9]],
        [[12, 13, 14], [15]],
        [[], [16, 17, 18, 19]],
    ]
    assert dealer.read == [1_000 * ROW_BYTES] * 2


def test_small_groups_are_shared_out_though_pieces_reach_over_their_ends(tmp_path: Path) -> None:
    chunks = pieces(tmp_path, [2_000], 90)
    dealer = TableDealer(2, 500 * ROW_BYTES)
    dealt = dealer.deal(chunks)
    assert sorted(chain.from_iterable(numbers(dealt))) == list(range(20))
    assert abs(dealer.read[0] - dealer.read[1]) <= 2 * PIECE_ROWS * ROW_BYTES
    # What is read for nothing is less than a group for each piece.
    assert sum(dealer.read) < (2_000 + 20 * 90) * ROW_BYTES


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("rows", "group_rows"), [([1_000], 250), ([70, 300, 10, 900], 300), ([130] * 9, 64)])
def test_each_piece_is_dealt_once_and_in_order(tmp_path: Path, count: int, rows: list[int], group_rows: int) -> None:
    chunks, dealer = pieces(tmp_path, rows, group_rows), TableDealer(count, 500 * ROW_BYTES)
    for start in range(0, len(chunks), 3):
        batch = chunks[start : start + 3]
        dealt = numbers(dealer.deal(batch))
        assert len(dealt) == count
        assert all(mine == sorted(mine) for mine in dealt)
        assert sorted(chain.from_iterable(dealt)) == [each.sequence for each in batch]


def test_of_a_large_group_each_reads_its_share_of_a_batch(tmp_path: Path) -> None:
    chunks = pieces(tmp_path, [1_000], 1_000)
    assert TableDealer(2, 999 * ROW_BYTES).deal(chunks) == deal_chunks(chunks, 2)
    assert len(TableDealer(2, 1_000 * ROW_BYTES).deal(chunks)[0]) == len(chunks)


def test_lines_are_dealt_by_their_size() -> None:
    chunks = [ChunkRef(number, "/data/a", 10 * number, 10 * number + 10) for number in range(6)]
    assert TableDealer(2, 1_000).deal(chunks) == [chunks[:3], chunks[3:]]
    assert TableDealer(2, 1_000).deal([]) == [[], []]


def test_a_file_that_is_gone_is_dealt_to_who_says_so(tmp_path: Path) -> None:
    chunks = pieces(tmp_path, [500], 250)
    (tmp_path / "in" / "0.parquet").unlink()
    assert sorted(chain.from_iterable(numbers(TableDealer(2, 10_000).deal(chunks)))) == list(range(5))
