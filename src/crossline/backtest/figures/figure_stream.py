"""Figures of a pipeline's sources as a stream of Parquet files in a folder. It computes features and judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.backtest.backtest import BacktestSpec, OnBatch
from crossline.backtest.figures.figure_table import CHECKPOINT, FigureCounts, PartWriter, check_folder
from crossline.runtime.changes.rule_feed import FixedFeed
from crossline.runtime.pipeline.assemble import FeaturePipeline, RunOptions, assemble
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.stages.feature_table import FigureTypes
from crossline.settings.config import PipelineConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_figure_stream(
    spark: SparkSession,
    config: PipelineConfig,
    judged: BacktestSpec,
    columns: FigureTypes,
    folder: Path,
    *,
    drain: bool,
    on_batch: OnBatch | None = None,
    on_start: Callable[[Pipeline], None] | None = None,
) -> FigureCounts:
    """Write the figures of every record of the sources that ``judged`` reads to files in ``folder``, until stopped.

    The next run continues where this one ended. It needs the same sources and the same figures.

    Args:
        spark: The session.
        config: The pipeline.
        judged: The feature queries and the streams that they read.
        columns: The columns of the files.
        folder: The output; it is created if needed.
        drain: Whether to stop once the records that exist now are written.
        on_batch: Called after each batch.
        on_start: Called with the pipeline before it starts, to stop it from another thread.

    Raises:
        StoppedError: it was stopped before all existing records were written.
        UsageError: the folder holds other figures or unrelated files, or is not a folder.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    engine = config.engine.model_copy(update={"checkpoint": str(folder.absolute() / CHECKPOINT)})
    sources = {stream: source for stream, source in config.sources.items() if stream in judged.history.inputs}
    mine = replace(config, name=f"{config.name}-figures", engine=engine, sources=sources)
    writer = PartWriter(folder, columns)
    features = FeaturePipeline(FixedFeed(judged.rules, judged.lists, judged.tables), writer)
    pipeline = assemble(spark, mine, RunOptions(complete=drain, on_batch=on_batch), features)
    if on_start is not None:
        on_start(pipeline)
    pipeline.start()
    writer.counts.totals = pipeline.drain() if drain else pipeline.wait()
    pipeline.stop()
    return writer.counts
