"""Rows that come in any batches are judged slice by slice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossline.runtime.spark.sliced_flow import InSlices, TakeSlices, by_slice
from crossline.runtime.work.task import Task


def batches_of(numbers: list[int], cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """Rows of these slices, each with its place, cut into batches; some are empty."""
    whole = pa.record_batch({"slice": pa.array(numbers, pa.int32()), "place": list(range(len(numbers)))})
    edges = [0, *sorted(min(cut, len(numbers)) for cut in cuts), len(numbers)]
    for start, end in itertools.pairwise(edges):
        yield whole.slice(start, end - start)


@given(st.lists(st.integers(0, 5), max_size=20), st.lists(st.integers(0, 20), max_size=6))
def test_each_slice_once_and_in_order(numbers: list[int], cuts: list[int]) -> None:
    numbers = sorted(numbers)
    found = [
        (number, [place for batch in held for place in batch.column("place").to_pylist()])
        for number, held in by_slice(batches_of(numbers, cuts), 6)
    ]
    assert found == [(at, [n for n, mine in enumerate(numbers) if mine == at]) for at in range(6)]


def rows(shards: list[int]) -> pa.RecordBatch:
    count = len(shards)
    columns = [[0] * count, shards, ["x"] * count, [b""] * count]
    return pa.RecordBatch.from_arrays([pa.array(each) for each in columns], names=["stage", "shard", "kind", "body"])


def test_slices_are_taken_in_one_by_one() -> None:
    """A reference is read by its own slice's call, and its rows carry the slice's number."""
    seen: list[tuple[int, list[int]]] = []

    def read(reference: bytes) -> Iterator[pa.RecordBatch]:
        yield rows([*reference])

    def step(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        seen.append((task.batch_id, [n for each in held for n in each.column("shard").to_pylist()]))
        yield from held

    given_rows = pa.record_batch({"slice": [3, 4], "reference": [b"\x01\x02", b"\x05"]})
    out = pa.Table.from_batches(TakeSlices(read, step)(iter([given_rows])))
    assert seen == [(3, [1, 2]), (4, [5])]
    assert out.select(["slice", "shard"]).to_pydict() == {"slice": [3, 3, 4], "shard": [1, 2, 5]}


def test_a_judging_task_goes_through_all_slices() -> None:
    """Those without rows for its shard too: its clock and its state go on."""
    tasks: list[Task] = []

    def step(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks.append(task)
        yield from batches

    mine = rows([0, 0])
    numbered = pa.RecordBatch.from_arrays(
        [pa.array([1, 3], pa.int32()), *mine.columns], names=["slice", *mine.schema.names]
    )
    out = pa.Table.from_batches(InSlices(step, 5, 4)(iter([numbered])))
    assert [(each.batch_id, each.partition, each.partitions) for each in tasks] == [(n, 0, 4) for n in range(5)]
    assert out.column("slice").to_pylist() == [1, 3]
