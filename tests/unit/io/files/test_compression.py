"""Compressed files: their text in chunks, once they are whole. What is expected is the text that was compressed."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import SourceError
from crossline.io.chunks import ChunkRef
from crossline.io.files import compression
from crossline.io.files.compression import PackedText, packed_cuts, read_packed
from crossline.io.files.forward_readers import OPEN_MAX
from crossline.io.files.listing import ChunkList
from crossline.io.files.log import FileChunks
from crossline.io.files.text import csv_header, read_text
from crossline.runtime.sources.fetch import FileFetch

CHUNK = 1_000


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    compression.FORWARD_READERS.clear()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}
either = pytest.mark.parametrize("pack", PACK.values(), ids=PACK)


def lines(first: int, last: int) -> bytes:
    return b"".join(b"%d %s\n" % (number, b"x" * (number % 40)) for number in range(first, last))


def log_of(folder: Path, unended: Any = "waits", chunk: int = CHUNK) -> FileChunks:
    return FileChunks([str(folder / "in" / "*")], str(folder / "list"), chunk, unended=unended)


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@either
def test_the_chunks_of_a_file_are_its_text(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    text = lines(0, 900)
    put(tmp_path, "a.gz", pack(text))
    put(tmp_path, "b", lines(0, 3))  # others go on as ever
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(7))
    mine = [chunk for chunk in chunks if chunk.path.endswith("a.gz")]
    assert [(c.start, c.end) for c in mine] == list(
        zip([0, *(c.end for c in mine)], [c.end for c in mine], strict=False)
    )
    assert [read_text(chunk) for chunk in mine] == [text[c.start : c.end] for c in mine]
    assert not len(compression.FORWARD_READERS), "what was read to its end is closed"
    assert mine[-1].end == len(text)
    assert all(CHUNK <= c.end - c.start < CHUNK + 50 and read_text(c).endswith(b"\n") for c in mine[:-1])
    assert read_text(chunks[-1]) == lines(0, 3)
    again = log_of(tmp_path)
    assert again.chunks(0, again.poll(8)) == chunks


def skippable(number: int, data: bytes) -> bytes:
    """A frame that readers pass over (RFC 8878, 3.1.2): a magic number of sixteen, its length, anything."""
    return struct.pack("<II", 0x184D2A50 + number, len(data)) + data


@pytest.mark.parametrize("number", [0, 7, 15])
def test_an_archive_may_begin_with_frames_that_are_passed_over(tmp_path: Path, number: int) -> None:
    text = lines(0, 100)
    frames = [skippable(number, b"of the tool"), skippable(15 - number, b""), zstd(text[:999]), skippable(3, b"\n{}\n")]
    put(tmp_path, "a", b"".join([*frames, zstd(text[999:])]))
    log = log_of(tmp_path)
    assert b"".join(read_text(chunk) for chunk in log.chunks(0, log.poll(7))) == text


def test_one_that_ends_in_such_a_frame_waits(tmp_path: Path) -> None:
    path = put(tmp_path, "a", skippable(0, b"of the tool")[:-1])
    log = log_of(tmp_path)
    assert log.chunks(0, log.poll(7)) == []
    path.write_bytes(skippable(0, b"of the tool") + zstd(b"1\n"))
    assert [read_text(chunk) for chunk in log.chunks(0, log.poll(8))] == [b"1\n"]


@given(
    pieces=st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\0", b"\n")), max_size=30),
    start=st.integers(0, 50),
    size=st.integers(1, 40),
)
def test_cuts_are_ends_of_lines(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], start: int, size: int
) -> None:
    text = b"\n".join(pieces)
    path = tmp_path_factory.mktemp("cuts") / "a"
    path.write_bytes(gzip.compress(text))
    begin = text.rfind(b"\n", 0, min(start, len(text))) + 1
    opened = PackedText(path.open("rb"))
    ends = list(packed_cuts(opened, begin, size))
    opened.close()
    expected, at = [], begin
    while at < len(text):
        found = text.find(b"\n", min(at + size, len(text)) - 1)
        at = found + 1 if found >= 0 else len(text)
        expected.append(at)
    assert ends == expected


def test_a_process_decompresses_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", gzip.compress(lines(0, 900)))
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(0))
    opened: list[ChunkRef] = []
    real = compression.open_chunk
    monkeypatch.setattr(compression, "open_chunk", lambda chunk: opened.append(chunk) or real(chunk))
    for chunk in (*chunks[::2], chunks[1], chunks[2], *chunks[-2:]):
        assert read_packed(chunk) == lines(0, 900)[chunk.start : chunk.end]
    assert len(opened) == 2, "anew only for one before those that were read"


def test_no_more_than_some_files_are_kept_open(tmp_path: Path) -> None:
    for number in range(7):
        put(tmp_path, f"{number}", gzip.compress(lines(number, 300)))
    log = log_of(tmp_path)
    chunks = [c for c in log.chunks(0, log.poll(0)) if c.start == 0]
    assert [read_packed(chunk) for chunk in chunks] == [lines(n, 300)[: c.end] for n, c in enumerate(chunks)]
    assert len(compression.FORWARD_READERS) == OPEN_MAX


@either
def test_a_file_that_is_being_written_waits_until_it_is_whole(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    whole = pack(os.urandom(3_000).hex().encode() + b"\n")
    log = log_of(tmp_path)
    for size in (1, 5, len(whole) // 2, len(whole) - 1):
        path = put(tmp_path, "a", whole[:size])
        assert log.poll(0) == 0
        unit = "archive" if size >= 4 else "line"
        assert log.left() == [f"{path}: bytes 0-{size} are no whole {unit} yet"]
    assert log_of(tmp_path, "document").poll(0) == 0
    put(tmp_path, "a", whole)
    assert log.poll(0) == 1
    assert log.left() == []
    (chunk,) = log.chunks(0, 1)
    assert (chunk.start, chunk.end, chunk.packed) == (0, 6_001, len(whole))


@either
@pytest.mark.parametrize("spoil", ["short", "tail", "behind"])
def test_one_that_is_no_archive_to_its_end_is_one_chunk_with_its_fault(
    tmp_path: Path, pack: Callable[[bytes], bytes], spoil: str
) -> None:
    data = pack(lines(0, 900))
    spoiled = {"short": data[:-3], "tail": data[:-5] + b"?" + data[-4:], "behind": data + b"more"}[spoil]
    put(tmp_path, "a", spoiled)
    if spoil == "tail" and pack is zstd:
        pytest.skip("damage cannot be detected without a checksum")
    log = log_of(tmp_path, "counts")
    (chunk,) = log.chunks(0, log.poll(0))
    assert (chunk.start, chunk.end, chunk.packed) == (0, len(spoiled), len(spoiled))
    assert (chunk.fault == "the bytes end before the archive does") == (spoil == "short")
    if spoil != "short":  # nothing that comes later mends it
        waiting = FileChunks([str(tmp_path / "in" / "*")], str(tmp_path / "list2"), CHUNK)
        assert waiting.poll(0) == 1
    assert log.poll(1) == 1, "reported once"
    again = log_of(tmp_path, "counts")
    assert again.chunks(0, again.poll(2)) == [chunk]


def test_archives_one_behind_the_other(tmp_path: Path) -> None:
    first, second = lines(0, 200), lines(200, 400)
    path = put(tmp_path, "a", gzip.compress(first))
    log = log_of(tmp_path)
    before = log.chunks(0, log.poll(0))
    with path.open("ab") as file:
        file.write(gzip.compress(second))
    after = log.chunks(0, log.poll(20_000))
    assert after[: len(before)] == before
    assert b"".join(map(read_text, after)) == first + second
    assert after[len(before)].start == len(first)


def test_nothing_compressed_is_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a", gzip.compress(b""))
    for unended in ("waits", "counts"):
        log = log_of(tmp_path, unended)
        assert (log.poll(0), log.left()) == (0, [])


def test_a_list_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    text = lines(0, 900)
    put(tmp_path, "a", gzip.compress(text))
    whole = log_of(tmp_path).poll(0)
    listed = tmp_path / "list" / "chunks.jsonl"
    every = listed.read_bytes().splitlines(keepends=True)
    for kept in range(len(every)):
        listed.write_bytes(b"".join(every[:kept]) + every[kept][:7])
        log = log_of(tmp_path)
        chunks = log.chunks(0, log.poll(0))
        assert len(chunks) == whole
        assert b"".join(map(read_text, chunks)) == text


def test_a_file_under_another_name_and_one_that_is_gone(tmp_path: Path) -> None:
    path = put(tmp_path, "a", gzip.compress(lines(0, 900)))
    log = log_of(tmp_path)
    count = log.poll(0)
    path.rename(path.with_name("b"))
    assert log.poll(20_000) == count, "not read again"
    (moved,) = log.chunks(1, 2)
    assert (moved.path, moved.place) == (str(path.with_name("b")), str(path))
    assert read_text(moved) == lines(0, 900)[moved.start : moved.end]
    path.with_name("b").unlink()
    (first,) = log.chunks(0, 1)
    with pytest.raises(SourceError, match=rf"cannot read bytes 0-{first.packed}"):
        read_text(first)


def test_the_header_and_lines_by_their_offsets(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfid,at\r\n" + b"".join(b"p%d,%d\n" % (n, n) for n in range(900))
    put(tmp_path, "a", gzip.compress(text))
    put(tmp_path, "b", gzip.compress(b"id,at"))
    log = log_of(tmp_path)
    chunks = log.chunks(0, log.poll(0))
    assert csv_header(chunks[3]) == (["id", "at"], text.index(b"\n") + 1)
    assert csv_header(chunks[-1]) == (["id", "at"], 5)
    known = ChunkList(str(tmp_path / "list"))
    known.refresh()
    wanted = {text.index(line): line for line in (b"p0,0", b"p899,899", b"p500,500")}
    fetch = FileFetch("csv", str(tmp_path / "list"))
    assert fetch(chunks[0].place, list(wanted), float("inf")) == wanted
