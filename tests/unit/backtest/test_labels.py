"""Labels in the formats that people have, and the errors about other files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.backtest.workbench.labels import Amounts, read_labels
from crossline.backtest.workbench.sample import batches
from crossline.basics.errors import UsageError

from .samples import count_rule, judged, payment, write

GENERATED = (
    '{"schema_version":1,"fraud_id":"f1","scenario":"s","record_ids":["p1","p2"],"key":{},"start":"","end":"",'
    '"complete":true}\n{"schema_version":1,"fraud_id":"f2","scenario":"s","record_ids":["p2"],"complete":false}\n'
)


@pytest.mark.parametrize(
    "text",
    [
        "payment_id,is_fraud\np1,1\np2,0\np3,true\np4,\n",
        "\ufeffis_fraud,payment_id\nTrue,p1\nFalse,p2\nyes,p3\nno,p4\n",
        (
            '{"payment_id":"p1","is_fraud":true}\n\n{"payment_id":"p2","is_fraud":false}\n'
            '{"payment_id":"p3","is_fraud":1}\n{"payment_id":"p4","is_fraud":null}\n'
        ),
        (
            '{"record_id":"p1","is_fraud":true}\n{"id":"p2","is_fraud":0}\n{"id":"p3","is_fraud":"y"}\n'
            '{"record_id":"p4","is_fraud":"N"}'
        ),
    ],
)
def test_rows_of_records(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    found = read_labels(path, ["payment_id"])
    assert (dict(found.frauds), found.named) == ({"p1": frozenset({"p1"}), "p3": frozenset({"p3"})}, 4)
    assert found.asked == {"p1", "p3"}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"payment_id": [1, 2, 3], "is_fraud": [True, False, None]}), path)
    assert read_labels(path, ["payment_id"]).asked == {"1"}


def test_frauds_of_several_records(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(GENERATED)
    found = read_labels(path, ["payment_id"])
    assert dict(found.frauds) == {"p1": frozenset({"f1"}), "p2": frozenset({"f1", "f2"})}
    assert found.asked == {"f1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "payment_id,is_fruad\np1,1\n",
            "labels:2: expected is_fraud; found fields payment_id, is_fruad; is is_fraud meant by is_fruad?",
        ),
        ("payment_id,is_fraud\np1,maybe\n", 'labels:2: is_fraud: found "maybe"; expected true or false'),
        (
            "payment,is_fraud\np1,1\n",
            "labels:2: expected the record's id in payment_id or record_id or id; found fields payment, is_fraud",
        ),
        ('{"id":"p1","is_fraud":true}\n{"id":\n', "labels:2: found"),
        ("payment_id,is_fraud\n", "labels: found no labels"),
        ("", "labels: found no labels"),
    ],
)
def test_what_is_no_label_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_labels(path, ["payment_id"])
    assert message in str(caught.value)


def test_hostile_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    for raw in (b"\xff\xfe\x00", b"PAR1nothing"):
        path.write_bytes(raw)
        with pytest.raises(UsageError):
            read_labels(path, ["payment_id"])


def test_amounts_of_records_are_those_of_the_first_of_an_id(tmp_path: Path) -> None:
    made = [payment(1, 0, "a", 10), payment(2, 1, "a", None), payment(1, 2, "a", 99), payment(3, 3, "b", 7)]
    given = judged(write(tmp_path / "in.jsonl", made), count_rule())
    amounts = Amounts("amount")
    for batch in batches(given.history, tmp_path):
        amounts.see(batch)
    assert amounts.by_id() == {"p1": 10.0, "p3": 7.0}
