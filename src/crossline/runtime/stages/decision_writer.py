"""Decisions on every record, written by the task that made them: what is many does not pass the driver.

Each shard of ids has a file of its own, which one task at a time writes. It takes each decision once, by its id, so a
batch that is run again, by whichever process, adds nothing. A topic has each batch of a shard once (``DecisionTopic``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import orjson

from crossline.basics.errors import UsageError
from crossline.evaluate.decisions.batch import Decided, Placed, packed
from crossline.evaluate.decisions.blocks import Table
from crossline.evaluate.decisions.json_lines import DecisionLines
from crossline.io.sinks.base import Delivery, RetryPolicy, deliver_all
from crossline.io.sinks.jsonl import append_decisions, decision_identity
from crossline.io.sinks.once_file import OnceFile
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.decision_order import in_order
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
        decisions = in_order(decided.few, [packed(table, lines, bare=True) for table, lines in decided.lines])
        if decisions and deciding.folder is not None:
            path = Path(deciding.folder) / f"decisions-{self.shard:04d}.jsonl"
            with closing(_ShardFile(path, deciding.pipeline)) as file:
                deliver_all([file], Delivery(deciding.pipeline, self.task.batch_id, decisions=decisions), TOPIC_WAIT)
        if decisions and self.topic is not None:
            batch = (self.task.batch_id, self.task.began_ms or 0)
            self.topic.give(self.task.query_id, batch, (self.shard, snapshot.shards), decisions)
        few = [each for each in decided.few if _for_sinks(each)]
        left = [each for each in decided.lines if not each[1].bare.all()]
        if self.topic is not None:  # it is there already
            few = [_without_topic(each) for each in few]
            left = [(table, _lines_without_topic(lines)) for table, lines in left]
        return _rows(few) + [_row(table, lines, bare=False) for table, lines in left]


def _for_sinks(placed: Placed) -> bool:
    """Whether the decision goes to the sinks too."""
    _, decision = placed
    return bool(decision["reasons"]) or decision["kind"] == "revision"


def _without_topic(placed: Placed) -> Placed:
    """A decision for the sinks, where its topic has it already."""
    place, decision = placed
    return place, {**decision, "sink_topic": None}


def _lines_without_topic(lines: DecisionLines) -> DecisionLines:
    """The same of lines, which end with the name of their topic."""
    none = b'"sink_topic":null}'
    ends = [orjson.dumps({"sink_topic": head.sink_topic})[1:] for head in lines.heads]
    cut = np.array([len(end) for end in ends], np.int64)[lines.head]
    left = np.diff(lines.offsets) - cut
    raw, starts = lines.text.tobytes(), lines.offsets[:-1].tolist()
    kept = [raw[start : start + size] for start, size in zip(starts, left.tolist(), strict=True)]
    text = np.frombuffer(none.join([*kept, b""]), np.uint8)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(left + len(none))])
    heads = [head._replace(sink_topic=None) for head in lines.heads]
    return replace(lines, text=text, offsets=offsets, heads=heads)


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
        append_decisions(self._file, delivery)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
