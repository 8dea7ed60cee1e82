"""Pieces of the input that any process may read."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pyarrow as pa

from crossline.runtime.local.pool import QUEUED, Pool
from crossline.runtime.stages.rows import OUT, ArrowBatches, rows_of
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.task import Task

WITHIN_S = 300.0


def test_pieces_for_any_process_are_read_by_the_one_that_has_least_to_do(tmp_path: Path) -> None:
    """The first process reads nothing before the other one has read all but what the first has already been given."""
    pieces = 8
    read_by_other = multiprocessing.get_context("fork").Semaphore(0)

    def reading(task: Task, batches: ArrowBatches) -> ArrowBatches:
        for each in batches:
            if task.partition:
                read_by_other.release()
            else:
                for _ in range(pieces - QUEUED if each.column(0)[0].as_py() < QUEUED else 0):
                    assert read_by_other.acquire(timeout=WITHIN_S)
            yield rows_of([(OUT, 0, "by", f"{each.column(0)[0]}@{task.partition}".encode())])

    batch = [[pa.record_batch({"number": [number]})] for number in range(pieces)]
    with Pool([Stage("read", reading, by_shard=False)], 2, tmp_path, anywhere=True) as pool:
        (outcome,) = pool.run([batch])
    bodies = [body.decode().split("@") for _, body in outcome]
    assert [int(number) for number, _ in bodies] == list(range(pieces))
    assert [process for _, process in bodies].count("0") == QUEUED
