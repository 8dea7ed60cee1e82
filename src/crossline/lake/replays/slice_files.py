"""Reads the rows of slices of a table from its data files, in any process: no catalog is asked.

The driver of a replay on Spark plans the files once. Tasks get the table's metadata and the files of their slices.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crossline.basics.errors import StateError
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.record_rows import in_log_order, marked_runs
from crossline.lake.tables.row_filters import all_of, between
from crossline.lake.tables.table_layouts import DELIVERED, REACHED

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata

_US = 1_000
# What a store of files needs. A catalog's address and its password are properties too: they do not travel.
_STORE_PROPERTIES = ("s3.", "gcs.", "adls.", "hdfs.", "client.")


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """What reads slices of one table. It can be pickled.

    Attributes:
        metadata: The table's, without its history.
        io: Its files.
        columns: The columns to read.
        where: Conditions that hold for all rows.
    """

    metadata: TableMetadata
    io: FileIO
    columns: Schema
    where: tuple[BooleanExpression, ...] = ()

    @staticmethod
    def of(table: LakeTable, where: Sequence[BooleanExpression], known_ms: int | None) -> SliceFiles:
        """The columns of the layout that ``table`` has; rows of ``where`` that were delivered by ``known_ms``."""
        own = table.table
        history: dict[str, Any] = {
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
        }
        store = {name: value for name, value in own.io.properties.items() if name.startswith(_STORE_PROPERTIES)}
        return SliceFiles(
            own.metadata.model_copy(update=history),
            type(own.io)(store),
            own.schema().select(*columns_of(table)),
            conditions(where, known_ms),
        )

    def rows(self, files: Sequence[FileScanTask], part: BooleanExpression) -> pa.Table | None:
        """The rows of a slice in the order of their logs; None: there are none.

        Args:
            files: The files that may have some.
            part: The condition that makes the slice.

        Raises:
            StateError: A file is gone.
        """
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

        filtered = all_of([part, *self.where])
        try:
            found = ArrowScan(self.metadata, self.io, self.columns, filtered).to_table(files)
        except FileNotFoundError:
            paths = (each.file.file_path for each in files)
            gone = next((path for path in paths if not self.io.new_input(path).exists()), "a data file of the lake")
            raise StateError(
                f"{gone}: not found; expected a data file of the lake that was there as the replay began. Maintenance "
                "removes files with their snapshot: start the replay again, or raise lake.snapshots_max"
            ) from None
        return in_log_order(found)


@dataclass(frozen=True, slots=True)
class SliceReader:
    """Reads slices of all streams by what ``slice_reference`` gave. ``tables``: by stream."""

    tables: Mapping[str, SliceFiles]

    def __call__(self, reference: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a slice: batches of one stream, log and chunk each, marked with the stream."""
        for stream, (part, files) in pickle.loads(reference).items():  # noqa: S301 - of our own driver
            rows = self.tables[stream].rows(files, part)
            if rows is not None:
                yield from marked_runs(stream, rows)


def slice_reference(of: Mapping[str, tuple[BooleanExpression, Sequence[FileScanTask]]]) -> bytes:
    """A slice, as it travels to the task that reads it: by stream the condition that makes it, and the files."""
    return pickle.dumps({stream: (part, list(files)) for stream, (part, files) in of.items()})


def columns_of(table: LakeTable) -> list[str]:
    """The columns of the layout that the table has."""
    known = set(table.table.schema().as_arrow().names)
    return [field.name for field in table.layout.schema if field.name in known]


def conditions(where: Sequence[BooleanExpression], known_ms: int | None) -> tuple[BooleanExpression, ...]:
    """``where``, and that rows were delivered by an instant; None: at any."""
    return (*where, *([] if known_ms is None else [between(DELIVERED, None, known_ms)]))


def bounds_ms(table: LakeTable, file: FileScanTask) -> tuple[int, int] | None:
    """The first and the last instant that the logs of a file's rows had reached; None: its statistics lack them."""
    found = table.table.schema().find_field(REACHED).field_id
    low, high = ((each or {}).get(found) for each in (file.file.lower_bounds, file.file.upper_bounds))
    return None if low is None or high is None else (_ms(low), _ms(high))


def _ms(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True) // _US
