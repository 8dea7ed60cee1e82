"""Judging with states that live in the process that judges, and end with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from crossline.core.judge.shard import ShardState, judge
from crossline.engine.book.book import BookSource
from crossline.engine.hops.aside import parts_of
from crossline.engine.hops.judging import sent
from crossline.engine.state.cache import Sent
from crossline.engine.work.stopwatch import Stopwatch
from crossline.engine.work.task import Task


@dataclass(slots=True)
class MemoryJudge:
    """Judges the shards of one process, batch after batch; nothing is logged."""

    source: BookSource
    states: dict[tuple[int, int], ShardState] = field(default_factory=dict)

    def __call__(
        self, task: Task, level: int, given: Mapping[int, Sequence[memoryview]], watch: Stopwatch
    ) -> Iterator[Sent]:
        """What comes of each shard."""
        book = self.source.current()
        for shard, blobs in given.items():
            watch.start()
            state = self.states.get((level, shard))
            if state is None:
                state = self.states[level, shard] = book.new_state()
            parts = list(parts_of(blobs, f"parts of batch {task.batch_id} for shard {shard}"))
            watch.lap("unpack")
            output = judge(book.plans_at(level), state, parts, book.bounds)
            watch.lap("judge")
            yield sent(book, level, output, state)
