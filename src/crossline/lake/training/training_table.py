"""A training set as an Iceberg table in the catalog of the lake, replaced as a whole in one commit.

A set that was replaced is still there by its snapshot, until maintenance expires it.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from crossline.basics.errors import UsageError
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.maintenance.expiry import delete_orphans, expire
from crossline.lake.tables.data_files import COMPRESSION, ROW_GROUP_ROWS, delete_files
from crossline.lake.tables.lake_table import TRIES_MAX, LakeTable, ensure_table
from crossline.lake.tables.table_layouts import TableLayout

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

OPTION = "--output-table"
KIND, TRAINING_SET = "crossline.kind", "training-set"
FILE_ROWS = 4 << 20
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class TrainingTable:
    """A table for training sets.

    Attributes:
        lake: Where it is.
        name: Its name in the namespace of the pipeline.
        own: The names of the lake's tables.
        snapshots_max: How many training sets are kept.
    """

    lake: LakeAddress
    name: str
    own: frozenset[str]
    snapshots_max: int

    def check(self) -> None:
        """Raises UsageError where the name is none, or that of a table which is no training set."""
        if not _NAME.fullmatch(self.name):
            expected = "a name of small letters, digits and _ that begins with a letter"
            raise UsageError(f"{OPTION}: found {self.name}; expected {expected}")
        if self.name in {each.lower() for each in self.own} or self.name.startswith("records_"):
            raise UsageError(f"{OPTION}: found {self.name}, a table of the lake; expected another name")
        found = self._find()
        if found is not None and found.properties.get(KIND) != TRAINING_SET:
            raise UsageError(f"{OPTION}: found table {self.name}, which is no training set; expected another name")

    def replace(self, rows: Path, about: Mapping[str, str]) -> int:
        """Replace the table's rows by those of a Parquet file, and return the id of the snapshot.

        Readers see the rows before or those after. Of several processes that replace them the last one counts.

        Args:
            rows: The file.
            about: What the snapshot says about itself.

        Raises:
            UsageError: As ``check``.
            LakeUnavailableError: Other processes came first each time.
        """
        from pyiceberg.exceptions import CommitFailedException, ValidationException  # noqa: PLC0415 - an extra

        self.check()
        schema = _as_iceberg(pq.read_schema(rows))
        layout = _layout(self.name, schema)
        table = ensure_table(self.lake, layout, {KIND: TRAINING_SET}, by_day=False)
        for attempt in range(TRIES_MAX):
            paths: list[str] = []
            try:
                snapshot = _commit(table, schema, rows, about, paths)
            except (CommitFailedException, ValidationException):  # nothing was committed: another process came first
                delete_files(paths, table.io)
                time.sleep(_PAUSE_S * min(attempt + 1, 10))
                table.refresh()
            else:  # after any other error it is unknown; maintenance deletes files that no snapshot has
                self._maintain(LakeTable(layout, table))
                return snapshot
        raise LakeUnavailableError(f"table {self.name} of the lake: {TRIES_MAX} commits met those of others")

    def _maintain(self, table: LakeTable) -> None:
        now_ms = time.time_ns() // 1_000_000
        expire(table, now_ms, self.snapshots_max)
        delete_orphans(table, now_ms)

    def _find(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - an extra

        try:
            return self.lake.catalog.load_table((self.lake.namespace, self.name))
        except NoSuchTableError:
            return None


def training_tables(lake: LakeAddress) -> Iterator[LakeTable]:
    """The training sets in the namespace of a lake."""
    for identifier in lake.catalog.list_tables(lake.namespace):
        table = lake.catalog.load_table(identifier)
        if table.properties.get(KIND) == TRAINING_SET:
            yield LakeTable(_layout(identifier[-1], table.schema().as_arrow()), table)


def _layout(name: str, schema: pa.Schema) -> TableLayout:
    return TableLayout(name, schema, "event_time", ("record_id",))


def _as_iceberg(schema: pa.Schema) -> pa.Schema:
    """Instants in microseconds, as Iceberg has them."""
    us = pa.timestamp("us", "UTC")
    return pa.schema([(each.name, us if pa.types.is_timestamp(each.type) else each.type) for each in schema])


def _commit(table: Table, schema: pa.Schema, rows: Path, about: Mapping[str, str], paths: list[str]) -> int:
    """Replace all rows of the table, and its columns by those of ``schema``, in one commit.

    ``paths`` gets the files that are written.
    """
    from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow  # noqa: PLC0415 - an extra

    before = list(table.scan().plan_files())
    with table.transaction() as transaction:
        _evolve(transaction, table.schema().as_arrow(), schema)
        # With the ids of columns: a name may have been another column in a set before.
        _write(rows, schema_to_pyarrow(transaction.table_metadata.schema()), table, paths)
        with transaction.update_snapshot(snapshot_properties=dict(about)).overwrite() as change:
            for task in before:
                change.delete_data_file(task.file)
            for path in paths:
                change.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, path))
    found = table.current_snapshot()
    return -1 if found is None else found.snapshot_id


def _write(rows: Path, schema: pa.Schema, table: Table, paths: list[str]) -> None:
    """Write files that no table refers to yet, of about ``FILE_ROWS`` rows; one row group is in memory at once."""
    with pq.ParquetFile(rows) as source:
        pieces = source.iter_batches(ROW_GROUP_ROWS)
        for first in pieces:
            paths.append(f"{table.location()}/data/{uuid.uuid4().hex}.parquet")
            with (
                table.io.new_output(paths[-1]).create() as out,
                pq.ParquetWriter(out, schema, compression=COMPRESSION, store_schema=False) as writer,
            ):
                for piece in itertools.chain([first], itertools.islice(pieces, FILE_ROWS // ROW_GROUP_ROWS - 1)):
                    part = pa.Table.from_batches([piece]).select(schema.names).cast(schema)
                    writer.write_table(part, row_group_size=max(1, len(part)))


def _evolve(transaction: Transaction, known: pa.Schema, wanted: pa.Schema) -> None:
    """Drop the columns that the set does not have, and those of another type; add the others."""
    kinds = {each.name: str(each.type).replace("large_", "") for each in known}
    same = {each.name for each in wanted if kinds.get(each.name) == str(each.type)}
    gone, fresh = [name for name in kinds if name not in same], [each for each in wanted if each.name not in same]
    if gone:
        with transaction.update_schema(allow_incompatible_changes=True) as update:
            for name in gone:
                update.delete_column(name)
    if fresh:
        with transaction.update_schema() as update:
            update.union_by_name(pa.schema(fresh))
