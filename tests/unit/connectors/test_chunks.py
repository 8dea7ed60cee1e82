"""Chunk logs: every byte of every whole line once, in order, whatever files do meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.connectors.chunks import (
    READY,
    ChunkRef,
    FileChunks,
    GeneratorChunks,
    listed_chunks,
    matching_files,
    read_range,
)
from crossline.core.errors import SourceError


def file_log(
    root: Path, pattern: str = "in", chunk_bytes: int = 10, *, whole: bool = False, complete: bool = False
) -> FileChunks:
    return FileChunks([str(root / pattern)], str(root / "log"), chunk_bytes, whole_files=whole, complete=complete)


def taken(log: FileChunks) -> list[tuple[str, bytes]]:
    """What all chunks hold, as (file name, bytes)."""
    chunks = log.chunks(0, log.poll())
    assert [c.sequence for c in chunks] == list(range(len(chunks)))
    return [(Path(c.path).name, read_range(c.path, c.start, c.end)) for c in chunks]


def write(root: Path, name: str, data: bytes) -> None:
    path = root / "in" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def test_chunks_end_with_the_line_that_reaches_the_size(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\nfive\n")
    # 10 bytes reach into "three", whose line ends at 14; 10 more into "five".
    assert taken(file_log(tmp_path)) == [("a", b"one\ntwo\nthree\n"), ("a", b"four\nfive\n")]


def test_a_line_longer_than_a_chunk_stays_whole(tmp_path: Path) -> None:
    write(tmp_path, "a", b"x" * 200_000 + b"\nshort\n")
    assert [len(data) for _, data in taken(file_log(tmp_path))] == [200_001, 6]


def test_a_line_counts_once_it_is_ended(tmp_path: Path) -> None:
    log = file_log(tmp_path)
    assert taken(log) == []
    write(tmp_path, "a", b"one\ntw")
    assert taken(log) == [("a", b"one\n")]
    write(tmp_path, "a", b"o")
    assert taken(log) == [("a", b"one\n")]
    write(tmp_path, "a", b"\nthree\n")
    assert taken(log) == [("a", b"one\n"), ("a", b"two\nthree\n")]


def test_a_long_line_that_is_not_ended_yet_is_left_whole(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\n" + b"y" * 150_000)
    log = file_log(tmp_path)
    assert taken(log) == [("a", b"one\n")]
    write(tmp_path, "a", b"\n")
    assert [len(data) for _, data in taken(log)] == [4, 150_001]


def test_in_complete_files_the_last_line_needs_no_end(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo")
    write(tmp_path, "b", b"only")
    assert taken(file_log(tmp_path, complete=True)) == [("a", b"one\ntwo"), ("b", b"only")]


def test_files_count_in_name_order_and_later_ones_come_after(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden", "_aside", "half.tmp"):
        write(tmp_path, name, b"%s\n" % name.encode())
    (tmp_path / "in" / "folder").mkdir()
    log = file_log(tmp_path)
    assert [name for name, _ in taken(log)] == ["a.jsonl", "b.jsonl"]
    # What was numbered stays: a file that comes late comes last, whatever its name.
    write(tmp_path, "0.jsonl", b"zero\n")
    write(tmp_path, "b.jsonl", b"more\n")
    assert [name for name, _ in taken(log)] == ["a.jsonl", "b.jsonl", "0.jsonl", "b.jsonl"]


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\n")
    before = file_log(tmp_path).poll()
    first = file_log(tmp_path)
    assert first.chunks(0, before) == file_log(tmp_path).chunks(0, before), "given out before the first poll, too"
    write(tmp_path, "a", b"five\n")
    again = file_log(tmp_path, chunk_bytes=1_000)
    assert again.chunks(0, before) == first.chunks(0, before)
    assert taken(again) == [("a", b"one\ntwo\nthree\n"), ("a", b"four\n"), ("a", b"five\n")]


def test_a_line_of_the_list_that_a_kill_cut_off_is_made_again(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\n")
    whole = taken(file_log(tmp_path))
    listing = tmp_path / "log" / "chunks.jsonl"
    written = listing.read_bytes()
    for size in range(len(written)):
        listing.write_bytes(written[:size])
        assert taken(file_log(tmp_path)) == whole
        assert listing.read_bytes() == written


def test_another_process_reads_the_list_and_touches_nothing(tmp_path: Path) -> None:
    assert listed_chunks(str(tmp_path / "log")) == []
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\n")
    log = file_log(tmp_path)
    chunks = log.chunks(0, log.poll())
    listing = tmp_path / "log" / "chunks.jsonl"
    with listing.open("ab") as file:
        file.write(b'{"sequence": 2, "path": "half of a li')
    before = listing.read_bytes()
    write(tmp_path, "a", b"five\n")
    assert listed_chunks(str(tmp_path / "log")) == chunks
    assert listing.read_bytes() == before


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.binary(max_size=12).map(lambda b: b.replace(b"x", b"\n"))),
            st.sampled_from(["poll", "restart"]),
        ),
        max_size=30,
    ),
    st.integers(1, 20),
)
def test_whatever_is_appended_every_whole_line_is_taken_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes] | str], chunk_bytes: int
) -> None:
    root = tmp_path_factory.mktemp("chunks")
    log = file_log(root, chunk_bytes=chunk_bytes)
    content: dict[str, bytes] = {}
    for step in steps:
        if isinstance(step, tuple):
            write(root, *step)
            content[step[0]] = content.get(step[0], b"") + step[1]
        elif step == "poll":
            log.poll()
        else:
            log = file_log(root, chunk_bytes=chunk_bytes)
    chunks = taken(log)
    assert all(data.endswith(b"\n") for _, data in chunks)
    for name, data in content.items():
        assert b"".join(each for of, each in chunks if of == name) == data[: data.rfind(b"\n") + 1]


def test_whole_files_are_one_chunk_each(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", b"no lines in here")
    write(tmp_path, "b.parquet", b"nor here, and longer than a chunk")
    log = file_log(tmp_path, whole=True)
    assert taken(log) == [("a.parquet", b"no lines in here"), ("b.parquet", b"nor here, and longer than a chunk")]
    assert log.poll() == 2


def test_a_file_that_vanishes_stays_in_the_list_and_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\n")
    log = file_log(tmp_path)
    (chunk,) = log.chunks(0, log.poll())
    (tmp_path / "in" / "a").unlink()
    assert log.poll() == 1
    with pytest.raises(SourceError, match=r"a: cannot read bytes 0-4.*put the file back"):
        read_range(chunk.path, chunk.start, chunk.end)


def test_a_file_cut_short_after_it_was_taken_in_is_told(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\n")
    log = file_log(tmp_path)
    (chunk,) = log.chunks(0, log.poll())
    (tmp_path / "in" / "a").write_bytes(b"one\n")
    with pytest.raises(SourceError, match="4 bytes, expected at least 8"):
        read_range(chunk.path, chunk.start, chunk.end)
    assert log.poll() == 1


def test_patterns_name_files_folders_and_globs(tmp_path: Path) -> None:
    for name in ("in/a.jsonl", "in/b.csv", "in/deep/c.jsonl", "other/d.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def found(*patterns: str) -> list[str]:
        return [str(Path(p).relative_to(tmp_path)) for p in matching_files([str(tmp_path / p) for p in patterns])]

    assert found("in") == ["in/a.jsonl", "in/b.csv"]
    assert found("in/*.jsonl") == ["in/a.jsonl"]
    assert found("in/**/*.jsonl") == ["in/a.jsonl", "in/deep/c.jsonl"]
    assert found("*/*.jsonl", "in/a.jsonl") == ["in/a.jsonl", "other/d.jsonl"]
    assert found("in/b.csv") == ["in/b.csv"]
    assert found("nothing", "in/nothing.jsonl") == []


def test_a_colon_is_a_letter_of_a_name_like_others(tmp_path: Path) -> None:
    folder = tmp_path / "2026-01-01T10:00"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"one\n")
    assert taken(file_log(tmp_path, "2026-01-01T10:00/*.jsonl")) == [("a.jsonl", b"one\n")]


def generated(root: Path, records: int | None, chunk: int, rate: float | None, now_ms: int) -> GeneratorChunks:
    return GeneratorChunks("tx", str(root / "sources" / "tx"), records, chunk, rate, now_ms)


def make_ready(root: Path) -> None:
    """As the pipeline does after its first batch."""
    (root / "sources").mkdir()
    (root / "sources" / READY).touch()


def test_generated_records_are_all_there_at_once_without_a_pace(tmp_path: Path) -> None:
    log = generated(tmp_path, 25, 10, None, 0)
    assert log.chunks(0, log.poll()) == [ChunkRef(0, "tx", 0, 10), ChunkRef(1, "tx", 10, 20), ChunkRef(2, "tx", 20, 25)]


def test_generated_records_fall_due_from_when_the_pipeline_was_ready_first(tmp_path: Path) -> None:
    log = generated(tmp_path, 25, 10, 5.0, 0)
    assert log.at(60_000).poll() == 0
    make_ready(tmp_path)
    # At 5 a second the tenth record is due two seconds after the beginning, the twentieth after four.
    assert [log.at(100_000 + ms).poll() for ms in (0, 1_999, 2_000, 3_999, 4_000)] == [0, 0, 1, 1, 2]
    again = generated(tmp_path, 25, 10, 5.0, 104_000)
    assert again.poll() == 2, "the beginning is that of the first process"
    assert again.at(10**9).poll() == 3
    assert again.chunks(2, 3) == [ChunkRef(2, "tx", 20, 25)]


def test_chunks_keep_the_size_of_the_first_start(tmp_path: Path) -> None:
    """On a machine with more cores a chunk would be smaller, and its number would stand for other records."""
    assert generated(tmp_path, 25, 10, None, 0).poll() == 3
    again = generated(tmp_path, 25, 5, None, 0)
    assert again.chunks(1, 2) == [ChunkRef(1, "tx", 10, 20)]
    assert again.poll() == 3


def test_a_generator_without_end_goes_on(tmp_path: Path) -> None:
    make_ready(tmp_path)
    log = generated(tmp_path, None, 10, 100.0, 0)
    assert [log.at(ms).poll() for ms in (0, 86_400_000)] == [0, 864_000]
    assert log.chunks(863_999, 864_000) == [ChunkRef(863_999, "tx", 8_639_990, 8_640_000)]
