"""Versions of labels from elsewhere: a file, the database of the API, or a store in PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from crossline.backtest.workbench.case_labels import is_database
from crossline.backtest.workbench.labels import label_rows
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.basics.times import parse_instant_ms
from crossline.io.stores.factory import in_a_database, label_versions_of
from crossline.lake.training.label_versions import VERSIONS

_PIECE = 65_536
_US = 1_000
_BUSY_S = 5.0
_ROW_BYTES = 24  # the least that a label takes in a file
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUERY = """SELECT record_id, version, is_fraud, known_ms, withdrawn FROM labels
    WHERE stream = ? AND at_ms <= ?"""

Row = tuple[str, int, bool | None, int | None]  # of ``VERSIONS``, the time in microseconds


@dataclass(frozen=True, slots=True)
class FileLabels:
    """The labels of a place on records of a stream.

    Attributes:
        place: A file with a row for each label (CSV, JSON lines, Parquet): the record's id, ``is_fraud``, and
            ``known_at`` where the file has it. Or labels of ``crossline generate``, ``cases.db`` of the API, or the
            address of a store.
        stream: The stream.
        id_field: Its field of ids, which a file may have in place of ``record_id``.
        as_of_ms: Versions that were given later do not count, epoch milliseconds. A file does not say it.
        dated: Whether each row has to say when it was known.
    """

    place: str
    stream: str
    id_field: str
    as_of_ms: int
    dated: bool

    def count(self) -> int:
        """See ``LabelSource``; at least as many as there are, except in a database elsewhere."""
        path = Path(self.place)
        return path.stat().st_size // _ROW_BYTES if path.is_file() else 0

    def versions(self) -> Iterator[pa.RecordBatch]:
        """See ``LabelSource``. A file is read whole; rows of databases as they come.

        Raises:
            UsageError: There is no such place, or a row is no label.
        """
        rows = iter(self._rows())
        while piece := list(islice(rows, _PIECE)):
            columns = zip(*piece, strict=True)
            arrays = [pa.array(each, kind) for each, kind in zip(columns, VERSIONS.types, strict=True)]
            yield pa.record_batch(arrays, schema=VERSIONS)

    def _rows(self) -> Iterable[Row]:
        if in_a_database(self.place):
            return label_versions_of(self.place, self.stream, self.as_of_ms)
        path = Path(self.place)
        if not path.is_file():
            raise UsageError(f"--labels-file: found no file {self.place}; expected one, or postgresql://HOST/DB")
        return self._of_cases(path) if is_database(path) else self._of_file(path)

    def _of_cases(self, path: Path) -> Iterator[Row]:
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as connection:
                for record_id, version, is_fraud, known_ms, withdrawn in connection.execute(
                    _QUERY, (self.stream, self.as_of_ms)
                ):
                    yield record_id, version, None if withdrawn else bool(is_fraud), known_ms * _US
        except sqlite3.Error as error:
            found = f"found no labels in {path} ({error}); expected cases.db in the folder of serve.path"
            raise UsageError(f"--labels-file: {found}") from None

    def _of_file(self, path: Path) -> Iterator[Row]:
        """Rows of a file. A later row on a record is a later version."""
        version = 0
        for where, ids, is_fraud, row in label_rows(path, [self.id_field]):
            known_us = self._known_us(row, where)
            for each in ids:
                version += 1
                yield each, version, is_fraud, known_us
        if not version:
            raise UsageError(f"{path}: found no labels; expected a row for each, with the record's id and is_fraud")

    def _known_us(self, row: Mapping[str, Any], where: str) -> int | None:
        given = row.get("known_at")
        if given is None or given == "":
            if self.dated:
                raise UsageError(
                    f"{where}: found no known_at; expected the instant at which the label was known; with "
                    "--labels-known-by now every label counts, whenever it was known"
                )
            return None
        if isinstance(given, datetime) and given.tzinfo is not None:
            return (given - _EPOCH) // (_EPOCH.resolution)
        try:
            return parse_instant_ms(int(given) if isinstance(given, str) and given.isdigit() else given) * _US
        except ValueError:
            expected = "an instant with an offset from UTC such as 2026-03-01T00:00:00Z, or epoch milliseconds"
            raise UsageError(f"{where}: known_at: found {shown(str(given))}; expected {expected}") from None
