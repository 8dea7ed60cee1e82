"""Labels of a training set from a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.basics.errors import UsageError
from crossline.lake.training.label_files import FileLabels

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GENERATED = '{"schema_version":1,"fraud_id":"f1","record_ids":["p1","p2"],"complete":true}\n'


def read(path: Path, *, dated: bool = True) -> list[tuple[Any, ...]]:
    """Id, verdict and time of each version, in their order."""
    labels = FileLabels(str(path), "payments", "payment_id", 2**50, dated)
    rows = sorted((row for each in labels.versions() for row in each.to_pylist()), key=lambda row: row["version"])
    assert labels.count() >= len(rows) or len(rows) < 9
    return [(row["record_id"], row["is_fraud"], row["known_at"]) for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "payment_id,is_fraud,known_at\np1,1,2026-03-01T12:00:00Z\np2,no,2026-03-01T13:00:00+01:00\n",
        f"known_at,record_id,is_fraud\n{NOON.timestamp() * 1_000:.0f},p1,true\n2026-03-01T12:00:00Z,p2,\n",
        (
            '{"id":"p1","is_fraud":true,"known_at":"2026-03-01T12:00:00.000Z"}\n'
            '{"id":"p2","is_fraud":0,"known_at":1772366400000}\n'
        ),
    ],
)
def test_rows_with_their_times(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    assert read(path) == [("p1", True, NOON), ("p2", False, NOON)]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    table = {"payment_id": ["p1", "p2"], "is_fraud": [True, False], "known_at": pa.array([NOON, NOON])}
    pq.write_table(pa.table(table), path)
    assert read(path) == [("p1", True, NOON), ("p2", False, NOON)]


def test_without_times_every_label_counts_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_text(GENERATED)
    assert read(path, dated=False) == [("p1", True, None), ("p2", True, None)]
    with pytest.raises(UsageError, match=r"labels:1: found no known_at; expected .*--labels-known-by now every label"):
        read(path)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "record_id,is_fraud,known_at\np1,1,yesterday\n",
            r"labels:2: known_at: found \"yesterday\"; expected an instant",
        ),
        (
            "record_id,is_fraud,known_at\np1,1,2026-03-01T12:00:00\n",
            r"labels:2: known_at: found \"2026-03-01T12:00:00\";",
        ),
        ("record_id,is_fraud,known_at\np1,maybe,1\n", r"labels:2: is_fraud: found \"maybe\""),
        ("record_id,is_fraud,known_at\np1,1," + "9" * 30 + "\n", r"labels:2: known_at: found \"9"),
        ("record_id,is_fraud\n", r"found no labels; expected a row for each"),
        ("", r"found no labels; expected a row for each"),
    ],
)
def test_what_is_no_label_is_refused(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    with pytest.raises(UsageError, match=error):
        read(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--labels-file: found no file"):
        read(tmp_path / "none")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(UsageError, match=r"--labels-file: found no labels in .*; expected cases\.db"):
        read(path)
