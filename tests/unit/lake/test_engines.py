"""Other engines read the tables: DuckDB with its Iceberg extension, and Polars."""

from __future__ import annotations

import importlib
from pathlib import Path

import duckdb
import polars as pl
import pytest

from crossline.lake.maintenance.compaction import compact
from crossline.lake.tables.lake_table import LakeTable
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, alert, payment

MORE = "cents: integer\n      country: string?\n"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> SpooledPipeline:
    """Two days, a field that came later, a compacted day."""
    made = SpooledPipeline(tmp_path_factory.mktemp("engines"))
    for number in range(3):
        made.batch([payment(number, START_MS + number, tags=["a"])], alerts=[alert(number)], positions=[("x", number)])
        made.write_all()
    compact(table_of(made, "records_payments"), START_MS + 10 * DAY_MS)
    made.text = made.text.replace("cents: integer\n", MORE)
    made.batch([payment(7, START_MS + DAY_MS, country="AT", place={"city": "Graz", "spot": {"lat": 47.0}})])
    made.write_all()
    return made


def table_of(pipeline: SpooledPipeline, name: str) -> LakeTable:
    (found,) = (each for each in pipeline.reader().tables() if each.layout.name == name)
    return found


def duck() -> duckdb.DuckDBPyConnection:
    """A connection with the extensions of wheels; none is fetched."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (path,) = folder.rglob(f"{name}.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    return connection


def test_duckdb_reads_records_and_alerts(pipeline: SpooledPipeline) -> None:
    records, alerts = (table_of(pipeline, name).table.metadata_location for name in ("records_payments", "alerts"))
    found = duck().execute(
        f"SELECT _record_id, cents, country, place.city, tags[1] FROM iceberg_scan('{records}') ORDER BY _event_time"  # noqa: S608 - our own path
    )
    assert found.fetchall() == [
        ("p00000", 0, None, None, "a"),
        ("p00001", 10, None, None, "a"),
        ("p00002", 20, None, None, "a"),
        ("p00007", 70, "AT", "Graz", None),
    ]
    count = duck().execute(f"SELECT count(*) FROM iceberg_scan('{alerts}') WHERE rule_id = 'burst'")  # noqa: S608 - as above
    assert count.fetchall() == [(3,)]


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_polars_reads_records(pipeline: SpooledPipeline) -> None:
    frame = pl.scan_iceberg(table_of(pipeline, "records_payments").table.metadata_location)
    rows = frame.sort("_event_time").select("_record_id", "cents", pl.col("place").struct.field("city")).collect()
    assert rows.rows() == [("p00000", 0, None), ("p00001", 10, None), ("p00002", 20, None), ("p00007", 70, "Graz")]
