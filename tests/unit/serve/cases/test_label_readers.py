"""Labels that were given through the API are read by what reads labels: the commands that weigh rules."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import orjson
import pytest

from crossline.backtest.workbench.labels import labels_at, read_labels
from crossline.basics.errors import UsageError
from crossline.serve.cases.cases import Cases


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cases 100%?.db"
    cases = Cases(path)
    cases.put_label("payments", "p1", True, who="ada")
    cases.put_label("payments", "p2", True, who="ada")
    cases.put_label("payments", "p2", False, who="bob")
    cases.put_label("refunds", "r1", True, who="ada")
    lines = b"".join(orjson.dumps(each.to_json()) + b"\n" for each in cases.labels(["payments"]))
    (tmp_path / "labels.jsonl").write_bytes(lines)
    cases.close()
    return path


def test_the_file_itself_is_read_as_labels(file: Path) -> None:
    marks = labels_at(str(file), {"payments": "payment_id"})
    assert (marks.asked, marks.named) == ({"p1"}, 2)
    assert labels_at(str(file), {}).asked == {"p1", "r1"}
    with pytest.raises(UsageError, match="found no labels"):
        labels_at(str(file), {"transfers": "id"})


def test_it_is_read_while_the_api_writes_it(file: Path) -> None:
    cases = Cases(file)
    cases.put_label("payments", "p3", True, who="ada")
    assert labels_at(str(file), {"payments": "payment_id"}).asked == {"p1", "p3"}
    cases.close()


def test_labels_as_json_lines_are_read_too(file: Path) -> None:
    marks = read_labels(file.parent / "labels.jsonl", ["payment_id"])
    assert (marks.asked, marks.named) == ({"p1"}, 2)


def test_another_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "crossline.db") as connection:
        connection.execute("CREATE TABLE alerts (x)")
    connection.close()
    with pytest.raises(UsageError, match=r"found no labels in .*crossline.db \(no such table: labels_now\)"):
        labels_at(str(tmp_path / "crossline.db"), {})
