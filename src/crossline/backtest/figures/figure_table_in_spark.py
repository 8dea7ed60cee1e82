"""Figures of every record in Spark: the pipeline of `crossline run` over files, with feature queries alone.

The table is one file, so its rows go through the driver, one batch of the input at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.backtest.backtest import BATCH_BYTES, BacktestSpec, OnBatch
from crossline.backtest.figures.figure_table import FigureCounts, TableWriter
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.rule_feed import FixedFeed
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.pipeline.planner import PipelineSettings
from crossline.runtime.sources.inputs import file_source
from crossline.runtime.stages.feature_table import FigureTypes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_figures(
    spark: SparkSession,
    judged: BacktestSpec,
    columns: FigureTypes,
    output: Path,
    *,
    on_batch: OnBatch | None = None,
    on_start: Callable[[Pipeline], None] | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> FigureCounts:
    """As ``figure_table.write_figures``: the same rows in the same order."""
    cores = max(1, spark.sparkContext.defaultParallelism)
    with own_folder_for("figures") as path:
        folder = str(path)
        sources = [file_source(files, folder, cores, batch_bytes, complete=True) for files in judged.history.files()]
        settings = PipelineSettings("figures", folder, cores, 0, 2 * cores, backfill=False)
        feed = FixedFeed(judged.rules, judged.lists, judged.tables)
        writer = TableWriter(output, columns)
        pipeline = Pipeline(spark, settings, judged.snapshot(RuleSet(), cores), sources, feed, [writer], on_batch)
        if on_start is not None:
            on_start(pipeline)
        writer.counts.totals = pipeline.start().drain()
    return writer.counts
