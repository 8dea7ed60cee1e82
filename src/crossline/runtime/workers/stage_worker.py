"""A process that runs stages of batches of files beside Spark: its part of the chunks, or of the shards.

Spark plans a batch of files and keeps its offsets and commits. Its tasks would cost half a second of Java's processor
time a batch, whatever the batch has: the plans of two jobs, their tasks, what these hand to Python and collect. So
processes that were forked with all loaded run the same stages over the same chunks, and have the same state servers
judge them. Whatever is not as it should be, they leave to Spark, which runs the batch as any other.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from crossline.io.chunks import ChunkRef
from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.runtime.machine.freed_memory import keep_freed_memory
from crossline.runtime.machine.process_title import set_process_title
from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.sources.intake import Intake, StreamIntake
from crossline.runtime.sources.references import chunk_rows
from crossline.runtime.stages.rows import rows_of, stage_rows
from crossline.runtime.stages.spill import SpillBodies
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.state_server import announced_folder, use_folder
from crossline.runtime.workers.state_servers import StateServerJudge

TITLE = "cl-stage"


@dataclass(frozen=True, slots=True)
class StageSetup:
    """What a process is to know once.

    ``folder``: Java's, where state servers are announced. ``spill_folder``: where large bodies of rows go. ``topic``:
    where decisions on all records go. ``elsewhere``: see ``StateServerJudge``.
    """

    source: SnapshotSource
    cache: ShardCache
    state_servers: int
    folder: Path
    spill_folder: Path
    intakes: Mapping[str, Intake]
    topic: DecisionTopic | None = None
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class StageRequest:
    """Run stage number ``stage`` of ``task`` on its part: ``chunks`` by stream for the first, else ``rows``."""

    task: Task
    stage: int
    chunks: Mapping[str, Sequence[ChunkRef]] = field(default_factory=dict)
    rows: StageRows = field(default_factory=list)


class StageWorker:
    """Runs stages, one after the other."""

    def __init__(self, setup: StageSetup) -> None:
        self._setup = setup
        self._intake = StreamIntake(setup.intakes)
        self._judge = StateServerJudge(
            setup.source, setup.cache, setup.state_servers, setup.topic, elsewhere=setup.elsewhere
        )

    def run(self, request: StageRequest) -> StageRows | None:
        """The rows that the stage makes, large bodies in files; None where Spark is to run the batch."""
        where = announced_folder(self._setup.folder)
        use_folder(where)
        if where is None:
            return None
        kept = self._setup.topic is not None
        stages = stages_of(self._setup.source, self._intake, self._judge, kept=kept, patient=False)
        step = SpillBodies(stages[request.stage].step, self._setup.spill_folder)
        return [row for batch in step(request.task, _given(request)) for row in stage_rows(batch)]


def _given(request: StageRequest) -> Iterator[pa.RecordBatch]:
    if request.stage:
        yield rows_of(request.rows)
        return
    for stream, chunks in request.chunks.items():
        yield StreamIntake.marked(stream, chunk_rows(chunks))


def serve(connection: Connection) -> None:
    """Run requests until the caller is gone; a failed batch is left to Spark, which reports the failure."""
    keep_freed_memory()
    worker = StageWorker(pickle.loads(connection.recv_bytes()))  # noqa: S301 - from the process that had this one forked
    while True:
        request: StageRequest = pickle.loads(connection.recv_bytes())  # noqa: S301 - as above
        try:
            answer = worker.run(request)
        except Exception as error:  # noqa: BLE001 - as above
            sys.stderr.write(f"a batch is left to Spark: {type(error).__name__}: {error}\n")
            answer = None
        connection.send_bytes(pickle.dumps(answer))


def main() -> None:
    """Serve whichever process had this process forked, at its standard input."""
    set_process_title(TITLE)
    with suppress(EOFError, ConnectionError):  # it is also reset, where the end comes with something unread
        serve(Connection(0))
