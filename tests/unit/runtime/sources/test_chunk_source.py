"""Offsets of a chunk log as Spark asks for them: bounded, never behind what was given out, at little cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from crossline.basics.errors import StateError
from crossline.io.chunks import ChunkRef
from crossline.io.files.identity import read_chunk
from crossline.runtime.sources import chunk_source
from crossline.runtime.sources.chunk_source import ChunkSource, chunks_between, pending_text, planned_end
from crossline.runtime.sources.references import chunk_rows, chunks_of


def reader(root: Path, **changes: Any) -> DataSourceStreamReader:
    source = ChunkSource(options_of(root, **changes))
    return source.streamReader(None)  # type: ignore[arg-type]


def options_of(root: Path, **changes: Any) -> dict[str, str]:
    patterns = json.dumps([str(root / "in")])
    bounds = {"chunkbytes": "50", "batchsize": "100", "tasks": "2"}
    rest = {"kind": "files", "wholefiles": "false", "unended": "waits"}
    return {"patterns": patterns, "folder": str(root / "list"), **bounds, **rest, **changes}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chunk_source, "LOOK_PART", 1)  # each time it is asked
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def give(folder: Path, count: int, size: int, first: int = 0) -> None:
    for number in range(first, first + count):
        (folder / f"{number:04d}").write_bytes(b"x" * (size - 1) + b"\n")


def batches(source: DataSourceStreamReader) -> list[int]:
    """How many chunks each batch has, to the end of what is there."""
    found, before = [], 0
    while (now := source.latestOffset()["chunk"]) > before:
        found.append(now - before)
        before = now
    return found


def test_batches_of_small_files_are_bounded_by_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(folder, 45, 10)
    assert batches(reader(folder.parent)) == [10, 10, 10, 10, 5]
    give(folder, 20, 10, first=45)
    monkeypatch.setattr(chunk_source, "CHUNKS_MAX", 7)
    assert batches(reader(folder.parent)) == [45 + 7, 7, 6], "and by their number"


def test_a_large_file_has_as_many_chunks_a_batch_as_there_is_room_for(folder: Path) -> None:
    (folder / "a").write_bytes(b"".join(b"x" * 19 + b"\n" for _ in range(20)))
    # 50 bytes reach into the third line: chunks of 60, which count as the 50 that they should have.
    assert batches(reader(folder.parent)) == [2, 2, 2, 1]


def test_a_chunk_that_is_larger_than_a_batch_is_one(folder: Path) -> None:
    give(folder, 3, 1_000)
    assert batches(reader(folder.parent, chunkbytes="5000")) == [1, 1, 1]


def test_a_restart_does_not_go_behind_what_was_given_out(folder: Path) -> None:
    give(folder, 15, 10)
    first = reader(folder.parent)
    assert first.latestOffset() == {"chunk": 10}
    again = reader(folder.parent, batchsize="1")
    # What Spark asks first after a restart: the batch that it had planned.
    runs = [run.chunks for run in again.partitions({"chunk": 0}, {"chunk": 10})]  # type: ignore[attr-defined]
    assert [len(run) for run in runs] == [5, 5]
    assert [c.sequence for run in runs for c in run] == list(range(10))
    assert again.latestOffset() == {"chunk": 11}


class TestTheNextBatch:
    """Its end is fixed with that of the one before where more is known than both take, and else is open."""

    def ends(self, root: Path, source: DataSourceStreamReader) -> list[tuple[int, int | None]]:
        """Where each batch ends, and what was fixed for the one after it."""
        found, before = [], 0
        while (now := source.latestOffset()["chunk"]) > before:
            found.append((now, planned_end(str(root / "list"), now)))
            before = now
        return found

    def test_fixed_while_there_is_a_backlog(self, folder: Path) -> None:
        give(folder, 45, 10)
        ends = self.ends(folder.parent, reader(folder.parent))
        assert ends == [(10, 20), (20, 30), (30, 40), (40, None), (45, None)]

    def test_what_comes_meanwhile_is_in_an_open_one(self, folder: Path) -> None:
        give(folder, 15, 10)
        source = reader(folder.parent)
        assert source.latestOffset() == {"chunk": 10}
        assert planned_end(str(folder.parent / "list"), 10) is None
        give(folder, 4, 10, first=15)
        assert source.latestOffset() == {"chunk": 19}

    def test_what_comes_meanwhile_is_not_in_a_fixed_one(self, folder: Path) -> None:
        (folder / "a").write_bytes(b"".join(b"x" * 9 + b"\n" for _ in range(21)))
        source = reader(folder.parent, chunkbytes="10")
        assert source.latestOffset() == {"chunk": 10}
        give(folder, 9, 10)
        assert planned_end(str(folder.parent / "list"), 10) == 20
        assert source.latestOffset() == {"chunk": 20}
        assert source.latestOffset() == {"chunk": 30}

    def test_a_restart_plans_anew(self, folder: Path) -> None:
        give(folder, 45, 10)
        assert reader(folder.parent).latestOffset() == {"chunk": 10}
        again = reader(folder.parent, batchsize="50")
        assert again.latestOffset() == {"chunk": 15}
        assert planned_end(str(folder.parent / "list"), 10) is None, "that was another batch"
        assert planned_end(str(folder.parent / "list"), 15) == 20

    def test_nothing_is_known_before_the_first(self, folder: Path) -> None:
        assert planned_end(str(folder.parent / "list"), 0) is None

    def test_a_damaged_note_says_nothing(self, folder: Path) -> None:
        (folder.parent / "list").mkdir()
        (folder.parent / "list" / "given.json").write_bytes(b'{"chunk": 1')
        assert planned_end(str(folder.parent / "list"), 1) is None

    def test_batches_grow_while_they_are_quick(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunk_source, "FIRST_BYTES", 20)
        clock = iter((0.0, 0.1, 0.2, 0.3, 0.4, 100.0, 200.0, 300.0, 400.0))
        monkeypatch.setattr(chunk_source, "perf_counter", lambda: next(clock))
        give(folder, 26, 10)
        # What was fixed with the batch before has the size of that one.
        assert batches(reader(folder.parent)) == [2, 2, 4, 4, 8, 2, 2, 2]


@pytest.mark.parametrize("left", [None, b"", b'{"seq', "half"])
def test_a_list_that_lost_what_was_given_out_is_damaged(folder: Path, left: bytes | str | None) -> None:
    """Else what comes next would be taken for what was judged, and never be."""
    give(folder, 2, 10, first=1)
    assert reader(folder.parent).latestOffset() == {"chunk": 2}
    chunks = folder.parent / "list/chunks.jsonl"
    if left is None:
        chunks.unlink()
    else:
        chunks.write_bytes(b"".join(chunks.read_bytes().splitlines(True)[:2]) if isinstance(left, str) else left)
    give(folder, 1, 10)
    again = reader(folder.parent)
    for ask in (again.latestOffset, lambda: again.partitions({"chunk": 0}, {"chunk": 2})):
        with pytest.raises(
            StateError, match=r"chunks\.jsonl is damaged: found not all of the chunks that were given out"
        ):
            ask()
    assert not chunks.exists() or chunks.stat().st_size < 400, "nothing is written"


def test_tasks_get_about_the_same_number_of_bytes(folder: Path) -> None:
    for name, size in (("a", 90), ("b", 10), ("c", 10), ("d", 10), ("e", 70)):
        (folder / name).write_bytes(b"x" * (size - 1) + b"\n")
    source = reader(folder.parent, batchsize="1000", chunkbytes="1000")
    end = source.latestOffset()
    runs = [run.chunks for run in source.partitions({"chunk": 0}, end)]  # type: ignore[attr-defined]
    assert [[Path(c.path).name for c in run] for run in runs] == [["a"], ["b", "c", "d", "e"]]
    assert source.partitions(end, end) == []


def test_looking_takes_a_tenth_of_the_time_at_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_source, "LOOK_PART", 10)
    clock = iter((0.0, 0.02, 0.1, 0.21, 0.22, 0.3, 10.0, 50.0, 50.9, 51.1, 51.2))
    monkeypatch.setattr(chunk_source, "monotonic", lambda: next(clock))
    source = reader(folder.parent)
    seen = []
    for number in range(6):
        give(folder, 1, 10, first=number)
        seen.append(source.latestOffset()["chunk"])
    # It took 20 ms, so until 0.2 s nothing is looked for; 10 ms, until 0.31; then 40 s, but never more than a second.
    assert seen == [1, 1, 3, 3, 5, 5]
    assert source.latestOffset() == {"chunk": 6}


def test_what_is_left_is_reported(folder: Path) -> None:
    source = reader(folder.parent)
    source.latestOffset()
    assert pending_text(str(folder.parent / "list")) == []
    (folder / "a").write_bytes(b"one\nhal")
    source.latestOffset()
    assert pending_text(str(folder.parent / "list")) == [f"{folder}/a: bytes 4-7 are no whole line yet"]
    (folder / "a").write_bytes(b"one\nhalf\n")
    source.latestOffset()
    assert pending_text(str(folder.parent / "list")) == []


def test_references_travel_as_rows(folder: Path) -> None:
    path = f"{folder}/\udcff.jsonl"
    chunks = [ChunkRef(0, path, 0, 4, "n", "h", "t", 7), ChunkRef(1, "b", 4, 9)]
    back = chunks_of(chunk_rows(chunks))
    assert back[0] == chunks[0]
    assert (back[1].place, back[1].head, back[1].listed_ms) == ("b", None, None)


def test_a_name_that_is_no_text(folder: Path) -> None:
    Path(f"{folder}/\udcff.jsonl").write_bytes(b"one\n")
    source = reader(folder.parent)
    end = source.latestOffset()["chunk"]
    (chunk,) = chunks_of(chunk_rows(chunks_between(options_of(folder.parent), 0, end)))
    assert (Path(chunk.place).name, read_chunk(chunk)) == ("\\udcff.jsonl", b"one\n")
