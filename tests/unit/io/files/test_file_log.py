"""Chunk logs: every byte of every whole line once, in order, whatever files do meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crossline.basics.errors import SourceError
from crossline.io.files.compression import MAGIC
from crossline.io.files.identity import read_chunk
from crossline.io.files.lines import Unended
from crossline.io.files.listing import ChunkList
from crossline.io.files.log import FileChunks
from crossline.io.files.patterns import matching_files

NOW_MS = 1_767_225_600_000


def file_log(
    root: Path, pattern: str = "in", chunk_bytes: int = 10, *, whole: bool = False, unended: Unended = "waits"
) -> FileChunks:
    return FileChunks([str(root / pattern)], str(root / "log"), chunk_bytes, whole_files=whole, unended=unended)


def taken(log: FileChunks) -> list[tuple[str, bytes]]:
    """What all chunks hold, as (file name, bytes)."""
    chunks = log.chunks(0, log.poll(NOW_MS))
    assert [c.sequence for c in chunks] == list(range(len(chunks)))
    return [(Path(c.path).name, read_chunk(c)) for c in chunks]


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
    assert taken(file_log(tmp_path, unended="counts")) == [("a", b"one\ntwo"), ("b", b"only")]


def test_files_count_in_name_order_and_later_ones_come_after(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden", "_aside", "half.tmp"):
        write(tmp_path, name, b"%s\n" % name.encode())
    (tmp_path / "in" / "folder").mkdir()
    log = file_log(tmp_path)
    assert [name for name, _ in taken(log)] == ["a.jsonl", "b.jsonl"]
    # What was numbered stays: a file that comes late comes last, whatever its name.
    write(tmp_path, "0.jsonl", b"zero\n")
    write(tmp_path, "b.jsonl", b"more\n")
    assert [name for name, _ in taken(log)] == ["a.jsonl", "b.jsonl", "b.jsonl", "0.jsonl"]


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\n")
    before = file_log(tmp_path).poll(NOW_MS)
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
    reader = ChunkList(str(tmp_path / "log"))
    reader.refresh()
    assert len(reader) == 0
    write(tmp_path, "a", b"one\ntwo\nthree\nfour\n")
    log = file_log(tmp_path)
    chunks = log.chunks(0, log.poll(NOW_MS))
    listing = tmp_path / "log" / "chunks.jsonl"
    whole = listing.stat().st_size
    with listing.open("ab") as file:
        file.write(b'{"sequence": 2, "path": "half of a li')
    before = listing.read_bytes()
    write(tmp_path, "a", b"five\n")
    reader.refresh()
    assert reader.chunks(0, 10) == chunks
    assert listing.read_bytes() == before
    os.truncate(listing, whole)
    assert log.poll(NOW_MS) == 3
    reader.refresh()
    assert reader.chunks(0, 10) == log.chunks(0, 10), "what was added since is read, and nothing twice"


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
            log.poll(NOW_MS)
        else:
            log = file_log(root, chunk_bytes=chunk_bytes)
    assume(not any(data.startswith(tuple(MAGIC)) for data in content.values()))  # these are archives
    chunks = taken(log)
    assert all(data.endswith(b"\n") for _, data in chunks)
    for name, data in content.items():
        assert b"".join(each for of, each in chunks if of == name) == data[: data.rfind(b"\n") + 1]


def parquet(footer: bytes) -> bytes:
    """As far as the format says how a file begins and ends; what stands between is not looked at here."""
    return b"PAR1 pages " + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_whole_files_are_one_chunk_each(tmp_path: Path) -> None:
    first, second, third = (parquet(footer) for footer in (b"a", b"longer than a chunk", b"today's, same name"))
    write(tmp_path, "a.parquet", first)
    write(tmp_path, "b.parquet", second)
    log = file_log(tmp_path, whole=True)
    assert taken(log) == [("a.parquet", first), ("b.parquet", second)]
    assert log.poll(NOW_MS) == 2
    (tmp_path / "in" / "a.parquet").write_bytes(third)
    assert log.poll(NOW_MS) == 3
    assert read_chunk(log.chunks(2, 3)[0]) == third


def test_a_parquet_file_without_its_end_is_not_finished(tmp_path: Path) -> None:
    whole = parquet(b"footer")
    log = file_log(tmp_path, whole=True)
    for size in range(1, len(whole)):  # the first four bytes are the mark at the end, too
        write(tmp_path, "a.parquet", whole[size - 1 : size])
        assert taken(log) == []
    assert [text.rpartition("/")[2] for text in log.left()] == ["a.parquet: bytes 0-24 are no whole file yet"]
    write(tmp_path, "a.parquet", whole[-1:])
    assert taken(log) == [("a.parquet", whole)]
    write(tmp_path, "b.parquet", b"of something else")
    assert len(taken(file_log(tmp_path, whole=True, unended="counts"))) == 2, "where files are finished, all are taken"


@pytest.mark.parametrize("data", [b"no mark at first, footer\6\0\0\0PAR1", b"PAR1foot\5\0\0\0PAR1", b"PAR1\0\0\0PAR1"])
def test_what_only_ends_like_a_parquet_file_is_not_finished(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "a.parquet", data)
    assert taken(file_log(tmp_path, whole=True)) == []


def test_a_file_that_vanishes_stays_in_the_list_and_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\n")
    log = file_log(tmp_path)
    (chunk,) = log.chunks(0, log.poll(NOW_MS))
    (tmp_path / "in" / "a").unlink()
    assert log.poll(NOW_MS) == 1
    with pytest.raises(SourceError, match=r"a: cannot read bytes 0-4.*put the file back"):
        read_chunk(chunk)


def test_a_file_cut_short_after_it_was_taken_in_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\n")
    log = file_log(tmp_path)
    (chunk,) = log.chunks(0, log.poll(NOW_MS))
    (tmp_path / "in" / "a").write_bytes(b"one\n")
    with pytest.raises(SourceError, match="4 bytes, expected at least 8"):
        read_chunk(chunk)
    assert log.poll(NOW_MS) == 2, "what is there now is another file"
    assert [(c.place[-4:], read_chunk(c)) for c in log.chunks(1, 2)] == [("/a#2", b"one\n")]


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
