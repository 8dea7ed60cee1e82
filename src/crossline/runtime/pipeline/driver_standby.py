"""What judges on the driver's machine while no executor can: processes beside the driver, with states of their own.

Executors follow each other's shards. Where one is left of several, nobody follows it, until the one that comes in place
of the lost one has started its Java and read the states: seconds. So for that time state servers beside the driver
follow all shards. If the last executor is lost, too, processes beside the driver run the batches, as they do where all
of Spark is on one machine, until an executor is warm. States there are caches of the logs as everywhere: what they hold
is checked by the number of the batch, and what they lack is read.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from crossline.basics.errors import StoppedError
from crossline.logs import get_logger
from crossline.runtime.pipeline.in_process_runner import InProcessRunner, ranges_of
from crossline.runtime.pipeline.planner import PipelineSettings
from crossline.runtime.pipeline.stage_processes import StageProcesses, chunks_of_batch
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.spark_internals.shard_placement import ShardPlacement
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.stages.spill import clear
from crossline.runtime.stages.stages import stage_count
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.driver_states import FollowRequest
from crossline.runtime.workers.forked_process import answered, forked_process
from crossline.runtime.workers.state_server import ANNOUNCEMENT

BEGIN_S_MAX = 10.0  # until the place for state servers is there; it takes milliseconds
MODULE = "crossline.runtime.workers.driver_states"

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(slots=True)
class DriverStates:
    """State servers beside the driver, which follow all shards; ``folder``: where they are announced."""

    zygote: Callable[[], Path | None]
    folder: Path
    state_servers: int
    stopping: threading.Event
    _keeper: Connection | None = None
    _asked: bool = False  # the keeper has a request that it has not answered
    _impossible: bool = False  # names of sockets would be too long

    def begin(self) -> bool:
        """Have a place for them; False where there can be none."""
        if self._keeper is not None and self._keeper.poll():
            with suppress(EOFError, OSError):
                self._keeper.recv_bytes()
                self._asked = False
                return True
            self.end()
        if self._keeper is not None:
            return True
        zygote = self.zygote()
        if zygote is None or self._impossible:
            return False
        with suppress(EOFError, OSError):
            self._keeper = forked_process(zygote, MODULE)
            self._keeper.send_bytes(pickle.dumps(self.folder))
            if answered(self._keeper, BEGIN_S_MAX, self.stopping):
                there: bool = pickle.loads(self._keeper.recv_bytes())  # noqa: S301 - from our own process
                self._impossible = not there
                if there:
                    return True
                log.warning(
                    "no room for states beside the driver: names of sockets are too long", folder=str(self.folder)
                )
        self.end()
        return False

    def follow(self, work: ShardJudge, shards: int) -> None:
        """Have them read all shards up to the batch before that of ``work``. Nobody waits for it."""
        if not self.begin() or self._keeper is None or self._asked:
            return
        try:
            self._keeper.send_bytes(pickle.dumps(FollowRequest(work, range(shards), self.state_servers)))
            self._asked = True
        except OSError:
            self.end()

    def end(self) -> None:
        """Have them end, and what they hold with them."""
        if self._keeper is not None:
            self._keeper.close()
            (self.folder / ANNOUNCEMENT).unlink(missing_ok=True)
        self._keeper, self._asked = None, False


class DriverStandby:
    """Follows all shards beside the driver, and judges batches there. Used by one thread at a time.

    ``run``: has processes run a batch of so many stages on ``states``; ``close`` ends them.
    """

    def __init__(
        self,
        states: DriverStates,
        source: SnapshotSource,
        cache: ShardCache,
        run: Callable[[Task, int], Rows | None],
        close: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._states = states
        self._source = source
        self._cache = cache
        self._run = run
        self._close = close
        self._stopping = stopping
        self._holds = self._judges = False

    def watched(
        self, task: Task, snapshot: PlanSnapshot, placement: ShardPlacement, judged: Callable[[], T]
    ) -> T | Rows | None:
        """What ``judged``, a job of Spark, gives; the outcome rows from here where no warm executor is left for it.

        None where none is left, and nobody here can run the batch either: then it waits for one.
        """
        warm = placement.warm
        if warm is None or len(warm) > 1:
            self._rest()
        else:
            self._follow(task, snapshot)
        if warm is None:
            return judged()
        if warm:
            with placement.job() as is_lost:
                try:
                    found = judged()
                except Exception:
                    if self._stopping.is_set() or not is_lost():
                        raise
                else:
                    self._judges = False
                    return found
        if not self._judges:
            log.warning("no executor is left: the driver's machine judges", batch_id=task.batch_id)
        self._holds = self._judges = True
        rows = self._run(task, stage_count(snapshot)) if self._states.begin() else None
        if rows is None and self._stopping.is_set():
            raise StoppedError("stopped while no executor was left; the next start judges the batch again")
        return rows

    def _follow(self, task: Task, snapshot: PlanSnapshot) -> None:
        """``task`` is of the batch that will be judged next: read what came before it."""
        if not self._holds:
            log.info("fewer than two executors are left: the driver's machine follows all shards")
            self._holds = True
        self._states.follow(ShardJudge(self._source, self._cache, task.query_id, task.batch_id), snapshot.shards)

    def _rest(self) -> None:
        """Executors follow each other: nothing is held here any more."""
        if self._holds:
            log.info("executors follow each other: the driver's machine lets go of all shards")
            self.close()

    def close(self) -> None:
        """Have all processes end."""
        self._close()
        self._states.end()
        self._holds = self._judges = False


def run_chunks(
    processes: StageProcesses, settings: PipelineSettings, sources: Sequence[SourcePlan], spill_folder: Path
) -> Callable[[Task, int], Rows | None]:
    """What runs batches of chunks in ``processes``."""

    def run(task: Task, stages: int) -> Rows | None:
        chunks = chunks_of_batch(settings.checkpoint, task.batch_id, sources)
        try:
            return None if chunks is None else processes.run(task, chunks, None, stages)
        finally:
            clear(spill_folder)

    return run


def run_ranges(
    runner: InProcessRunner, settings: PipelineSettings, sources: Sequence[SourcePlan]
) -> Callable[[Task, int], Rows | None]:
    """What runs batches of topics in the process of ``runner``."""

    def run(task: Task, _: int) -> Rows | None:
        ranges = ranges_of(settings.checkpoint, task.batch_id, sources)
        return None if ranges is None else runner.run(task, ranges)

    return run
