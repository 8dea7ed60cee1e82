"""Backtest: the pipeline's own engine over files of the past, with a state that is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crossline.connectors.base import Delivery
from crossline.connectors.outfile import drafted, make_folder
from crossline.core.alertjson import json_bytes
from crossline.core.errors import UsageError
from crossline.core.plan import PARTITION_LAG_MS
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet
from crossline.core.schema import StreamSpec
from crossline.core.shard import Bounds
from crossline.engine.book import Book
from crossline.engine.pipeline import Pipeline, PipelineSettings, Totals
from crossline.engine.rulefeed import FixedFeed
from crossline.engine.runtime.temp import own_folder_for
from crossline.engine.source.inputs import FileInput, file_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class History:
    """What is replayed: files by stream, read in name order as finished."""

    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]]


class AlertWriter:
    """A sink that writes every alert, shadow ones too, as a JSON line to a file of its own.

    It is for one run: there are no restarts, and nothing is promised over them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("the backtest's writer is not a sink for pipelines; use jsonl")

    def open(self) -> None:
        """Start an empty file."""
        self._file = self._path.open("wb")

    def deliver(self, delivery: Delivery) -> None:
        """Append."""
        for alert in delivery.alerts:
            self._file.write(json_bytes(alert) + b"\n")

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        self._file.close()


@dataclass(slots=True)
class Replay:
    """One run over ``history``: where its alerts lie, and its figures."""

    path: Path
    totals: Totals = field(default_factory=Totals)


def backtest(
    spark: SparkSession,
    rules: RuleSet,
    history: History,
    output: Path,
    *,
    defaults: Defaults | None = None,
    lists: Mapping[str, Sequence[Any]] | None = None,
    bounds: Bounds | None = None,
    on_batch: Callable[[Delivery, Totals], None] | None = None,
    on_start: Callable[[Pipeline], None] | None = None,
) -> Replay:
    """Judge ``history`` by ``rules``; alerts go to ``output``, which appears whole when all is judged.

    ``defaults`` and ``bounds`` None: those of a pipeline that says nothing about them. ``on_start`` is given the
    pipeline before it starts, to stop it from another thread.

    Raises:
        StoppedError: it was stopped; ``output`` is as it was.
        UsageError: an input matches no file, or ``output`` is nothing to write over.
    """
    cores = max(1, spark.sparkContext.defaultParallelism)
    make_folder(output)
    with drafted(output) as draft, own_folder_for("backtest") as path:
        folder = str(path)
        sources = [
            file_source(
                FileInput(stream, tuple(patterns), history.streams[stream].format),
                folder,
                cores,
                BATCH_BYTES,
                complete=True,
            )
            for stream, patterns in history.inputs.items()
        ]
        streams = {name: history.streams[name] for name in history.inputs}
        book = Book(RuleSet(), streams, defaults or Defaults(), cores, bounds or Bounds(PARTITION_LAG_MS))
        settings = PipelineSettings("backtest", folder, cores, 0, 2 * cores, backfill=False)
        pipeline = Pipeline(
            spark, settings, book, sources, FixedFeed(rules, lists or {}), [AlertWriter(draft)], on_batch
        )
        if on_start is not None:
            on_start(pipeline)
        totals = pipeline.start().drain()
    return Replay(output, totals)
