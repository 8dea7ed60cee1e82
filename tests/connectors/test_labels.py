"""Labels mean the same from a file and from the table of investigators."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from crossline.analysis.detection_quality import FraudLabels
from crossline.backtest.workbench.labels import labels_at
from crossline.basics.errors import UsageError
from crossline.cli.app import app
from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.text_escapes import escape
from crossline.lake.training.label_files import FileLabels

from .postgres_kit import opened, place_in
from .test_stores import pass_file

# stream, record, fraud or not, name of the fraud; the later of one record counts.
Row = tuple[str, str, bool, str | None]
Labelled = Callable[[Sequence[Row]], str]

ROWS: list[Row] = [
    ("payments", "p1", False, None),
    ("payments", "p1", True, "f1"),
    ("payments", "p2", True, "f1"),
    ("payments", "p3", True, None),
    ("payments", "p4", True, None),
    ("payments", "p4", False, None),
    ("payments", "p\0ü", True, None),
    ("logins", "l1", True, None),
]
OF_PAYMENTS = FraudLabels(
    {
        "p1": frozenset({"f1"}),
        "p2": frozenset({"f1"}),
        "p3": frozenset({"p3"}),
        "p\0ü": frozenset({"p\0ü"}),
    },
    frozenset({"f1", "p3", "p\0ü"}),
    5,
    frozenset({"p4"}),
)


@pytest.fixture
def in_file(tmp_path: Path) -> Labelled:
    """What a file says of payments; it has one row a record."""

    def write(rows: Sequence[Row]) -> str:
        latest = {record: (fraud, name) for stream, record, fraud, name in rows if stream == "payments"}
        lines = [
            {"payment_id": record, "is_fraud": fraud, "fraud_id": name} for record, (fraud, name) in latest.items()
        ]
        path = tmp_path / "labels.jsonl"
        path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
        return str(path)

    return write


@pytest.fixture
def in_postgres(request: pytest.FixtureRequest) -> Labelled:
    server, schema = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_schema")
    request.getfixturevalue("monkeypatch").setenv("PGPASSFILE", str(pass_file(server, request)))
    place = place_in(server, schema)

    def write(rows: Sequence[Row]) -> str:
        with opened(place):  # which makes the tables
            pass
        insert(place, rows)
        return f"{server.url}?schema={schema}"

    return write


def insert(place: DatabaseAddress, rows: Sequence[Row]) -> None:
    with place.connect() as connection:
        for second, (stream, record, fraud, name) in enumerate(rows):
            values = [stream, escape(record), fraud, name, f"2026-01-01T00:00:{second:02d}Z"]
            query = (
                "INSERT INTO labels (stream, record_id, is_fraud, fraud_id, labelled_at) VALUES (%s, %s, %s, %s, %s)"
            )
            connection.execute(query, values)


PLACES = ["in_file", pytest.param("in_postgres", marks=pytest.mark.xdist_group("postgres"))]


@pytest.mark.parametrize("place", PLACES)
def test_the_same_labels(place: str, request: pytest.FixtureRequest) -> None:
    labelled: Labelled = request.getfixturevalue(place)
    assert labels_at(labelled(ROWS), {"payments": "payment_id"}) == OF_PAYMENTS


@pytest.mark.parametrize("place", PLACES)
def test_there_must_be_some(place: str, request: pytest.FixtureRequest) -> None:
    labelled: Labelled = request.getfixturevalue(place)
    where = labelled(ROWS[-1:])
    with pytest.raises(UsageError, match="found no labels; expected a row for each record"):
        labels_at(where, {"payments": "payment_id"})


@pytest.mark.xdist_group("postgres")
def test_of_all_streams(in_postgres: Labelled) -> None:
    assert labels_at(in_postgres(ROWS), {}).asked == {"f1", "p3", "p\0ü", "l1"}


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(UsageError, match="has a password in it") as caught:
        labels_at("postgresql://u:hunter2@127.0.0.1:1/db", {})
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--labels: found no file"):
        labels_at(str(tmp_path / "none.csv"), {})


@pytest.mark.xdist_group("postgres")
def test_rules_are_weighed_by_either(
    in_file: Labelled, in_postgres: Labelled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["init", str(tmp_path / "payments")]).exit_code == 0
    monkeypatch.chdir(tmp_path / "payments")
    rows: list[Row] = [("payments", "p0005", False, None), ("payments", "p0008", True, None)]
    found: list[Any] = []
    for where in (in_file(rows), in_postgres(rows)):
        command = ["rules", "compare", "rules/large_payment.yaml", "rules/large_payment.yaml", "--json"]
        given = ["--stream", "stream.yaml", "--input", f"in{os.sep}*.jsonl", "--labels", where]
        result = runner.invoke(app, [*command, *given])
        assert result.exit_code == 0, result.output
        found.append(orjson.loads(result.stdout.splitlines()[-1]))  # a new store is logged before it
    assert found[0] == found[1]

    assert found[0]["a"]["precision"] == 1.0, found[0]


def test_a_training_set_reads_every_verdict_of_a_store(in_postgres: Labelled) -> None:
    """With when it was given, by which it is known; those given later than asked for are left out."""
    place = in_postgres(ROWS)
    first_ms = 1_767_225_600_000
    for as_of_ms, count in ((first_ms + 10**9, 7), (first_ms + 3_000, 4), (first_ms - 1, 0)):
        source = FileLabels(place, "payments", "payment_id", as_of_ms, dated=True)
        rows = [row for batch in source.versions() for row in batch.to_pylist()]
        known = [(row["record_id"], row["is_fraud"], round(row["known_at"].timestamp() * 1_000)) for row in rows]
        wanted = [
            (record, fraud, first_ms + 1_000 * second)
            for second, (stream, record, fraud, _) in enumerate(ROWS)
            if stream == "payments" and first_ms + 1_000 * second <= as_of_ms
        ]
        assert sorted(known) == sorted(wanted)
        assert len(known) == count
    assert source.count() == 0
