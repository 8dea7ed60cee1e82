"""The log of segments: what was written comes back in order, through merges and drops, and no gap goes unseen."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics import wire
from crossline.basics.errors import StateError
from crossline.runtime.state_log import state_log
from crossline.runtime.state_log.state_log import JOINED_BYTES_MAX, MERGE_AT, MERGE_COUNT, Segment, StateLog


def blob(batch: int, kept_from: int = 0) -> bytes:
    return wire.encode({"batch": batch, "kept_from": kept_from}, {"x": np.full(3, batch, np.int64)})


def written(root: Path, batches: int, kept_from: int = 0) -> StateLog:
    log = StateLog(str(root), 0)
    for batch in range(batches):
        log.write(batch, blob(batch, kept_from))
    return log


def read(log: StateLog, after: int, until: int) -> list[int]:
    """The numbers of the batches that come back, their arrays checked."""
    found = []
    for meta, arrays in log.blobs(after, until):
        assert arrays["x"].tolist() == [meta["batch"]] * 3
        found.append(meta["batch"])
    return found


def path(root: Path, first: int, last: int | None = None) -> Path:
    return root / "shard-00000" / Segment(first, first if last is None else last).name


def test_what_was_written_comes_back_in_order(tmp_path: Path) -> None:
    log = written(tmp_path, 12)
    assert read(log, -1, 11) == list(range(12))
    assert read(log, 4, 9) == [5, 6, 7, 8, 9]
    assert read(log, 10, 11) == [11]
    assert read(log, 11, 11) == []
    assert read(log, -1, -1) == [], "before the first batch there is nothing"


@pytest.mark.parametrize("length", [3, JOINED_BYTES_MAX])
def test_a_blob_in_pieces_is_the_file_of_the_whole_one(tmp_path: Path, length: int) -> None:
    meta, arrays = {"batch": 0, "kept_from": 0}, {"x": np.arange(length), "y": np.arange(3, dtype=np.int8)}
    StateLog(str(tmp_path / "whole"), 0).write(0, wire.encode(meta, arrays))
    log = StateLog(str(tmp_path / "pieces"), 0)
    log.write(0, wire.encoded_pieces(meta, arrays))
    assert path(tmp_path / "pieces", 0).read_bytes() == path(tmp_path / "whole", 0).read_bytes()
    [(_, found)] = log.blobs(-1, 0)
    assert np.array_equal(found["x"], arrays["x"])


def test_shards_do_not_see_each_other(tmp_path: Path) -> None:
    written(tmp_path, 2)
    other = StateLog(str(tmp_path), 1)
    assert other.segments() == []
    other.write(0, blob(0))
    assert read(other, -1, 0) == [0]


def test_a_batch_written_again_replaces_itself(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    log.write(2, wire.encode({"batch": 2, "kept_from": 0, "again": True}, {"x": np.full(3, 2, np.int64)}))
    assert [meta.get("again", False) for meta, _ in log.blobs(-1, 2)] == [False, False, True]


def test_batches_after_the_one_asked_for_are_not_read(tmp_path: Path) -> None:
    """A segment of a batch that Spark runs again lies there already, written by the attempt that died."""
    log = written(tmp_path, 5)
    assert read(log, -1, 3) == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", [0, 1, 4, 7, 8])
def test_a_missing_file_is_found(tmp_path: Path, missing: int) -> None:
    log = written(tmp_path, 9)
    path(tmp_path, missing).unlink()
    with pytest.raises(StateError, match=r"shard-00000.*(missing|restore|Restore)"):
        read(log, -1, 8)
    # Who is behind the gap does not need it.
    if missing < 7:
        assert read(log, 7, 8) == [8]


def test_all_files_gone_is_not_an_empty_state(tmp_path: Path) -> None:
    log = StateLog(str(tmp_path), 0)
    with pytest.raises(StateError, match="start from a new checkpoint"):
        read(log, -1, 3)


def test_what_was_written_off_need_not_be_there(tmp_path: Path) -> None:
    log = written(tmp_path, 6)
    log.write(6, blob(6, kept_from=4))
    assert read(log, -1, 6) == [4, 5, 6]
    log.drop([Segment(n, n) for n in range(4)])
    assert read(log, -1, 6) == [4, 5, 6]
    path(tmp_path, 4).unlink()
    with pytest.raises(StateError, match="state of batch 4 is missing"):
        read(log, -1, 6)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 40, 100])
def test_a_file_cut_short_is_reported(tmp_path: Path, size: int) -> None:
    log = written(tmp_path, 2)
    file = path(tmp_path, 1)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(StateError, match=r"000000000001-000000000001\.seg"):
        read(log, -1, 1)


def damaged(root: Path, at: int, bit: int) -> StateLog:
    log = written(root, 1)
    file = path(root, 0)
    good = file.read_bytes()
    file.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
    return log


def test_no_bit_can_change_unseen(tmp_path: Path) -> None:
    for at in range(len(blob(0)) + 8):
        for bit in range(8):
            with pytest.raises(StateError):
                read(damaged(tmp_path, at, bit), -1, 0)


def test_merging_changes_files_and_nothing_else(tmp_path: Path) -> None:
    log = written(tmp_path, MERGE_AT + 10)
    log.merge(MERGE_AT - 1)
    assert log.segments()[0] == Segment(0, 0), "one file less than it takes"
    log.merge(MERGE_AT)
    assert log.segments()[:2] == [Segment(0, MERGE_COUNT - 1), Segment(MERGE_COUNT, MERGE_COUNT)]
    last = MERGE_AT + 9
    assert read(log, -1, last) == list(range(last + 1))
    # A cache may stand in the midst of a merged file.
    assert read(log, MERGE_COUNT // 2, last) == list(range(MERGE_COUNT // 2 + 1, last + 1))
    assert [meta["batch"] for meta in log.metas(Segment(0, MERGE_COUNT - 1))] == list(range(MERGE_COUNT))


def test_a_kill_between_merging_and_deleting_leaves_both_and_is_no_matter(tmp_path: Path) -> None:
    log = written(tmp_path, MERGE_AT)
    before = {p.name: p.read_bytes() for p in (tmp_path / "shard-00000").iterdir()}
    log.merge(MERGE_AT)
    for name, data in list(before.items())[: MERGE_COUNT - 5]:
        (tmp_path / "shard-00000" / name).write_bytes(data)
    assert log.segments()[0] == Segment(0, MERGE_COUNT - 1)
    assert read(log, -1, MERGE_AT - 1) == list(range(MERGE_AT))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["write", "merge", "drop"]), min_size=1, max_size=8))
def test_any_row_of_writes_merges_and_drops_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    log = StateLog(str(tmp_path_factory.mktemp("log")), 0)
    batches, kept_from = 0, 0
    for step in steps:
        if step == "merge":
            log.merge(batches)
        elif step == "drop":
            # As the cache does it: first written off in a segment, then, by a later batch, dropped.
            log.drop([s for s in log.segments() if s.last < kept_from])
            kept_from = next((s.first for s in log.segments() if s.last >= batches // 2), kept_from)
        for _ in range(50):
            log.write(batches, blob(batches, kept_from))
            batches += 1
    found = read(log, -1, batches - 1)
    assert found == list(range(found[0], batches))
    assert found[0] <= kept_from
    assert read(log, batches - 2, batches - 1) == [batches - 1]


def test_what_a_writer_left_unfinished_is_no_segment(tmp_path: Path) -> None:
    """A process killed while it writes leaves its draft; another attempt of the same batch is not disturbed by it."""
    log = written(tmp_path, 2)
    for draft in (".tmp", f".{os.getpid()}.tmp"):
        (tmp_path / "shard-00000" / f"{Segment(2, 2).name}{draft}").write_bytes(b"half")
    assert log.segments() == [Segment(0, 0), Segment(1, 1)]
    log.write(2, blob(2))
    assert read(log, -1, 2) == [0, 1, 2]


def test_a_uri_is_a_root_too(tmp_path: Path) -> None:
    log = StateLog(f"file://{tmp_path}", 3)
    for batch in range(3):
        log.write(batch, blob(batch))
    assert read(StateLog(str(tmp_path), 3), -1, 2) == [0, 1, 2]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.lists(st.integers(1, 60), max_size=6))
def test_large_files_stay_and_small_ones_are_merged_without_a_gap(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], merges: list[int]
) -> None:
    log = StateLog(str(tmp_path_factory.mktemp("log")), 0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MERGE_AT", 4), ("MERGE_COUNT", 3), ("MERGE_BYTES", 2_000), ("MERGE_BUDGET_BYTES", 5_000)):
            patch.setattr(state_log, name, value)
        for batch, length in enumerate(lengths):
            meta = {"batch": batch, "kept_from": 0}
            log.write(batch, wire.encode(meta, {"x": np.full(length, batch, np.int64)}))
            if batch in merges:
                log.merge(batch)
    last = len(lengths) - 1
    found = [(meta["batch"], arrays["x"].tolist()) for meta, arrays in log.blobs(-1, last)]
    assert found == [(batch, [batch] * length) for batch, length in enumerate(lengths)]
    segments = log.segments()
    assert [meta["batch"] for segment in segments for meta in log.metas(segment)] == list(range(len(lengths)))
    assert all(segment.bytes <= 2_000 for segment in segments if segment.last > segment.first)
