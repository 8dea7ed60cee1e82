"""Bodies in files: what is read is what was written, wherever it stands."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crossline.basics.errors import StateError
from crossline.ingest.route.part_codec import pack
from crossline.ingest.route.partitioner import Part
from crossline.runtime.stages.rows import OUT, rows_of
from crossline.runtime.stages.spill import (
    BODY_BYTES_MIN,
    SpillBodies,
    body_of,
    clear,
    parts_of,
    spill_bodies,
    spilled_rows,
)
from crossline.runtime.work.task import Task

SIZES = [0, 1, 7, 8, BODY_BYTES_MIN - 1, BODY_BYTES_MIN, BODY_BYTES_MIN + 1, 4096 * 9, 70_001]


def body(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 255, size, np.uint8).tobytes()


def rows() -> list[tuple[int, int, str, bytes]]:
    return [
        (stage, shard, kind, body(size, number))
        for number, size in enumerate(SIZES)
        for stage, shard, kind in ((1, number, "parts"), (OUT, 0, "alerts"))
    ]


def columns(made: pa.RecordBatch) -> tuple[list[int], list[int], list[str], list[bytes]]:
    return tuple(made.column(number).to_pylist() for number in range(4))  # type: ignore[return-value]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    given = rows_of(rows())
    made = spill_bodies(given, tmp_path / "spill" / "a")
    assert columns(made)[:3] == columns(given)[:3]
    assert [bytes(body_of(each)) for each in columns(made)[3]] == columns(given)[3]
    moved = [len(after) < len(before) for after, before in zip(columns(made)[3], columns(given)[3], strict=True)]
    assert moved == [len(each) >= BODY_BYTES_MIN for *_, each in rows()]


def test_bodies_are_read_as_arrow_has_them(tmp_path: Path) -> None:
    """Its buffers are of signed bytes: those who decide, and who judge, are given them as they are."""
    made = spill_bodies(rows_of(rows()), tmp_path / "spill" / "a")
    assert [bytes(body_of(memoryview(each.as_buffer()))) for each in made.column(3)] == [each for *_, each in rows()]


def test_small_rows_make_no_file_and_stay_as_they_are(tmp_path: Path) -> None:
    given = rows_of([(1, 0, "parts", body(BODY_BYTES_MIN - 1, 1)), (OUT, 0, "alerts", body(BODY_BYTES_MIN - 1, 2))])
    assert spill_bodies(given, tmp_path / "spill" / "a") is given
    assert not (tmp_path / "spill").exists()


def test_pieces_are_written_as_the_body_that_they_are(tmp_path: Path) -> None:
    pieces = [body(3, 1), memoryview(body(BODY_BYTES_MIN, 2)), b"", body(5, 3)]
    given = [(1, 0, "parts", pieces), (1, 1, "parts", [b"small"]), (OUT, 0, "dead", body(BODY_BYTES_MIN, 4))]
    made = columns(spilled_rows(given, Task(spill_folder=tmp_path / "spill")))
    assert made[:3] == ([1, 1, OUT], [0, 1, 0], ["parts", "parts", "dead"])
    assert [bytes(body_of(each)) for each in made[3]] == [b"".join(pieces), b"small", given[2][3]]
    assert [len(each) < BODY_BYTES_MIN for each in made[3]] == [True] * 3
    assert columns(spilled_rows(given, Task()))[3] == [b"".join(pieces), b"small", given[2][3]]  # no folder: they stay


def test_each_task_and_each_try_of_one_has_files_of_its_own(tmp_path: Path) -> None:
    def step(_: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    large = rows_of([(1, 0, "parts", body(BODY_BYTES_MIN, 1))])
    put = SpillBodies(step, tmp_path)
    made = [row for _ in range(3) for row in put(Task(batch_id=7, partition=2), iter([large, large]))]
    assert len(list(tmp_path.iterdir())) == len(made) == 6
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
    clear(tmp_path / "never made")


def test_parts_outlive_their_files_and_damage_is_reported(tmp_path: Path) -> None:
    array = np.arange(50_000, dtype=np.int64)
    packed = pack([Part(3, {"stream": "s"}, {"x": array}), Part(3, {"stream": "t"}, {"x": array[::-1].copy()})])
    made = columns(spill_bodies(rows_of([(1, 3, "parts", packed)]), tmp_path / "a"))[3]
    parts = list(parts_of(made, "a batch"))
    clear(tmp_path)
    gc.collect()
    assert [meta["stream"] for meta, _ in parts] == ["s", "t"]
    assert all(np.array_equal(np.sort(arrays["x"]), array) for _, arrays in parts)

    made = columns(spill_bodies(rows_of([(1, 3, "parts", packed)]), tmp_path / "b"))[3]
    with (tmp_path / "b").open("r+b") as file:
        file.seek(100_000)
        file.write(b"\xff")
    with pytest.raises(StateError, match="a batch: checksum differs"):
        list(parts_of(made, "a batch"))
