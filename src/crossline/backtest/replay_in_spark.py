"""A replay of stored records on Spark: the stages of the pipeline over slices of the store, as one job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BATCH_BYTES, BacktestResult, BacktestSpec, OnBatch
from crossline.backtest.in_process import LocalRun
from crossline.basics.errors import UsageError
from crossline.io.objects.file_stores import file_store
from crossline.io.sinks.outfile import draft_file, make_folder
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.snapshot.rule_costs import Costs
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource, StaticSnapshot
from crossline.runtime.snapshot.snapshot_distribution import SnapshotDistribution
from crossline.runtime.spark.sliced_flow import OnTasks, outcomes_of_slices
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.work.totals import Totals
from crossline.runtime.workers.kernel_warmup import warm_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A task holds the state of its shard, and Spark runs as many tasks at once as there are cores.
SHARD_RECORDS = 2_000_000
SHARDS_MAX = 1_024


def replay(
    spark: SparkSession,
    judged: BacktestSpec,
    output: Path,
    *,
    decisions: Path | None = None,
    on_batch: OnBatch | None = None,
    on_start: Callable[[LocalRun], None] | None = None,
    on_tasks: OnTasks | None = None,
    shards: int | None = None,
    tables_root: str | None = None,
) -> BacktestResult:
    """Replay the records of a store on Spark; the same alerts and decisions, in the same order, as in processes.

    Args:
        spark: The session.
        judged: The rules, and the store (``stored``).
        output: The file of alerts, JSON lines. It is replaced as a whole when the run ends.
        decisions: The file of decisions, likewise; None: no decisions are written.
        on_batch: Called after each slice, once the tasks are done.
        on_start: Called with the run before it starts, to stop it from another thread.
        on_tasks: Called now and then with how many tasks of the running stage are done, and how many it has.
        shards: Into how many shards the keys are divided; by default one for each 2,000,000 records, and two for each
            core at least.
        tables_root: A folder or prefix that all executors see, for lookup tables; None: they see those of this machine.

    Raises:
        StoppedError: It was stopped; ``output`` is unchanged.
        UsageError: There is no store, or ``output`` cannot be replaced.
    """
    if judged.stored is None:
        raise UsageError("only a replay of the lake runs here; a backtest of files has a runner of its own")
    make_folder(output)
    run = LocalRun(stopping=(stopping := threading.Event()))
    slices = judged.stored.slices(judged.batch_bytes(BATCH_BYTES))
    count = shards or _shards(slices.records, spark.sparkContext.defaultParallelism)
    snapshot = judged.snapshot(judged.rules, count)
    warm_for(snapshot.plans())  # compile errors are raised here
    if on_start is not None:
        on_start(run)
    totals, costs = Totals(), Costs()
    with ExitStack() as made:
        source = made.enter_context(_distributed(snapshot, tables_root, stopping))
        drafts = [made.enter_context(draft_file(path)) for path in (output, decisions) if path is not None]
        writer = AlertWriter(*drafts)
        writer.open()
        made.callback(writer.close)
        stages = stages_of(source, slices.intake, MemoryJudge(source))
        run.running, totals.first_s = True, time.monotonic()
        found = outcomes_of_slices(spark, slices, stages, count, stopping, on_tasks)
        for number, rows in made.enter_context(closing(found)):
            outcome = collect_outcome(rows, None)
            delivery = outcome.delivery("replay", number)
            writer.deliver(delivery)
            totals.add(delivery)
            totals.cost(costs.of(snapshot, outcome.costs))
            totals.share = (number + 1) / len(slices.references)
            if on_batch is not None:
                on_batch(delivery, totals)
    return BacktestResult(output, totals)


def _shards(records: int, cores: int) -> int:
    return min(SHARDS_MAX, max(2 * cores, -(-records // SHARD_RECORDS)))


@contextmanager
def _distributed(
    snapshot: PlanSnapshot, tables_root: str | None, stopping: threading.Event
) -> Iterator[SnapshotSource]:
    """``snapshot`` as tasks get it; with ``tables_root`` its tables are there for as long as this lasts."""
    if tables_root is None or not snapshot.tables:
        yield StaticSnapshot(snapshot.to_json())
        return
    store = file_store(tables_root)
    try:
        yield SnapshotDistribution(tables_root, stopping).for_backfill(snapshot)
    finally:
        for name in store.names():
            store.delete(name)
