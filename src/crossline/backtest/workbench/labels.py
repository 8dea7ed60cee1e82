"""Labels: which records were fraud. They are read from a file, or from the table of the investigators' verdicts.

A file has a row per record (CSV, JSON lines, Parquet) with its id and ``is_fraud``; or it has the labels of ``crossline
generate cards``, a line per fraud with the ids of its records; or it is ``cases.db``, the database of the API.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.analysis.detection_quality import FraudLabels
from crossline.backtest.workbench.case_labels import is_database, labels_in
from crossline.backtest.workbench.sample import Batch
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.basics.texts.separators import header_text
from crossline.io.stores.factory import in_a_database, labels_of

_TRUE = {"true", "1", "yes", "y", "t"}
_FALSE = {"false", "0", "no", "n", "f", "", "none"}
_IS_FRAUD = "is_fraud"


def labels_at(place: str, ids: Mapping[str, str]) -> FraudLabels:
    """The labels at ``place``, a file or the address of a store; ``ids``: the id field of each stream.

    From a store, only the labels of these streams are read; without ``ids``, all. Raises UsageError if there are none.
    """
    if in_a_database(place):
        rows = labels_of(place, list(ids) or None)
        return _marks(((place, row) for row in rows), [], f"table labels of {place}")
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"--labels: found no file {place}; expected one, or postgresql://HOST/DB")
    if is_database(path):
        rows = labels_in(path, list(ids) or None)
        return _marks(((place, row) for row in rows), [], place)
    return read_labels(path, ids.values())


def read_labels(path: Path, id_fields: Iterable[str]) -> FraudLabels:
    """The labels in ``path``; the id is in one of ``id_fields``, or in ``record_id`` or ``id``.

    Raises UsageError with the line of an invalid label.
    """
    return _marks(((f"{path}:{line}", row) for line, row in _rows(path)), id_fields, str(path))


def _marks(rows: Iterable[tuple[str, Mapping[str, Any]]], id_fields: Iterable[str], text: str) -> FraudLabels:
    """The labels of rows with their positions; ``text``: the name of the source in errors."""
    frauds: dict[str, set[str]] = {}
    asked: set[str] = set()
    named: set[str] = set()
    for _, ids, is_fraud, row in _labels(rows, id_fields):
        named.update(ids)
        if not is_fraud:
            continue
        fraud = str(row.get("fraud_id") or ids[0])
        asked |= {fraud} if "record_ids" not in row or row.get("complete", True) else set()
        for each in ids:
            frauds.setdefault(each, set()).add(fraud)
    if not named:
        raise UsageError(f"{text}: found no labels; expected a row for each record, with its id and {_IS_FRAUD}")
    by_record = {each: frozenset(found) for each, found in frauds.items()}
    return FraudLabels(by_record, frozenset(asked), len(named), frozenset(named - by_record.keys()))


def label_rows(path: Path, id_fields: Iterable[str]) -> Iterator[tuple[str, list[str], bool, Mapping[str, Any]]]:
    """The labels in a file: where each stands, the ids of its records, whether they are fraud, and the row itself.

    Raises UsageError with the line of an invalid label.
    """
    return _labels(((f"{path}:{line}", row) for line, row in _rows(path)), id_fields)


def _labels(
    rows: Iterable[tuple[str, Mapping[str, Any]]], id_fields: Iterable[str]
) -> Iterator[tuple[str, list[str], bool, Mapping[str, Any]]]:
    names: Collection[str] = [*dict.fromkeys((*id_fields, "record_id", "id"))]
    for where, row in rows:
        if "record_ids" in row and "fraud_id" in row:
            yield where, [str(each) for each in row["record_ids"]], True, row
        else:
            yield where, [_id(row, names, where)], _is_fraud(row, where), row


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows with their line numbers."""
    data = path.read_bytes()
    if data[:4] == b"PAR1":
        try:
            table = pq.read_table(io.BytesIO(data))
        except pa.ArrowException as error:
            raise UsageError(f"{path}: cannot be read as Parquet: {error}") from None
        yield from enumerate(table.to_pylist(), 1)
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path}: found bytes that are not UTF-8 ({error}); expected CSV, JSON lines or Parquet"
        raise UsageError(message) from None
    if not text.lstrip().startswith("{"):
        for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
            yield number, {name: value for name, value in row.items() if name is not None}
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}:{number}: found {shown(line)}; expected a JSON object ({error})") from None
            if not isinstance(row, dict):
                raise UsageError(f"{path}:{number}: found {shown(row)}; expected a JSON object")
            yield number, row


def _id(row: Mapping[str, Any], names: Collection[str], where: str) -> str:
    for name in names:
        if row.get(name) is not None:
            return str(row[name])
    given = [str(each) for each in row]
    if any(name in row for name in names):
        raise UsageError(f"{where}: found no id in {' or '.join(names)}; expected the record's id")
    raise UsageError(f"{where}: expected the record's id in {' or '.join(names)}; {header_text(given, names)}")


def _is_fraud(row: Mapping[str, Any], where: str) -> bool:
    if _IS_FRAUD not in row:
        raise UsageError(f"{where}: expected {_IS_FRAUD}; {header_text([str(each) for each in row], (_IS_FRAUD,))}")
    text = str(row[_IS_FRAUD]).strip().lower()
    if text not in _TRUE | _FALSE:
        raise UsageError(f"{where}: {_IS_FRAUD}: found {shown(row[_IS_FRAUD])}; expected true or false, 1 or 0")
    return text in _TRUE


class Amounts:
    """The amount of each record of a sample, as batches go by."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._ids: list[pa.Array] = []
        self._values: list[pa.Array] = []

    def see(self, batch: Batch) -> None:
        """Take the records of a batch in."""
        for records, _ in batch.inputs:
            if len(records) and self._field in records.fields:
                self._ids.append(records.ids.cast(pa.string()))
                self._values.append(records.fields[self._field].cast(pa.float64()))

    def by_id(self) -> dict[str, float]:
        """Amounts by record id; of duplicates the first. Records without an amount are left out."""
        if not self._ids:
            return {}
        table = pa.table({"id": pa.chunked_array(self._ids), "amount": pa.chunked_array(self._values)})
        table = table.filter(pc.is_valid(table["amount"]))
        return dict(zip(reversed(table["id"].to_pylist()), reversed(table["amount"].to_pylist()), strict=True))
