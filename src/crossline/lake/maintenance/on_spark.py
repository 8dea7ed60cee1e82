"""Maintenance of the lake's tables on Spark, by Iceberg's own procedures: for more than one machine can merge.

The procedures commit as other engines do. A commit that meets another one is made again; rows, and the properties by
which writers know what a table has, stay as they are. Spark sorts files as the writer does, and then by what tells rows
from each other, so that the same files are always merged into the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crossline.basics.errors import RetryableError
from crossline.lake.catalogs.catalog import CATALOG_NAME
from crossline.lake.maintenance.compaction import CLOSED_AFTER_MS, DAY_MS, TARGET_BYTES
from crossline.lake.maintenance.expiry import ORPHANED_AFTER_MS, READ_MS, drop_before
from crossline.lake.reading import LakeReader, is_records
from crossline.lake.tables.column_encodings import FILTER_FPP
from crossline.lake.tables.data_files import ROW_GROUP_ROWS
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import BATCH, TableLayout
from crossline.logs import get_logger
from crossline.runtime.spark.failure import explained
from crossline.settings.process.lake import LakeSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES_MAX = 4
ROW_GROUP_BYTES = 16 << 20  # about as many rows as the writer's groups have
MANIFEST_BYTES = 8 << 20  # Iceberg's own target
MANIFESTS_FEW = 8  # each is a request or two for who plans a query
# As the names of Java's exceptions stand in the text of an error: another commit came first.
_CONFLICTS = ("CommitFailedException", "ValidationException: Missing required files")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MaintainedOnSpark:
    """What was done to a table.

    Attributes:
        table: Its name.
        files_merged: How many data files were merged.
        files_added: Into how many.
        manifests_merged: How many manifests were rewritten.
        snapshots_expired: How many snapshots went.
        files_deleted: How many files only these had.
        orphans_deleted: How many files nothing referred to.
    """

    table: str
    files_merged: int = 0
    files_added: int = 0
    manifests_merged: int = 0
    snapshots_expired: int = 0
    files_deleted: int = 0
    orphans_deleted: int = 0


def maintain_on_spark(
    spark: SparkSession, reader: LakeReader, settings: LakeSettings, now_ms: int, target_bytes: int = TARGET_BYTES
) -> Iterator[MaintainedOnSpark]:
    """Maintain each table as ``schedule.maintain`` does, by Spark; manifests are merged too.

    Args:
        spark: A session with the catalog of ``spark_catalog.catalog_settings``.
        reader: The lake.
        settings: How long rows and snapshots are kept.
        now_ms: Epoch milliseconds. Files of days that are not closed are left alone.
        target_bytes: The size of a merged file.

    Raises:
        RetryableError: Other commits came first each time.
        CrosslineError: A procedure failed.
    """
    for table in reader.tables():
        keep_ms = settings.keep.get("records" if is_records(table.layout.name) else table.layout.name)
        if keep_ms is not None:
            drop_before(table, (now_ms - keep_ms) // DAY_MS * DAY_MS)
        run = _Procedures(spark, f"`{reader.lake.namespace}`.`{table.layout.name}`")
        merged, added = _merge_files(run, table, now_ms, target_bytes)
        manifests = _merge_manifests(run, table)
        snapshots, files = _expire(run, table, settings.snapshots_max, now_ms)
        orphans = _delete_orphans(run, table, now_ms)
        yield MaintainedOnSpark(table.layout.name, merged, added, manifests, snapshots, files, orphans)


@dataclass(frozen=True, slots=True)
class _Procedures:
    """Calls Iceberg's procedures on one table."""

    spark: SparkSession
    table: str

    def call(self, name: str, **arguments: str) -> list[Any]:
        """The rows that a procedure returns; ``arguments`` are SQL. It is called again where another commit came first.

        Raises:
            RetryableError: Other commits came first each time.
            CrosslineError: It failed.
        """
        given = ", ".join(f"{key} => {value}" for key, value in {"table": text(self.table), **arguments}.items())
        for _ in range(TRIES_MAX):
            try:
                return list(self.spark.sql(f"CALL {CATALOG_NAME}.system.{name}({given})").collect())
            except Exception as error:  # Spark's own, and those of py4j
                if not any(each in str(error) for each in _CONFLICTS):
                    raise explained(error) from error
                log.info("maintenance met another commit and is done again", table=self.table, procedure=name)
        raise RetryableError(f"{name} of table {self.table}: other commits came first {TRIES_MAX} times; run it again")


