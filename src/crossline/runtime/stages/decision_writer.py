"""Decisions on every record, written by the task that made them: what is many does not pass the driver.

Each shard of ids has a file of its own, which one task at a time writes. It takes each decision once, by its id, so a
batch that is run again, by whichever process, adds nothing. A topic has each batch of a shard once (``DecisionTopic``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from crossline.basics.errors import UsageError
from crossline.evaluate.decisions.batch import Decided, Placed, packed
from crossline.evaluate.decisions.blocks import Table
from crossline.evaluate.decisions.json_lines import DecisionLines
from crossline.io.sinks.base import Delivery, RetryPolicy, deliver_all
from crossline.io.sinks.jsonl import decision_identity
from crossline.io.sinks.once_file import OnceFile
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.rows import DECIDED, DECISIONS, OUT
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.task import Task

if TYPE_CHECKING:
    from crossline.io.kafka.transactions.decision_topic import DecisionTopic

# About half a minute. A task's wait cannot be cancelled: a disk that takes longer ends the run; the next goes on.
TOPIC_WAIT = RetryPolicy(max_ms=5_000, attempts_max=10)


@dataclass(frozen=True, slots=True)
class DecisionWriter:
    """Writes the decisions of a batch on the ids of a shard. ``topic``: also written to; None: none."""

    task: Task
    shard: int
    topic: DecisionTopic | None = None

    def write(self, snapshot: PlanSnapshot, decided: Decided) -> StageRows:
        """Tell them where the tasks do; rows of what is left for the sinks."""
        deciding = snapshot.deciding
        if deciding is None or (deciding.folder is None and self.topic is None):
            return _rows(decided.few) + [_row(table, lines, bare=True) for table, lines in decided.lines]
        values = sorted(decided.values(), key=lambda each: tuple(each[0]))
        texts = [decision for _, decision in values]
        if texts and deciding.folder is not None:
            path = Path(deciding.folder) / f"decisions-{self.shard:04d}.jsonl"
            with closing(_ShardFile(path, deciding.pipeline)) as file:
                deliver_all([file], Delivery(deciding.pipeline, self.task.batch_id, decisions=texts), TOPIC_WAIT)
        if texts and self.topic is not None:
            batch = (self.task.batch_id, self.task.began_ms or 0)
            self.topic.give(self.task.query_id, batch, (self.shard, snapshot.shards), texts)
        left = [each for each in values if each[1]["reasons"] or each[1]["kind"] == "revision"]
        if self.topic is None:
            return _rows(left)
        return _rows([(place, {**texts, "sink_topic": None}) for place, texts in left])  # it is there already


def _rows(few: Sequence[Placed]) -> StageRows:
    return [(OUT, 0, DECISIONS, orjson.dumps(few))] if few else []


def _row(table: Table, lines: DecisionLines, *, bare: bool) -> tuple[int, int, str, bytes]:
    return OUT, 0, DECIDED, packed(table, lines, bare=bare)


class _ShardFile:
    """A file as a sink: what it cannot take now it is given again. It is open for one batch, since others write it too.

    Guarantee: exactly once, by the ids of the lines (see OnceFile).
    """

    def __init__(self, path: Path, pipeline: str) -> None:
        self._file = OnceFile(path, pipeline, decision_identity)

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("files of decisions are no sink of their own; use decisions: {emit: all, path: …}")

    def open(self) -> None:
        """Nothing before the first delivery."""

    def deliver(self, delivery: Delivery) -> None:
        """Append the decisions that are not there yet."""
        self._file.open()
        self._file.append([dict(decision) for decision in delivery.decisions])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
