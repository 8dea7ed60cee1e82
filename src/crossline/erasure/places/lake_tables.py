"""Tables of the lake: data files with a trace are written anew, old snapshots expire, and their files are deleted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.errors import CrosslineError
from crossline.erasure.place import Counts
from crossline.erasure.receipts import erased_row
from crossline.erasure.rows import GONE, decoded, learn, treat
from crossline.erasure.subject import Subject, is_distinctive
from crossline.erasure.torn import may_be_torn
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.maintenance.expiry import ORPHANED_AFTER_MS, expire_history
from crossline.lake.tables.data_files import delete_files, sorted_rows, write_rows
from crossline.lake.tables.lake_table import PAUSE_S, TRIES_MAX, LakeTable
from crossline.lake.tables.table_layouts import RECEIPTS, RULE_EVENTS, STATES, WATERMARKS, TableLayout

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask

KEPT = (RULE_EVENTS.name, WATERMARKS.name, STATES.name)  # rows without a person: at most a value in a text
_PART_ROWS = 65_536
_NAMES = "schema.name-mapping.default"


@dataclass(slots=True)
class LakeTablePlace:
    """One table. A running pipeline, a writer and readers may go on: a commit of theirs is met by a repeated attempt.

    Attributes:
        table: The table.
        stream: The stream whose records it has; None: another table.
        between: Called between two steps; a test ends the process there.
        orphaned_ms: Files that no snapshot has are deleted from this age on.
    """

    table: LakeTable
    stream: str | None = None
    between: Callable[[str], None] = lambda _: None
    orphaned_ms: int = ORPHANED_AFTER_MS
    needs_stop: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return f"lake table {self.table.layout.name}"

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        total = Counts()
        with self._reported():
            self.table.table.refresh()
            for task in self.table.table.scan().plan_files():
                counts, _ = self._treated(subject, task)
                total += counts
        return total

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. One commit a file; then only the current snapshot stays, and no file that it does not use."""
        with self._reported():
            return self._erased(subject)

    def _erased(self, subject: Subject) -> Counts:
        self.table.table.refresh()
        total = Counts()
        done: set[str] = set()
        for _ in range(TRIES_MAX):
            left = [each for each in self.table.table.scan().plan_files() if each.file.file_path not in done]
            if not left:
                break
            for task in left:
                counts, rows = self._treated(subject, task)
                written = [] if rows is None else self._replaced(task, rows)
                if written is not None:
                    done.update((task.file.file_path, *written))
                    total += counts
                self.between("file")
            self.table.table.refresh()
            time.sleep(random.uniform(0, PAUSE_S))  # noqa: S311 - no secret
        else:
            raise LakeUnavailableError(
                f"table {self.table.layout.name} of the lake: {TRIES_MAX} rounds met commits of others; try again"
            )
        if self.table.table.current_snapshot() is not None:
            expire_history(self.table, self.between, self.orphaned_ms)
        return total

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except CrosslineError:
            raise
        except Exception as error:  # drivers of catalogs and stores raise errors of their own
            text = str(error).partition("\n")[0] or type(error).__name__
            raise LakeUnavailableError(f"table {self.table.layout.name} of the lake: {text}") from error

    def _treated(self, subject: Subject, task: FileScanTask) -> tuple[Counts, pa.Table | None]:
        """What is in a file, and its rows from now on; None: they stay."""
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

        own = self.table.table
        rows = ArrowScan(own.metadata, own.io, own.schema(), AlwaysTrue()).to_table([task])
        parts, counts = [], Counts()
        for start in range(0, len(rows), _PART_ROWS):
            part, found = self._part(subject, rows.slice(start, _PART_ROWS))
            parts.append(part)
            counts += found
        counts = counts.of_file(task.file.file_size_in_bytes)
        return counts, pa.concat_tables(parts) if counts.found else None

    def _part(self, subject: Subject, rows: pa.Table) -> tuple[pa.Table, Counts]:
        suspects = np.flatnonzero(_suspects(subject, self.stream, rows)).tolist()
        if not suspects:
            return rows, Counts(kept=len(rows))
        gone: list[int] = []
        changed: dict[int, dict[str, Any]] = {}
        for number, row in zip(suspects, rows.take(pa.array(suspects)).to_pylist(), strict=True):
            after = self._row(subject, row)
            if after is GONE:
                gone.append(number)
            elif after is not row:
                changed[number] = after
        counts = Counts(len(gone), len(changed), len(rows) - len(gone) - len(changed))
        if not counts.found:
            return rows, counts
        stay = np.ones(len(rows), np.bool_)
        stay[[*gone, *changed]] = False
        new = pa.Table.from_pylist(list(changed.values()), schema=rows.schema)
        return pa.concat_tables([rows.filter(pa.array(stay)), new]), counts

    def _row(self, subject: Subject, row: dict[str, Any]) -> Any:
        name = self.table.layout.name
        if name == RECEIPTS.name:
            return erased_row(subject, row)
        after = treat(subject, row, self.stream, keeps=name in KEPT)
        if after is GONE and self.stream is not None:
            learn(subject, row, self.stream)
        return after

    def _replaced(self, task: FileScanTask, rows: pa.Table) -> list[str] | None:
        """Put ``rows`` in the place of a file; the new files. None: another commit came first, and may have it."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException  # noqa: PLC0415 - an extra
        from pyiceberg.io.pyarrow import parquet_file_to_data_file  # noqa: PLC0415 - an extra

        own, layout = self.table.table, self.table.layout
        paths: list[str] = []
        try:
            if len(rows):
                paths.append(f"{task.file.file_path.rpartition('/')[0]}/{self.table.new_file_name()}")
                _write(layout, rows, own, paths[0])
            self.between("written")
            with own.transaction() as transaction, transaction.update_snapshot().overwrite() as change:
                change.delete_data_file(task.file)
                for path in paths:
                    change.append_data_file(parquet_file_to_data_file(own.io, own.metadata, path))
        except (CommitFailedException, ValidationException):
            delete_files(paths, own.io)
            own.refresh()
            return None
        return paths


def _write(layout: TableLayout, rows: pa.Table, own: Any, path: str) -> None:
    from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415 - an extra

    if _NAMES not in own.properties:  # a training set: its columns are known by the ids in its files
        rows = rows.cast(schema_to_pyarrow(own.schema()))
    with own.io.new_output(path).create() as out:
        write_rows(layout, sorted_rows(layout, rows), out)


def _suspects(subject: Subject, stream: str | None, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The rows that may have a trace: by columns where that is quick, else text by text."""
    found = np.zeros(len(rows), np.bool_)
    for name, column in _leaves(rows):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        found |= _in_column(subject, name, whole, quick=stream is not None)
    return found


