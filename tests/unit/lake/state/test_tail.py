"""What the lake has of topics from some offsets on: each record once, in the order of its log, up to the same ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crossline.lake.state.tail import LakeTail, by_log, by_topic, tail_of
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import (
    BATCH,
    CHECKPOINT,
    DEAD_LETTERS,
    DELIVERED,
    MISSING,
    TableLayout,
    records_layout,
)
from crossline.lake.watermark import Watermark, Watermarks
from unit.lake.lake_kit import START_MS, SpooledPipeline

STREAM = "payments"
NAMES = ("card-a-0", "card-a-1")  # topics may have hyphens


def put(pipeline: SpooledPipeline, layout: TableLayout, batch: int, rows: list[dict[str, Any]]) -> None:
    common = {BATCH: batch, CHECKPOINT: "one", DELIVERED: (START_MS + batch) * 1_000}
    made = pa.Table.from_pylist([{**row, **common} for row in rows], schema=layout.schema)
    LakeTable.ensure(pipeline.reader().lake, layout).append(made, "one", batch)


def record(log: str, position: int) -> dict[str, Any]:
    """Logs take turns on the ingest clock."""
    at_us = (START_MS + 10 * position + NAMES.index(log)) * 1_000
    times = {"_event_time": at_us, "_ingest_time": at_us, "_reached_at": at_us}
    return {"_record_id": f"{log}:{position}", "_log": log, "_position": position, "_duplicate": False, **times}


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """Positions 0 to 9 of two partitions, in batches of two; the last batch is not whole in the lake."""
    made = SpooledPipeline(tmp_path)
    layout = records_layout(STREAM, made.config.streams[STREAM])
    for batch in range(5):
        put(made, layout, batch, [record(log, at) for log in NAMES for at in (2 * batch, 2 * batch + 1)])
    Watermarks.of(made.reader().lake).append(Watermark("one", 3, START_MS + 3))
    return made


def tail(pipeline: SpooledPipeline, first: int, second: int | None = None, **clocks: int) -> LakeTail | None:
    offsets = {"0": first, **({} if second is None else {"1": second})}
    return tail_of(pipeline.config, {}, {STREAM: {"card-a": offsets}}, clocks, slice_rows=2)


def positions(found: LakeTail, begins: Mapping[str, int], ends: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
    """Of each slice the ids of its records, and where it ends."""
    return [
        ([each for rows in part.rows.get(STREAM, ()) for each in rows.column("_record_id").to_pylist()], part.ends)
        for part in found.slices({STREAM: by_topic(begins)}, ends)
    ]


def test_slices_have_each_record_once_up_to_the_watermark(pipeline: SpooledPipeline) -> None:
    found = tail(pipeline, 3, 6)
    assert found is not None
    assert found.ends == {STREAM: {"card-a": {"0": 8, "1": 8}}}, "batch 4 is not whole"
    slices = positions(found, dict(zip(NAMES, (3, 6), strict=True)), found.ends)
    ids = [each for ids, _ in slices for each in ids]
    assert sorted(ids) == sorted([f"{NAMES[0]}:{at}" for at in range(3, 8)] + [f"{NAMES[1]}:{at}" for at in (6, 7)])
    assert len(slices) > 1, "not tested"
    reached = dict(zip(NAMES, (3, 6), strict=True))
    for part, ends in slices:
        for log in NAMES:
            mine = [int(each.partition(":")[2]) for each in part if each.startswith(log)]
            assert mine == list(range(reached[log], reached[log] + len(mine))), "each log goes on where it stood"
            reached[log] += len(mine)
        assert by_log(ends[STREAM]) == reached
    assert slices[-1][1] == found.ends


def test_between_two_offsets(pipeline: SpooledPipeline) -> None:
    found = tail(pipeline, 0, 0)
    assert found is not None
    ends = {STREAM: by_topic(dict(zip(NAMES, (4, 2), strict=True)))}
    slices = positions(found, dict.fromkeys(NAMES, 2), ends)
    assert [each for ids, _ in slices for each in ids] == [f"{NAMES[0]}:2", f"{NAMES[0]}:3"]
    assert slices[-1][1] == ends
    assert positions(found, dict.fromkeys(NAMES, 8), found.ends) == [], "nothing is left"


def test_a_partition_that_came_later_is_read_from_its_beginning(pipeline: SpooledPipeline) -> None:
    found = tail(pipeline, 8)
    assert found is not None
    assert found.ends == {STREAM: {"card-a": {"0": 8, "1": 8}}}
    ids = [each for part, _ in positions(found, {NAMES[0]: 8}, found.ends) for each in part]
    assert ids == [f"{NAMES[1]}:{at}" for at in range(8)]


def test_dead_letters_are_behind_it_too(pipeline: SpooledPipeline) -> None:
    letter = {"stream": STREAM, "log": NAMES[0], "position": 8, "reason": "not_json", "planned_at": START_MS * 1_000}
    put(pipeline, DEAD_LETTERS, 3, [letter])
    found = tail(pipeline, 8, 8)
    assert found is not None
    assert found.ends == {STREAM: {"card-a": {"0": 9, "1": 8}}}
    assert positions(found, dict.fromkeys(NAMES, 8), found.ends) == [([], found.ends)]


def test_a_gap_behind_the_offsets_is_none(pipeline: SpooledPipeline) -> None:
    gap = {"stream": STREAM, "log": NAMES[0], "first": 2, "end": 5, "noted_at": START_MS * 1_000}
    put(pipeline, MISSING, 3, [gap])
    assert tail(pipeline, 4, 4) is None
    assert tail(pipeline, 5, 4) is not None


def test_the_clocks_bound_what_is_read(pipeline: SpooledPipeline) -> None:
    known = dict.fromkeys(NAMES, START_MS + 40)
    found = tail(pipeline, 5, 5, **known)
    assert found is not None
    assert found.from_ms == START_MS + 40
    ids = [each for part, _ in positions(found, dict.fromkeys(NAMES, 5), found.ends) for each in part]
    assert len(ids) == 6


def test_an_empty_lake_has_nothing(tmp_path: Path) -> None:
    assert tail(SpooledPipeline(tmp_path), 0, 0) is None
