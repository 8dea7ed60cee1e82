"""A backtest in Spark: the pipeline of `crossline run` over files, until all records are judged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BATCH_BYTES, BacktestResult, BacktestSpec, OnBatch
from crossline.io.sinks.outfile import draft_file, make_folder
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.rule_feed import FixedFeed
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.pipeline.planner import PipelineSettings
from crossline.runtime.sources.inputs import file_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def backtest(
    spark: SparkSession,
    judged: BacktestSpec,
    output: Path,
    *,
    decisions: Path | None = None,
    on_batch: OnBatch | None = None,
    on_start: Callable[[Pipeline], None] | None = None,
) -> BacktestResult:
    """Run a backtest in Spark; the arguments are those of ``in_process.backtest``.

    Raises:
        StoppedError: it was stopped; ``output`` is unchanged.
        UsageError: an input matches no file, or ``output`` cannot be replaced.
    """
    cores = max(1, spark.sparkContext.defaultParallelism)
    make_folder(output)
    with ExitStack() as made, draft_file(output) as draft, own_folder_for("backtest") as path:
        folder = str(path)
        most = judged.batch_bytes(BATCH_BYTES)
        sources = [file_source(files, folder, cores, most, complete=True) for files in judged.history.files()]
        settings = PipelineSettings("backtest", folder, cores, 0, 2 * cores, backfill=False)
        feed = FixedFeed(judged.rules, judged.lists, judged.tables)
        snapshot = judged.snapshot(RuleSet(), cores)
        writer = AlertWriter(draft, made.enter_context(draft_file(decisions)) if decisions is not None else None)
        pipeline = Pipeline(spark, settings, snapshot, sources, feed, [writer], on_batch)
        if on_start is not None:
            on_start(pipeline)
        totals = pipeline.start().drain()
    return BacktestResult(output, totals)
