"""Generated traffic as a log of chunks."""

from __future__ import annotations

from pathlib import Path

from crossline.io.chunks import READY, ChunkRef, GeneratorChunks, ReadLimit


def generated(root: Path, records: int | None, chunk: int, rate: float | None) -> GeneratorChunks:
    return GeneratorChunks("tx", str(root / "sources" / "tx"), records, chunk, rate)


def make_ready(root: Path) -> None:
    """As the pipeline does after its first batch."""
    (root / "sources").mkdir()
    (root / "sources" / READY).touch()


def test_generated_records_are_all_there_at_once_without_a_pace(tmp_path: Path) -> None:
    log = generated(tmp_path, 25, 10, None)
    due = log.chunks(0, log.poll(0))
    assert due == [ChunkRef(0, "tx", 0, 10), ChunkRef(1, "tx", 10, 20), ChunkRef(2, "tx", 20, 25)]


def test_generated_records_fall_due_from_when_the_pipeline_was_ready_first(tmp_path: Path) -> None:
    log = generated(tmp_path, 25, 10, 5.0)
    assert log.poll(60_000) == 0
    make_ready(tmp_path)
    # At 5 a second the tenth record is due two seconds after the beginning, the twentieth after four.
    assert [log.poll(100_000 + ms) for ms in (0, 1_999, 2_000, 3_999, 4_000)] == [0, 0, 1, 1, 2]
    again = generated(tmp_path, 25, 10, 5.0)
    assert again.poll(104_000) == 2, "the beginning is that of the first process"
    assert again.poll(10**9) == 3
    assert again.chunks(2, 3) == [ChunkRef(2, "tx", 20, 25)]


def test_chunks_keep_the_size_of_the_first_start(tmp_path: Path) -> None:
    """On a machine with more cores a chunk would be smaller, and its number would stand for other records."""
    assert generated(tmp_path, 25, 10, None).poll(0) == 3
    again = generated(tmp_path, 25, 5, None)
    assert again.chunks(1, 2) == [ChunkRef(1, "tx", 10, 20)]
    assert again.poll(0) == 3


def test_a_generator_without_end_goes_on(tmp_path: Path) -> None:
    make_ready(tmp_path)
    log = generated(tmp_path, None, 10, 100.0)
    assert [log.poll(ms) for ms in (0, 86_400_000)] == [0, 864_000]
    assert log.chunks(863_999, 864_000) == [ChunkRef(863_999, "tx", 8_639_990, 8_640_000)]


def test_a_batch_has_as_many_chunks_as_it_may_have_records(tmp_path: Path) -> None:
    log = generated(tmp_path, 45, 10, None)
    assert log.poll(0) == 5
    assert [log.reach(start, ReadLimit(20, 100)) for start in (0, 2, 4, 5)] == [2, 4, 5, 5]
    assert log.reach(0, ReadLimit(5, 100)) == 1
    assert log.reach(0, ReadLimit(1_000, 3)) == 3
    assert log.left() == []
