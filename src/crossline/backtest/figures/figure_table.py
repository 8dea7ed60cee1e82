"""Figures of every record of historical files, as a table: the pipeline's own stages in local processes.

``figure_table_in_spark`` runs the same in Spark. Both give the same rows in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from crossline.backtest.backtest import BATCH_BYTES, BacktestSpec, OnBatch
from crossline.backtest.in_process import LocalRun, inputs_of
from crossline.backtest.input_batches import BacktestInputs
from crossline.basics.errors import UsageError
from crossline.basics.fields import FieldKind
from crossline.basics.streams.schema import StreamSpec
from crossline.io.sinks.delivery import Delivery
from crossline.io.sinks.outfile import draft_file
from crossline.rules.figure_tables import PlacedFigure, spec_read
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.local.pool import Pool
from crossline.runtime.machine.processors import processors
from crossline.runtime.machine.temporary_folders import own_folder_for, sweep
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot
from crossline.runtime.stages.feature_table import FeatureBatch, FigureTypes
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.work.totals import Totals
from crossline.runtime.workers.kernel_warmup import warm_for

_TYPES: dict[FieldKind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}


CHECKPOINT = ".checkpoint"  # in the folder of a figure stream: the files and the checkpoint belong together


@dataclass(slots=True)
class FigureCounts:
    """Counts of a figure table.

    Attributes:
        totals: The totals of the run.
        records: Records read.
        copies: Duplicates among them.
        rows: Rows written.
        missing: By figure, the rows without a value.
        beyond: By figure, the integers that exceed 64 bits.
    """

    totals: Totals = field(default_factory=Totals)
    records: int = 0
    copies: int = 0
    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    beyond: dict[str, int] = field(default_factory=dict)

    @property
    def late(self) -> int:
        """Records that were too late for every figure."""
        return self.records - self.copies - self.rows

    def add(self, batch: FeatureBatch, table: pa.Table, columns: FigureTypes) -> None:
        """Count ``batch``, which was written as ``table``."""
        records, copies = batch.counted(columns.stream)
        self.records, self.copies, self.rows = self.records + records, self.copies + copies, self.rows + len(table)
        for name in columns.types:
            self.missing[name] = self.missing.get(name, 0) + table.column(name).null_count
        for name, count in batch.beyond.items():
            self.beyond[name] = self.beyond.get(name, 0) + count


def figure_types(figures: Sequence[PlacedFigure], streams: Mapping[str, StreamSpec]) -> FigureTypes:
    """The columns of ``figures``, all of one stream."""
    stream, fields = figures[0].stream, {each.name: each.fields for each in figures}
    spec = spec_read(stream, fields.values(), streams)
    return FigureTypes(stream, {name: _TYPES[each.kind(spec)] for name, each in fields.items()})


class TableWriter:
    """A sink that writes the figures of every record to a Parquet file: a group of rows for each batch.

    It is for one run without restarts. ``counts``: what was written so far.
    """

    def __init__(self, path: Path, columns: FigureTypes) -> None:
        self._path = path
        self._columns = columns
        self.counts = FigureCounts()

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Refused: pipeline files cannot name this sink."""
        raise UsageError("a table of figures is not a sink for pipelines; use `crossline figures`")

    def open(self) -> None:
        """Start an empty table."""
        self._file = pq.ParquetWriter(self._path, self._columns.schema, use_dictionary=list(self._columns.types))

    def deliver(self, delivery: Delivery) -> None:
        """Append the rows of a batch."""
        batch = FeatureBatch.of(delivery.feature_rows)
        table = batch.table(self._columns)
        self._file.write_table(table, row_group_size=max(1, len(table)))
        self.counts.add(batch, table, self._columns)

    def close(self) -> None:
        """End the file; safe to call twice."""
        self._file.close()


def check_folder(folder: Path) -> None:
    """Check that a figure stream may be written to ``folder``. Raises UsageError."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: found a file; expected a folder, or a name that is free")
    if any(folder.glob("*.parquet")) and not (folder / CHECKPOINT).is_dir():
        found = f"Parquet files without {CHECKPOINT}"
        raise UsageError(f"{folder}: found {found}; expected none, or those of an earlier run with its {CHECKPOINT}")


class PartWriter:
    """A sink that writes the figures of each batch to a Parquet file of its own in a folder.

    A batch that is delivered again has the same number and the same records. Its file replaces the earlier one, so each
    record is written exactly once for the life of the checkpoint, kills included.
    """

    def __init__(self, folder: Path, columns: FigureTypes) -> None:
        self._folder = folder
        self._columns = columns
        self.counts = FigureCounts()

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Refused: pipeline files cannot name this sink."""
        raise UsageError("a folder of figures is not a sink for pipelines; use `crossline figures --follow`")

    def open(self) -> None:
        """Nothing to do: the folder exists, because the checkpoint is in it."""

    def deliver(self, delivery: Delivery) -> None:
        """Write the file of a batch; a batch without rows has none."""
        batch = FeatureBatch.of(delivery.feature_rows)
        table = batch.table(self._columns)
        if len(table):
            with draft_file(self._folder / f"part-{delivery.batch_id:09d}.parquet") as draft:
                pq.write_table(table, draft)
        self.counts.add(batch, table, self._columns)

    def close(self) -> None:
        """Nothing to do: no file is open between two batches."""


def write_figures(
    judged: BacktestSpec,
    columns: FigureTypes,
    output: Path,
    *,
    on_batch: OnBatch | None = None,
    on_start: Callable[[LocalRun], None] | None = None,
    processes: int | None = None,
    batch_bytes: int | None = None,
) -> FigureCounts:
    """Write the figures of every record to a Parquet file, a row group for each batch of the input.

    Args:
        judged: The feature queries (``feature_query``) and their input.
        columns: The columns of the table.
        output: The file.
        on_batch: Called after each batch.
        on_start: Called with the run before it starts, to stop it from another thread.
        processes: The number of processes; by default the number of processors.
        batch_bytes: Bytes of the input per batch.

    Raises:
        StoppedError: it was stopped.
        UsageError: an input matches no file.
    """
    count = processes or processors()
    sweep()
    run, writer = LocalRun(), TableWriter(output, columns)
    totals = writer.counts.totals
    with ExitStack() as made:
        folder = made.enter_context(own_folder_for("figures"))
        inputs = inputs_of(judged, folder, count, batch_bytes or BATCH_BYTES)
        snapshot = judged.snapshot(judged.rules, count)
        warm_for(snapshot.plans())
        if on_start is not None:
            on_start(run)
        writer.open()
        made.callback(writer.close)
        pool = made.enter_context(_pool(snapshot, inputs, count, folder, run))
        run.running, totals.first_s = True, time.monotonic()
        for number, rows in enumerate(pool.run(inputs.batches(count))):
            outcome = collect_outcome(rows, None)
            delivery = outcome.delivery("figures", number)
            writer.deliver(delivery)
            totals.add(delivery)
            totals.share = inputs.share(number)
            if on_batch is not None:
                on_batch(delivery, totals)
    return writer.counts


def _pool(snapshot: PlanSnapshot, inputs: BacktestInputs, count: int, folder: Path, run: LocalRun) -> Pool:
    source = HeldSnapshot(snapshot)  # processes are forked from this one, which has compiled it
    stages = stages_of(source, inputs.intake, MemoryJudge(source))
    return Pool(stages, count, folder, run.stopping, anywhere=inputs.anywhere)
