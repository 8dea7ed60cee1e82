"""Figures of every record of files of the past, as a table: the pipeline's own stages, in processes of this machine.

``figures_in_spark`` has them in Spark. Both give the same rows in the same order.
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

from crossline.backtest.backtest import Judged, OnBatch
from crossline.backtest.in_process import Inputs, LocalRun
from crossline.basics.errors import UsageError
from crossline.basics.fields import FieldKind
from crossline.basics.streams.schema import StreamSpec
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.outfile import drafted
from crossline.rules.shared import PlacedFigure, spec_read
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.local.pool import Pool
from crossline.runtime.machine.temporary_folders import own_folder_for, sweep
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot
from crossline.runtime.stages.feature_table import FeatureBatch, FigureTypes
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.work.totals import Totals
from crossline.runtime.workers.kernel_warmup import warm_for
from crossline.runtime.workers.state_servers import processors

_TYPES: dict[FieldKind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}


CHECKPOINT = ".checkpoint"  # in the folder of a table that is followed: neither is of use without the other


@dataclass(slots=True)
class Told:
    """What became of a table: its ``rows`` out of so many ``records``, and by figure how many of them have none.

    ``copies``: records that came again. ``beyond``: by figure, how many are integers that 64 bits do not hold.
    """

    totals: Totals = field(default_factory=Totals)
    records: int = 0
    copies: int = 0
    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    beyond: dict[str, int] = field(default_factory=dict)

    @property
    def late(self) -> int:
        """Records that are too late for every figure."""
        return self.records - self.copies - self.rows

    def add(self, batch: FeatureBatch, table: pa.Table, columns: FigureTypes) -> None:
        """``batch`` was written, as ``table``."""
        records, copies = batch.counted(columns.stream)
        self.records, self.copies, self.rows = self.records + records, self.copies + copies, self.rows + len(table)
        for name in columns.types:
            self.missing[name] = self.missing.get(name, 0) + table.column(name).null_count
        for name, count in batch.beyond.items():
            self.beyond[name] = self.beyond.get(name, 0) + count


def types_of(figures: Sequence[PlacedFigure], streams: Mapping[str, StreamSpec]) -> FigureTypes:
    """The columns of ``figures``, which are of one stream."""
    stream, fields = figures[0].stream, {each.name: each.fields for each in figures}
    spec = spec_read(stream, fields.values(), streams)
    return FigureTypes(stream, {name: _TYPES[each.kind(spec)] for name, each in fields.items()})


class TableWriter:
    """A sink that writes the figures of every record to a Parquet file: a group of rows for each batch.

    It is for one run: there are no restarts, and nothing is promised over them. ``told``: what became of it so far.
    """

    def __init__(self, path: Path, columns: FigureTypes) -> None:
        self._path = path
        self._columns = columns
        self.told = Told()

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("a table of figures is not a sink for pipelines; use `crossline figures`")

    def open(self) -> None:
        """Start an empty table."""
        self._file = pq.ParquetWriter(self._path, self._columns.schema, use_dictionary=list(self._columns.types))

    def deliver(self, delivery: Delivery) -> None:
        """Append the rows of a batch."""
        batch = FeatureBatch.of(delivery.told)
        table = batch.table(self._columns)
        self._file.write_table(table, row_group_size=max(1, len(table)))
        self.told.add(batch, table, self._columns)

    def close(self) -> None:
        """End the file; safe to call twice."""
        self._file.close()


def check_folder(folder: Path) -> None:
    """Whether a table may be followed into ``folder``. Raises UsageError."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: found a file; expected a folder, or a name that is free")
    if any(folder.glob("*.parquet")) and not (folder / CHECKPOINT).is_dir():
        found = f"Parquet files without {CHECKPOINT}"
        raise UsageError(f"{folder}: found {found}; expected none, or those of an earlier run with its {CHECKPOINT}")


class PartWriter:
    """A sink that writes the figures of the records of each batch to a Parquet file of its own in a folder.

    A batch that is delivered again has the same number and the same records, and its file takes the place of the one
    before: each record stands there once, over kills, for as long as the checkpoint is the same one.
    """

    def __init__(self, folder: Path, columns: FigureTypes) -> None:
        self._folder = folder
        self._columns = columns
        self.told = Told()

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("a folder of figures is not a sink for pipelines; use `crossline figures --follow`")

    def open(self) -> None:
        """Nothing: the folder is there, since the checkpoint is in it."""

    def deliver(self, delivery: Delivery) -> None:
        """Write the file of a batch that has records."""
        batch = FeatureBatch.of(delivery.told)
        table = batch.table(self._columns)
        if len(table):
            with drafted(self._folder / f"part-{delivery.batch_id:09d}.parquet") as draft:
                pq.write_table(table, draft)
        self.told.add(batch, table, self._columns)

    def close(self) -> None:
        """Nothing is open between two batches."""


def tell(
    judged: Judged,
    columns: FigureTypes,
    output: Path,
    *,
    on_batch: OnBatch | None = None,
    on_start: Callable[[LocalRun], None] | None = None,
    processes: int | None = None,
    batch_bytes: int | None = None,
) -> Told:
    """Write ``columns`` of every record to ``output``, in Parquet: a group of rows for each batch of the input.

    ``judged``: by rules that tell them (``feature_query``). ``on_start`` is given the run before it starts, to stop it
    from another thread. ``processes``: as many as this process has processors, unless said otherwise; ``batch_bytes``:
    of the input at a time.

    Raises:
        StoppedError: it was stopped.
        UsageError: an input matches no file.
    """
    count = processes or processors()
    sweep()
    run, writer = LocalRun(), TableWriter(output, columns)
    totals = writer.told.totals
    with ExitStack() as made:
        folder = made.enter_context(own_folder_for("figures"))
        inputs = Inputs.of(judged.history.files(), folder, count, batch_bytes)
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
            found = (outcome.alerts, outcome.dead, outcome.late, outcome.figures)
            delivery = Delivery("figures", number, *found, told=outcome.told)
            writer.deliver(delivery)
            totals.add(delivery)
            totals.share = inputs.share(number)
            if on_batch is not None:
                on_batch(delivery, totals)
    return writer.told


def _pool(snapshot: PlanSnapshot, inputs: Inputs, count: int, folder: Path, run: LocalRun) -> Pool:
    source = HeldSnapshot(snapshot)  # processes are forked from this one, which has compiled it
    return Pool(stages_of(source, inputs.intake, MemoryJudge(source)), count, folder, run.stopping)
