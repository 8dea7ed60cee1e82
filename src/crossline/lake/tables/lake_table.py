"""A table of the lake: made and evolved from its layout, and appended to once for each batch.

A commit of Iceberg covers one table. The number of the last batch that a table has stands in a property, which the
transaction that appends the batch's rows sets. A writer that finds a conflict reads the property again: another writer
may have appended the batch. The library's own retries would append it a second time, so they are off.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.errors import StateError
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.tables.data_files import delete_files, write_files
from crossline.lake.tables.row_filters import all_of, between, not_equal
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, TableLayout
from crossline.logs import get_logger

if TYPE_CHECKING:
    from pyiceberg.table import Table

LAST_BATCHES = "crossline.last-batches"  # a property: by checkpoint, the last batch that the table has
POSITIONS = "crossline.positions"  # a property: by append-only log, the last position that the table has
TRIES_MAX, PAUSE_S = 30, 0.05
_PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit sets in a property of the table: ``last`` for the checkpoint or log ``name``."""

    property_name: str
    name: str
    last: int


@dataclass(slots=True)
class LakeTable:
    """One table.

    Attributes:
        layout: Its name and columns.
        table: Iceberg's table.
        commit_ms: How long the last commit took, without the files of rows.
    """

    layout: TableLayout
    table: Table
    commit_ms: int = 0

    @staticmethod
    def ensure(lake: LakeAddress, layout: TableLayout) -> LakeTable:
        """The table, made where it is missing; columns that it lacks are added.

        Raises:
            StateError: A column has another type now than in the table.
        """
        table = ensure_table(lake, layout)
        found = LakeTable(layout, table)
        found.evolve()
        return found

    def evolve(self) -> None:
        """Add the columns that the table lacks; they are null in its rows so far."""
        known = self.table.schema().as_arrow()
        changed = _changed_types(known, self.layout.schema)
        if changed:
            name, had, has = changed[0]
            raise StateError(
                f"table {self.layout.name} of the lake: column {name} is {had}, and the stream declares {has}; "
                "expected the same type: give the field another name, or move the table away"
            )
        if all(_contains(known, field) for field in self.layout.schema):
            return
        with self.table.update_schema() as update:
            update.union_by_name(self.layout.schema)

    def last_batch(self, checkpoint: str) -> int:
        """The last batch of ``checkpoint`` that the table has; -1: none."""
        return self._marks(LAST_BATCHES).get(checkpoint, -1)

    def append(self, rows: pa.Table, checkpoint: str, last: int) -> int:
        """Append the rows of batches up to ``last`` that the table does not have.

        Args:
            rows: Rows of the layout. Those of batches that the table has are left out.
            checkpoint: The checkpoint that the batches are of.
            last: The last batch that ``rows`` may be of.

        Returns:
            How many rows were appended by this call.

        Raises:
            LakeUnavailableError: Other writers came first each time.
        """
        for attempt in range(TRIES_MAX):
            self.table.refresh()
            done = self.last_batch(checkpoint)
            fresh = rows.filter(pc.greater(rows.column(BATCH), done)) if done >= 0 else rows
            fresh = self._unknown(fresh, checkpoint)
            if done >= last or not len(fresh):
                return 0
            if self._add(fresh, Mark(LAST_BATCHES, checkpoint, last)):
                return len(fresh)
            _pause(attempt)
        raise LakeUnavailableError(f"table {self.layout.name} of the lake: {TRIES_MAX} commits met those of others")

    def position(self, log_name: str) -> int:
        """The last position of an append-only log that the table has; -1: none."""
        self.table.refresh()
        return self._marks(POSITIONS).get(log_name, -1)

    def append_log(self, rows: pa.Table, log_name: str, after: int, last: int) -> bool:
        """Append the rows of a log from behind position ``after`` up to ``last``.

        Returns:
            False: another writer has appended some of them; read the position again.
        """
        return self.position(log_name) == after and self._add(rows, Mark(POSITIONS, log_name, last))

    def append_new(self, rows: pa.Table) -> int:
        """Append the rows of a layout whose rows repeat, without those that the table has. Returns how many.

        Raises:
            LakeUnavailableError: Other writers came first each time.
        """
        for attempt in range(TRIES_MAX):
            self.table.refresh()
            fresh = self._unseen(rows, None)
            if not len(fresh):
                return 0
            if self._add(fresh, None):
                return len(fresh)
            _pause(attempt)
        raise LakeUnavailableError(f"table {self.layout.name} of the lake: {TRIES_MAX} commits met those of others")

    def _add(self, rows: pa.Table, mark: Mark | None) -> bool:
        """Append ``rows`` and set ``mark``. False: another commit came first."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

        files = write_files(self.layout, rows, self.table.location(), self.table.io)
        try:
            self._commit(files, mark)
        except CommitFailedException:  # nothing was committed
            delete_files(files, self.table.io)
            return False
        return True

    def _marks(self, mark: str) -> dict[str, int]:
        found: dict[str, int] = orjson.loads(self.table.properties.get(mark, "{}"))
        return found

    @staticmethod
    def new_file_name() -> str:
        """A name that no other file has."""
        return f"{uuid.uuid4().hex}.parquet"

    def snapshot(self) -> int | None:
        """The id of the table's current snapshot; None: nothing was appended yet."""
        found = self.table.current_snapshot()
        return None if found is None else found.snapshot_id

    def _commit(self, files: list[str], mark: Mark | None) -> None:
        began_s = time.perf_counter()
        with self.table.transaction() as transaction:
            transaction.add_files(files, check_duplicate_files=False)
            if mark is not None:
                marks = {**self._marks(mark.property_name), mark.name: mark.last}
                transaction.set_properties({mark.property_name: orjson.dumps(marks).decode()})
        self.commit_ms = round(1e3 * (time.perf_counter() - began_s))

    def _unknown(self, rows: pa.Table, checkpoint: str) -> pa.Table:
        """``rows`` without those that came before: with another checkpoint, or as events that are reported again."""
        others = set(self._marks(LAST_BATCHES)) - {checkpoint}
        if not (others or self.layout.repeats):
            return rows
        return self._unseen(rows, None if self.layout.repeats else checkpoint)

    def _unseen(self, rows: pa.Table, besides: str | None) -> pa.Table:
        """``rows`` without those that the table has, but for its rows of checkpoint ``besides``."""
        if not len(rows):
            return rows
        rows = _first_of_each(rows, self.layout.identity) if self.layout.repeats else rows
        known = self._known(rows, besides)
        if not len(known):
            return rows
        numbered = rows.append_column("#", pa.array(range(len(rows))))
        left = numbered.select(["#", *self.layout.identity]).join(
            known, list(self.layout.identity), join_type="left anti"
        )
        return rows.take(left.column("#").combine_chunks().sort())

    def _known(self, rows: pa.Table, besides: str | None) -> pa.Table:
        """The identities of the table's rows of the same span of time, but for those of checkpoint ``besides``."""
        span = pc.min_max(rows.column(self.layout.time).cast(pa.int64())).as_py()
        within = [between(self.layout.time, span["min"] // 1_000, -(-span["max"] // 1_000))]
        if besides is not None:
            within.append(not_equal(CHECKPOINT, besides))
        found = self.table.scan(row_filter=all_of(within), selected_fields=self.layout.identity).to_arrow()
        wanted = pa.schema([self.layout.schema.field(name) for name in self.layout.identity])
        return found.select(list(self.layout.identity)).cast(wanted).group_by(list(self.layout.identity)).aggregate([])


def _pause(attempt: int) -> None:
    """Let the other writer go first, the longer the more attempts there were."""
    time.sleep(random.uniform(0, PAUSE_S * min(attempt + 1, 20)))  # noqa: S311 - no secret


def _first_of_each(rows: pa.Table, identity: Iterable[str]) -> pa.Table:
    names = list(identity)
    numbered = rows.append_column("#", pa.array(range(len(rows))))
    first = numbered.group_by(names).aggregate([("#", "min")]).column("#_min").combine_chunks()
    return rows.take(first.sort())


def ensure_table(
    lake: LakeAddress, layout: TableLayout, properties: Mapping[str, str] | None = None, *, by_day: bool = True
) -> Table:
    """Iceberg's table of ``layout``, made where it is missing.

    Args:
        lake: Where it is.
        layout: Its name and columns, if it is made.
        properties: More properties of a table that is made.
        by_day: Whether it is partitioned by the day of its time.
    """
    from pyiceberg.exceptions import (  # noqa: PLC0415 - an extra
        CommitFailedException,
        NoSuchTableError,
        TableAlreadyExistsError,
    )

    name = (lake.namespace, layout.name)
    try:
        return lake.catalog.load_table(name)
    except NoSuchTableError:
        try:
            return _created(lake, layout, {**_PROPERTIES, **(properties or {})}, by_day=by_day)
        except (CommitFailedException, TableAlreadyExistsError):  # by another process, at the same time
            return lake.catalog.load_table(name)


def _created(lake: LakeAddress, layout: TableLayout, properties: dict[str, str], *, by_day: bool) -> Table:
    from pyiceberg.transforms import DayTransform  # noqa: PLC0415 - an extra

    name = (lake.namespace, layout.name)
    location = f"{_root(lake.warehouse)}/{lake.namespace}/{layout.name}"
    # In one commit: another writer must not find the table before it is partitioned.
    with lake.catalog.create_table_transaction(
        name, layout.schema, location=location, properties=properties
    ) as transaction:
        if by_day:
            with transaction.update_spec() as update:
                update.add_field(layout.time, DayTransform(), f"{layout.time}_day")
            log.info("table of the lake made", table=layout.name)
    return lake.catalog.load_table(name)


def _root(warehouse: str) -> str:
    return warehouse.partition("?")[0].rstrip("/") if "://" in warehouse else f"file://{warehouse}"


def _contains(known: pa.Schema | pa.StructType, field: pa.Field) -> bool:
    at = known.get_field_index(field.name)
    if at < 0:
        return False
    own = known.field(at).type
    return not pa.types.is_struct(field.type) or all(_contains(own, each) for each in field.type)


def _changed_types(known: pa.Schema | pa.StructType, wanted: Iterable[pa.Field]) -> list[tuple[str, str, str]]:
    """Columns of both whose types differ: name, the table's type, the wanted one."""
    found: list[tuple[str, str, str]] = []
    for field in wanted:
        at = known.get_field_index(field.name)
        if at < 0:
            continue
        own = known.field(at).type
        if pa.types.is_struct(own) and pa.types.is_struct(field.type):
            found += [(f"{field.name}.{name}", had, has) for name, had, has in _changed_types(own, field.type)]
        elif _plain(own) != _plain(field.type):
            found.append((field.name, str(own), str(field.type)))
    return found


def _plain(kind: pa.DataType) -> str:
    """Large strings and lists are strings and lists here."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    return str(kind).replace("large_", "")