def _merge_files(run: _Procedures, table: LakeTable, now_ms: int, target_bytes: int) -> tuple[int, int]:
    """Merge small files of closed days; how many became how many."""
    end_ms = (now_ms - CLOSED_AFTER_MS) // DAY_MS * DAY_MS
    if not _has_small_files(table, end_ms, target_bytes):
        return 0, 0
    _set_properties(table)
    options = {
        "target-file-size-bytes": target_bytes,
        "min-file-size-bytes": target_bytes // 2,
        "max-file-size-bytes": 2 * target_bytes,
        "min-input-files": 2,
        "partial-progress.enabled": "true",  # a group that met another commit is left to the next call
        "partial-progress.max-commits": 10,
        "partial-progress.max-failed-commits": 10,
    }
    merged = added = 0
    for _ in range(TRIES_MAX):
        (done,) = run.call(
            "rewrite_data_files",
            strategy="'sort'",
            options="map(" + ", ".join(text(str(part)) for pair in options.items() for part in pair) + ")",
            where=text(f"`{table.layout.time}` < {instant(end_ms)}"),
        )
        merged += done["rewritten_data_files_count"]
        added += done["added_data_files_count"]
        if not done["failed_data_files_count"]:
            return merged, added
    raise RetryableError(f"files of table {run.table}: other commits came first {TRIES_MAX} times; run it again")


def order_of(layout: TableLayout) -> list[str]:
    """The columns by which the rows of a merged file are sorted."""
    return list(dict.fromkeys([layout.time, BATCH, *layout.identity]))


def _has_small_files(table: LakeTable, end_ms: int, target_bytes: int) -> bool:
    """Whether a day before ``end_ms`` has two small files or more, or deletes beside its files."""
    counts: dict[Any, int] = {}
    table.table.refresh()
    for task in table.table.scan().plan_files():
        day: Any = task.file.partition[0]
        if (day or 0) * DAY_MS < end_ms:
            if task.delete_files:
                return True
            counts[day] = counts.get(day, 0) + (task.file.file_size_in_bytes < target_bytes // 2)
    return any(count > 1 for count in counts.values())


def _set_properties(table: LakeTable) -> None:
    """Tell Spark of order, bloom filters and the size of row groups, which the writer has in its code."""
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra
    from pyiceberg.table.sorting import NullOrder  # noqa: PLC0415 - an extra
    from pyiceberg.transforms import IdentityTransform  # noqa: PLC0415 - an extra

    own, wanted = table.table, file_properties(table.layout)
    for _ in range(TRIES_MAX):
        own.refresh()
        if wanted.items() <= own.properties.items() and not own.sort_order().is_unsorted:
            return
        try:
            with own.transaction() as transaction:
                transaction.set_properties(wanted)
                with transaction.update_sort_order() as order:
                    for name in order_of(table.layout):
                        order.asc(name, IdentityTransform(), NullOrder.NULLS_FIRST)
        except CommitFailedException:
            continue
    raise RetryableError(f"table {table.layout.name} of the lake: other commits came first; run it again")


def file_properties(layout: TableLayout) -> dict[str, str]:
    """The properties of a table by which Iceberg's engines write files as the writer does."""
    prefix = "write.parquet.bloom-filter"
    found = {"write.parquet.row-group-size-bytes": str(ROW_GROUP_BYTES)}
    for name in layout.filtered:
        found[f"{prefix}-enabled.column.{name}"] = "true"
        found[f"{prefix}-fpp.column.{name}"] = str(FILTER_FPP)
        found[f"{prefix}-ndv.column.{name}"] = str(ROW_GROUP_ROWS)
    return found


def _merge_manifests(run: _Procedures, table: LakeTable) -> int:
    """Merge manifests that are smaller than they need be; how many."""
    table.table.refresh()
    snapshot = table.table.current_snapshot()
    sizes = [] if snapshot is None else [each.manifest_length for each in snapshot.manifests(table.table.io)]
    if len(sizes) <= max(MANIFESTS_FEW, 2 * sum(sizes) // MANIFEST_BYTES):
        return 0
    (done,) = run.call("rewrite_manifests", use_caching="false")
    return int(done["rewritten_manifests_count"])


def _expire(run: _Procedures, table: LakeTable, snapshots_max: int, now_ms: int) -> tuple[int, int]:
    """Keep the last ``snapshots_max`` snapshots and those of the last minutes; how many snapshots and files went."""
    table.table.refresh()
    before = {each.snapshot_id for each in table.table.metadata.snapshots}
    if len(before) <= snapshots_max:
        return 0, 0
    (done,) = run.call("expire_snapshots", older_than=instant(now_ms - READ_MS), retain_last=str(snapshots_max))
    table.table.refresh()
    left = {each.snapshot_id for each in table.table.metadata.snapshots}
    return len(before - left), sum(count or 0 for count in done.asDict().values())


def _delete_orphans(run: _Procedures, table: LakeTable, now_ms: int) -> int:
    """Delete files that nothing refers to, of a day ago or older; how many."""
    if table.table.current_snapshot() is None:
        return 0
    return len(run.call("remove_orphan_files", older_than=instant(now_ms - ORPHANED_AFTER_MS)))


def text(value: str) -> str:
    """A literal of Spark's SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def instant(ms: int) -> str:
    """An instant as a literal of Spark's SQL, of epoch milliseconds."""
    return f"TIMESTAMP '{datetime.fromtimestamp(ms // 1_000, UTC).strftime('%Y-%m-%d %H:%M:%S')}+00:00'"