def _leaves(rows: pa.Table | pa.StructArray) -> Iterator[tuple[str, Any]]:
    """Columns that are no structs, with their names; those of structs too."""
    if isinstance(rows, pa.Table):
        pairs: Sequence[tuple[str, Any]] = [(name, rows.column(name)) for name in rows.column_names]
    else:
        pairs = [(each.name, pc.struct_field(rows, each.name)) for each in rows.type]
    for name, column in pairs:
        if pa.types.is_struct(column.type):
            yield from _leaves(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        else:
            yield name, column


def _in_column(subject: Subject, name: str, column: pa.Array, *, quick: bool) -> Any:
    """Which rows of a column may have a trace. ``quick``: ids stand in no text of it."""
    n = len(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        inner = _in_column(subject, name, column.flatten(), quick=quick)
        found = np.zeros(n, np.bool_)
        parents = pc.list_parent_indices(column).to_numpy()
        found[parents[inner]] = True
        return found
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _in_texts(subject, name, column, quick=quick)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        raws = column.to_pylist()
        return np.array([raw is not None and _raw_suspects(subject, raw) for raw in raws], np.bool_)
    if any(key.leaf == name for key in subject.keys):
        values = column.to_pylist()
        return np.array([any(k.leaf == name and k.has(value) for k in subject.keys) for value in values], np.bool_)
    return np.zeros(n, np.bool_)


def _in_texts(subject: Subject, name: str, column: pa.Array, *, quick: bool) -> Any:
    whole = column.cast(pa.large_string())
    if not quick and name != "record_id":
        return np.array([text is not None and subject.suspects(text) for text in whole.to_pylist()], np.bool_)
    found = np.zeros(len(column), np.bool_)
    for key in subject.keys:
        if key.leaf == name or is_distinctive(key.value):
            found |= pc.fill_null(pc.match_substring(whole, key.value), fill_value=False).to_numpy(zero_copy_only=False)
    ids = [each for some in subject.ids.values() for each in some]
    if ids:
        found |= pc.is_in(whole, pa.array(ids, pa.large_string())).to_numpy(zero_copy_only=False)
    return found


def _raw_suspects(subject: Subject, raw: bytes) -> bool:
    text = decoded(raw)
    return text is None or may_be_torn(raw, text) or subject.suspects(text)
