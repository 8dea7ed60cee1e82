"""When the processes of a pool end: with the last outcome, before the caller is done with it."""

from __future__ import annotations

import multiprocessing
import signal
from itertools import islice
from pathlib import Path

import pyarrow as pa

from crossline.runtime.local.pool import Pool
from crossline.runtime.stages.rows import OUT, ArrowBatches, rows_of
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.task import Task

BATCHES = 5


def passed(task: Task, _: ArrowBatches) -> ArrowBatches:
    yield rows_of([(OUT, 0, "batch", str(task.batch_id).encode())])


def test_with_the_last_outcome_the_processes_end(tmp_path: Path) -> None:
    """The system takes their memory back while the last outcome is written."""
    batches = ([[pa.record_batch({"number": [number]})]] for number in range(BATCHES))
    with Pool([Stage("pass", passed, by_shard=False)], 2, tmp_path) as pool:
        outcomes = pool.run(batches)
        found = list(islice(outcomes, BATCHES - 1))
        children = multiprocessing.active_children()
        assert len(children) == 2
        assert all(each.is_alive() for each in children)
        found.append(next(outcomes))
        for each in children:
            each.join(60)
        assert {each.exitcode for each in children} == {-signal.SIGKILL}
        assert list(outcomes) == []
    # A batch is asked of both processes.
    assert [[int(body) for _, body in rows] for rows in found] == [[number] * 2 for number in range(BATCHES)]
