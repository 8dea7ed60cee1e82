"""A slice with too many rows is cut in the order in which they are judged, whatever hostile times the logs have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.values import Records
from crossline.lake.replays.replay_cuts import OVERFULL, RUNS_MAX, SlicePart, parts_of
from crossline.lake.replays.replay_input import LakeBatches, LakeInput
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import records_layout
from crossline.lake.writing.log_clocks import LogClocks
from drawing import one_of_these
from unit.lake.lake_kit import CHECKPOINT, START_MS, SpooledPipeline

START, END = 1_000, 5_000_000_000_000
Row = tuple[int, str, int | None, int]  # the instant that its log had reached, log, sequence, position


@st.composite
def logs(draw: st.DrawFn, stream: str) -> list[Row]:
    """Topics, or files, whose logs reach instants that hardly differ, or one far ahead."""
    rows: list[Row] = []
    files = draw(st.booleans())
    reached = START
    for number in range(draw(st.integers(0, 5))):
        reached = reached if files else START
        position = draw(one_of_these(0, 10**12))
        for _ in range(draw(st.integers(0, 30))):
            position += draw(one_of_these(1, 1, 1, 5, 1_000))
            reached += draw(st.sampled_from([0, 0, 0, 1, 70, 4_000_000_000_000 // 40]))
            rows.append((reached, f"{stream}-{number}", number if files else None, position))
    return rows


def columns_of(rows: dict[str, list[Row]], batch_rows: int = 7) -> Any:
    def columns(stream: str, start_ms: int, end_ms: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        mine = [row for row in rows.get(stream, []) if start_ms <= row[0] < end_ms][::-1]  # files have any order
        for first in range(0, len(mine), batch_rows):
            part = mine[first : first + batch_rows]
            known = {
                "_reached_at": pa.array([row[0] * 1_000 for row in part], pa.timestamp("us", tz="UTC")),
                "_log": pa.array([row[1] for row in part], pa.large_string()),
                "_sequence": pa.array([row[2] for row in part], pa.int64()),
                "_position": pa.array([row[3] for row in part], pa.int64()),
            }
            yield pa.record_batch([known[name] for name in names], names=list(names))

    return columns


def judged_at(stream: str, row: Row) -> tuple[Any, ...]:
    """Where the engine puts a row of a batch: see evaluate/ingest_order.py."""
    reached, log, sequence, position = row
    return (reached, stream, sequence, position) if sequence is not None else (reached, log, 0, position)


def of_part(part: SlicePart, stream: str, rows: list[Row]) -> list[Row]:
    within = [row for row in rows if part.start_ms <= row[0] < part.end_ms]
    if part.pieces is None:
        return within
    of, pieces = part.pieces
    return [
        (reached, log, sequence, position)
        for reached, log, sequence, position in within
        if of == stream
        for piece in pieces
        if (piece.log, piece.sequence) == (log, -1 if sequence is None else sequence)
        and piece.first <= position < piece.end
    ]


@settings(max_examples=30)
@given(logs("a"), st.one_of(st.just([]), logs("b")), st.sampled_from([1, 2, 5, 16, 1_000]))
def test_parts_have_all_rows_in_order_and_are_small(a: list[Row], b: list[Row], rows_max: int) -> None:
    rows = {"a": a, "b": b}
    parts = parts_of(["a", "b"], columns_of(rows), START, END, rows_max)
    found: dict[str, list[Row]] = {"a": [], "b": []}
    for part in parts:
        mine = {stream: of_part(part, stream, rows[stream]) for stream in rows}
        count = sum(map(len, mine.values()))
        instants = {row[0] for each in mine.values() for row in each}
        assert count <= OVERFULL * rows_max or (len(instants) == 1 and all(mine.values()))
        for stream, each in mine.items():
            found[stream] += sorted(each, key=lambda row: judged_at(stream, row))  # as the engine orders a batch
    for stream, each in found.items():
        assert each == sorted(rows[stream], key=lambda row: judged_at(stream, row))
    reached = [(part.start_ms, part.end_ms) for part in parts]
    assert reached == sorted(reached)  # all streams come up to the same instants


def test_a_part_of_many_small_files_has_few_conditions() -> None:
    rows = {"a": [(START, f"f{number:04d}", number, 7) for number in range(3 * RUNS_MAX)]}
    parts = parts_of(["a"], columns_of(rows), START, END, 90)
    assert [len(part.pieces[1]) for part in parts if part.pieces is not None] == [RUNS_MAX] * 3


def test_the_rows_of_topics_are_read_part_by_part(tmp_path: Path) -> None:
    """Two partitions that a record of the far future has reached, and another one, from a real table."""
    pipeline = SpooledPipeline(tmp_path)
    pipeline.batch([])
    pipeline.write_all()
    config = pipeline.config
    far = START_MS + 10**12
    rows = [("t-0", n, START_MS if n < 3 else far) for n in range(10)]
    rows += [("t-1", n, far if n else START_MS) for n in range(5)] + [("t-10", n, START_MS + n) for n in range(4)]
    with closing(pipeline.reader()) as reader:
        layout = records_layout("payments", config.streams["payments"])
        known = {
            "_record_id": [f"{log}/{n}" for log, n, _ in rows],
            **{name: [at * 1_000 for _, _, at in rows] for name in ("_event_time", "_ingest_time", "_reached_at")},
            "_log": [log for log, _, _ in rows],
            "_position": [n for _, n, _ in rows],
            "_duplicate": [False] * len(rows),
            "_batch": [1] * len(rows),
            "_checkpoint": [CHECKPOINT] * len(rows),
            "_delivered_at": [START_MS * 1_000] * len(rows),
        }
        columns = [
            pa.array(known[field.name]).cast(field.type) if field.name in known else pa.nulls(len(rows), field.type)
            for field in layout.schema
        ]
        table = pa.table(columns, schema=layout.schema)
        assert LakeTable.ensure(reader.lake, layout).append(table, CHECKPOINT, 1) == len(rows)
    with closing(pipeline.reader()) as reader:
        given = LakeInput(reader, config.streams, {"payments": ()}, slice_rows=3)
        batches = [ids_of(dealt) for dealt in LakeBatches(given).batches(1)]
        assert [name for each in batches for name in each] == [
            *("t-0/0", "t-0/1", "t-0/2", "t-1/0", "t-10/0"),  # all up to START_MS
            *(f"t-10/{n}" for n in range(1, 4)),
            *(f"t-0/{n}" for n in range(3, 10)),
            *(f"t-1/{n}" for n in range(1, 5)),
        ]
        assert max(map(len, batches)) <= OVERFULL * 3
        pinned = LakeBatches(given).pin()
        for done in (0, 3, len(batches) - 1):  # a replay that goes on after that batch
            first = LakeBatches(given).pinned(pinned, ())
            taken = first.batches(1)
            for _ in range(done + 1):
                next(taken)
            rest = LakeBatches(LakeInput(reader, config.streams, {"payments": ()})).pinned(pinned, first.place())
            assert [ids_of(dealt) for dealt in rest.batches(1)] == batches[done + 1 :]


def ids_of(dealt: list[list[pa.RecordBatch]]) -> list[str]:
    return [name for batch in dealt[0] for name in batch.column("_record_id").to_pylist()]


def test_a_dead_letter_moves_no_clock() -> None:
    ingest_ms = np.array([10, 99, 12, 11], np.int64)
    records = Records("s", "t-0", pa.array(list("abcd")), ingest_ms, ingest_ms, np.arange(4), {})
    clocks = LogClocks({"t-0": 5})
    _, reached_ms = clocks.of(records, "t-0", np.array([True, False, True, True]))
    assert reached_ms.tolist() == [10, 10, 12, 12]
    assert clocks.reached_ms == {"t-0": 12}
    clocks.of(records, "t-1", np.zeros(4, np.bool_))
    assert clocks.reached_ms == {"t-0": 12}
