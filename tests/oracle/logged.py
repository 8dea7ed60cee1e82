"""Decisions of a run whose stages go through one process, with states in memory or on the log alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest import mock

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec
from crossline.runtime.snapshot.snapshot import SnapshotSource, StaticSnapshot
from crossline.runtime.stages.decision_stage import Judge
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.stages.stages import in_one, stages_of
from crossline.runtime.state_log import cache
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task


class LoggedJudge:
    """Judges on the log alone: no state outlives a batch."""

    def __init__(self, source: SnapshotSource, folder: Path) -> None:
        self._source, self._cache = source, ShardCache(str(folder), per_query=False, held_max=0)

    def __call__(
        self, task: Task, depth: int, given: Mapping[int, Sequence[memoryview]], watch: Stopwatch
    ) -> Iterator[StageRows]:
        for shard, blobs in given.items():
            cache._CACHE.clear()
            yield ShardJudge(self._source, self._cache, "q", task.batch_id, depth).shard(shard, blobs, watch)


def decided(
    judged: BacktestSpec, folder: Path, shards: int, batch_bytes: int, judge: Callable[[SnapshotSource], Judge]
) -> Any:
    """All decisions of a run, as they are emitted."""
    source = StaticSnapshot(judged.snapshot(judged.rules, shards).to_json())
    found: list[dict[str, Any]] = []
    with mock.patch.object(in_process, "BATCH_BYTES", batch_bytes):
        # What was cut once in a folder stays cut so.
        inputs = in_process.Inputs.of(judged.history.files(), Path(mkdtemp(dir=folder)), 1)
        stages = stages_of(source, inputs.intake, judge(source))
        for number, dealt in enumerate(inputs.batches(1)):
            rows = in_one(stages, Task(batch_id=number), iter(dealt[0]))
            pairs = [
                each
                for batch in rows
                for each in zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True)
            ]
            found += collect_outcome(pairs, None).decisions
    for each in found:
        del each["decided_at"]
    return found
