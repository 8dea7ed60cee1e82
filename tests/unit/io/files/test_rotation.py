"""Files that are renamed, replaced, cut short, copied and removed: every whole line once, whatever they are called."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from crossline.basics.errors import SourceError
from crossline.io.files.identity import open_chunk, read_chunk
from crossline.io.files.listing import ChunkList
from crossline.io.files.log import FileChunks

NOW_MS = 1_767_225_600_000
LONG = b"x" * 300 + b"\n"  # more than the first bytes by which a file is known


def log_of(root: Path, pattern: str = "*") -> FileChunks:
    return FileChunks([str(root / "in" / pattern)], str(root / "list"), 1 << 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def read(log: FileChunks, start: int = 0) -> list[tuple[str, int, bytes]]:
    """(name of its positions, first byte, bytes) of all chunks from ``start`` on."""
    chunks = log.chunks(start, log.poll(NOW_MS))
    return [(Path(c.place).name, c.start, read_chunk(c)) for c in chunks]


@pytest.mark.parametrize("pattern", ["*", "*.log"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("new", [b"n\n", b"new one\nnew two\nnew three\n"])
def test_a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_beginning(
    folder: Path, pattern: str, restart: bool, new: bytes
) -> None:
    log = log_of(folder.parent, pattern)
    add(folder / "a.log", b"one\ntwo\n")
    assert read(log) == [("a.log", 0, b"one\ntwo\n")]
    add(folder / "a.log", b"three\n")
    (folder / "a.log").rename(folder / "a.log.1")
    add(folder / "a.log", new)
    if restart:
        log = log_of(folder.parent, pattern)
    assert read(log, 1) == [("a.log", 8, b"three\n"), ("a.log#2", 0, new)]
    add(folder / "a.log.1", b"from a writer that had it open\n")
    add(folder / "a.log", b"more\n")
    assert [data for _, _, data in read(log, 3)] == [b"from a writer that had it open\n", b"more\n"]


def test_twice_between_two_looks(folder: Path) -> None:
    log = log_of(folder.parent, "*.log")
    add(folder / "a.log", b"one\n")
    log.poll(NOW_MS)
    (folder / "a.log").rename(folder / "a.log.1")
    add(folder / "a.log", b"two\n")
    log.poll(NOW_MS)
    add(folder / "a.log.1", b"rest of one\n")
    add(folder / "a.log", b"rest of two\n")
    (folder / "a.log.1").rename(folder / "a.log.2")
    (folder / "a.log").rename(folder / "a.log.1")
    add(folder / "a.log", b"three\n")
    assert read(log, 2) == [
        ("a.log", 4, b"rest of one\n"),
        ("a.log#2", 4, b"rest of two\n"),
        ("a.log#3", 0, b"three\n"),
    ]


@pytest.mark.parametrize("head", [b"id,amount\n", LONG])
def test_files_that_begin_alike_are_reported_apart_by_where_they_are(folder: Path, head: bytes) -> None:
    log = log_of(folder.parent, "*.csv")
    add(folder / "a.csv", head)
    log.poll(NOW_MS)
    add(folder / "a.csv", b"1,1\n")
    (folder / "a.csv").rename(folder / "a.csv.1")
    add(folder / "a.csv", head + b"2,2\n")
    assert [data for _, _, data in read(log, 1)] == [b"1,1\n", head + b"2,2\n"]


@pytest.mark.parametrize("pattern", ["*", "*.log"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("new", [b"", b"n\n", b"new one\nnew two\nnew three\n"])
def test_a_file_that_was_copied_and_cut_short(folder: Path, pattern: str, restart: bool, new: bytes) -> None:
    log = log_of(folder.parent, pattern)
    add(folder / "a.log", b"one\ntwo\n")
    log.poll(NOW_MS)
    add(folder / "a.log", b"three\n")
    shutil.copy(folder / "a.log", folder / "a.log.1")
    os.truncate(folder / "a.log", 0)
    add(folder / "a.log", new)
    if restart:
        log = log_of(folder.parent, pattern)
    assert sorted(data for _, _, data in read(log, 1)) == sorted(filter(None, [b"three\n", new]))
    add(folder / "a.log", b"more\n")
    assert b"".join(data for _, _, data in read(log, 1))[-5:] == b"more\n"


@pytest.mark.parametrize("pattern", ["*", "*.log"])
def test_a_copy_that_has_the_number_of_an_empty_file_that_is_gone(folder: Path, pattern: str) -> None:
    log = log_of(folder.parent, pattern)
    add(folder / "a.log", b"one\ntwo\n")
    (folder / "empty.log").touch()
    assert read(log) == [("a.log", 0, b"one\ntwo\n")]
    add(folder / "a.log", b"three\n")
    # As a new file gets the number of one that was deleted: the same file under the copy's name.
    (folder / "empty.log").rename(folder / "a.log.1")
    (folder / "a.log.1").write_bytes((folder / "a.log").read_bytes())
    os.truncate(folder / "a.log", 0)
    assert read(log, 1) == [("a.log.1", 8, b"three\n")]


@pytest.mark.parametrize("pattern", ["*", "*.log"])
def test_a_file_that_is_renamed_while_it_is_empty(folder: Path, pattern: str) -> None:
    log = log_of(folder.parent, pattern)
    (folder / "a.log").touch()
    assert read(log) == []
    (folder / "a.log").rename(folder / "a.log.1")
    add(folder / "a.log.1", b"from a writer that had it open\n")
    assert [data for _, _, data in read(log)] == [b"from a writer that had it open\n"]


def test_a_file_cut_short_when_all_was_read_begins_anew(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\ntwo\n")
    log.poll(NOW_MS)
    (folder / "a.log").write_bytes(b"three\nfour\nfive\n")
    assert log.poll(NOW_MS) == 2
    assert [(c.start, read_chunk(c)) for c in log.chunks(1, 2)] == [(0, b"three\nfour\nfive\n")]


@pytest.mark.parametrize("way", ["cut", "replaced", "removed"])
def test_what_was_seen_and_never_read_is_reported_and_ends_the_run_once(folder: Path, way: str) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\nhalf of tw")
    assert log.poll(NOW_MS) == 1
    (folder / "a.log").rename(folder.parent / "elsewhere")
    if way == "cut":
        (folder.parent / "elsewhere").rename(folder / "a.log")
        os.truncate(folder / "a.log", 0)
    if way != "removed":
        add(folder / "a.log", b"three\n")
    with pytest.raises(SourceError, match=r"a\.log: bytes 4-14, no whole line when they were last seen, are gone"):
        log.poll(NOW_MS)
    again = log_of(folder.parent)
    assert [c.start for c in again.chunks(1, again.poll(NOW_MS))] == ([] if way == "removed" else [0])


def test_half_a_line_that_a_writer_takes_back_is_no_loss(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\nhalf of tw")
    log.poll(NOW_MS)
    os.truncate(folder / "a.log", 4)
    add(folder / "a.log", b"two\n")
    assert read(log, 1) == [("a.log", 4, b"two\n")]


def test_a_half_line_goes_along_when_its_file_is_renamed(folder: Path) -> None:
    log = log_of(folder.parent, "*.log")
    add(folder / "a.log", b"hal")
    assert log.poll(NOW_MS) == 0
    (folder / "a.log").rename(folder / "a.log.1")
    add(folder / "a.log", b"new\n")
    assert [data for _, _, data in read(log)] == [b"new\n"]
    add(folder / "a.log.1", b"f\n")
    assert [data for _, _, data in read(log, 1)] == [b"half\n"]


def test_an_editor_that_writes_a_new_file_and_renames_it_over(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", LONG + b"two\n")
    log.poll(NOW_MS)
    add(folder / ".new", LONG + b"two\nadded\n")
    (folder / ".new").replace(folder / "a.log")
    assert read(log, 1) == [("a.log", 305, b"added\n")]
    add(folder / ".new", LONG + b"too\nadded\n")
    (folder / ".new").replace(folder / "a.log")
    assert read(log, 2) == [("a.log#2", 0, LONG + b"too\nadded\n")], "what was read was changed: another file"


def test_a_number_used_again_is_another_file(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\ntwo\n")
    log.poll(NOW_MS)
    os.link(folder / "a.log", folder.parent / "kept")  # holds the number
    (folder / "a.log").unlink()
    (folder.parent / "kept").write_bytes(b"another\nand more\n")
    (folder.parent / "kept").rename(folder / "b.log")
    assert [(name, data) for name, _, data in read(log, 1)] == [("b.log", b"another\nand more\n")]


def test_a_file_with_two_names_is_read_once(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\n")
    os.link(folder / "a.log", folder / "b.log")
    (folder / "c.log").symlink_to(folder / "a.log")
    assert [data for _, _, data in read(log)] == [b"one\n"]
    add(folder / "b.log", b"two\n")
    (folder / "a.log").unlink()
    assert [data for _, _, data in read(log, 1)] == [b"two\n"]


def test_a_copy_of_a_file_that_is_still_there_is_a_file(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", LONG)
    log.poll(NOW_MS)
    shutil.copy(folder / "a.log", folder / "b.log")
    assert read(log, 1) == [("b.log", 0, LONG)]


def test_a_batch_that_is_run_again_finds_its_bytes_under_another_name(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\ntwo\n")
    (given,) = log.chunks(0, log.poll(NOW_MS))
    (folder / "a.log").rename(folder / "old")
    (folder / "a.log").write_bytes(b"uno\ndos\ntres\n")
    assert read_chunk(given) == b"one\ntwo\n"
    log.poll(NOW_MS)
    assert log.chunks(0, 1)[0].path == str(folder / "old")
    (folder / "old").unlink()
    with pytest.raises(SourceError, match="bytes 0-8 are not those that were read before, and no file in its folder"):
        open_chunk(given)
    (folder / "restored.bak").write_bytes(b"one\ntwo\n")
    assert read_chunk(given) == b"one\ntwo\n"


def test_a_list_of_an_older_version_is_read_on(folder: Path) -> None:
    listing = folder.parent / "list" / "chunks.jsonl"
    listing.parent.mkdir()
    path = str(folder / "a.log")
    old = [{"sequence": 0, "path": path, "start": 0, "end": 4}, {"sequence": 1, "path": path, "start": 4, "end": 8}]
    listing.write_text("".join(json.dumps(line) + "\n" for line in old))
    add(folder / "a.log", b"one\ntwo\nthree\n")
    log = log_of(folder.parent)
    assert read(log) == [("a.log", 0, b"one\n"), ("a.log", 4, b"two\n"), ("a.log", 8, b"three\n")]
    assert [c.listed_ms for c in log.chunks(0, 3)] == [None, None, NOW_MS]
    assert [line.split('"')[1] for line in listing.read_text().splitlines()[:2]] == ["sequence"] * 2
    (folder / "a.log").rename(folder / "b.log")
    add(folder / "a.log", b"new\n")
    assert [data for _, _, data in read(log_of(folder.parent), 3)] == [b"new\n"]


def test_a_position_is_found_again(folder: Path) -> None:
    log = log_of(folder.parent)
    add(folder / "a.log", b"one\ntwo\n")
    log.poll(NOW_MS)
    (folder / "a.log").rename(folder / "b.log")
    add(folder / "a.log", b"uno\n")
    log.poll(NOW_MS)
    add(folder / "b.log", b"three\n")
    log.poll(NOW_MS)
    reader = ChunkList(str(folder.parent / "list"))
    reader.refresh()
    name = str(folder / "a.log")
    found = {place: reader.find(*place) for place in ((name, 4), (name, 8), (name, 14), (f"{name}#2", 0), ("no", 0))}
    assert {place: chunk and read_chunk(chunk) for place, chunk in found.items()} == {
        (name, 4): b"one\ntwo\n",
        (name, 8): b"three\n",
        (name, 14): None,
        (f"{name}#2", 0): b"uno\n",
        ("no", 0): None,
    }
