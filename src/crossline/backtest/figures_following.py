"""Figures of the records of a pipeline's sources as they come, into a folder: it tells, and judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.backtest.backtest import Judged, OnBatch
from crossline.backtest.figures import CHECKPOINT, PartWriter, Told, check_folder
from crossline.runtime.changes.rule_feed import FixedFeed
from crossline.runtime.pipeline.assemble import FeaturePipeline, RunOptions, assemble
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.stages.feature_table import FigureTypes
from crossline.settings.config import PipelineConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def follow(
    spark: SparkSession,
    config: PipelineConfig,
    judged: Judged,
    columns: FigureTypes,
    folder: Path,
    *,
    drain: bool,
    on_batch: OnBatch | None = None,
    on_start: Callable[[Pipeline], None] | None = None,
) -> Told:
    """Write ``columns`` of every record of the sources that ``judged`` reads to files in ``folder``, until stopped.

    ``drain``: of what is there. The next run goes on where this one ended; ``config`` may not have other sources then,
    nor ``judged`` other figures.

    Raises:
        StoppedError: it was stopped before it had all that was there.
        UsageError: the folder holds other figures, or files that are not of this, or is no folder.
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
    writer.told.totals = pipeline.drain() if drain else pipeline.wait()
    pipeline.stop()
    return writer.told
