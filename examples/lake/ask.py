"""Asks the questions of ``questions/`` with DuckDB, Polars or Spark: ``ask.py duckdb CATALOG.db [QUESTION.sql]``.

All three read the same Iceberg tables of the same catalog. The namespace is ``payments``, as ``crossline init`` names
the pipeline.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

QUESTIONS = Path(__file__).parent / "questions"
NAMESPACE = "payments"
Rows = list[tuple[Any, ...]]


def tables_of(catalog: Path) -> dict[str, str]:
    """By name, the file of each table's current metadata."""
    lake = SqlCatalog("lake", uri=f"sqlite:///{catalog}", warehouse=f"file://{catalog.parent}")
    names = [name for _, name in lake.list_tables(NAMESPACE)]
    return {name: lake.load_table((NAMESPACE, name)).metadata_location for name in names}


def with_duckdb(catalog: Path) -> Callable[[str], Rows]:
    """DuckDB, with the extensions of the wheels duckdb-extension-avro, -httpfs and -iceberg; none is fetched."""
    import duckdb  # noqa: PLC0415 - one engine is enough

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        connection.execute(f"LOAD '{next(folder.rglob(f'{name}.duckdb_extension'))}'")
    for name, metadata in tables_of(catalog).items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM iceberg_scan('{metadata}')")  # noqa: S608 - our own names
    return lambda question: connection.execute(question).fetchall()


def with_polars(catalog: Path) -> Callable[[str], Rows]:
    """Polars."""
    import polars as pl  # noqa: PLC0415 - as above

    frames = {name: pl.scan_iceberg(metadata) for name, metadata in tables_of(catalog).items()}
    return lambda question: pl.SQLContext(frames).execute(question).collect().rows()


def with_spark(catalog: Path) -> Callable[[str], Rows]:
    """Spark 4.1 with Iceberg's runtime and a SQLite driver on its class path."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    lake = "spark.sql.catalog.lake"
    spark = (
        SparkSession.builder.config(lake, "org.apache.iceberg.spark.SparkCatalog")
        .config(f"{lake}.type", "jdbc")
        .config(f"{lake}.uri", f"jdbc:sqlite:{catalog}")
        .config(f"{lake}.warehouse", f"file://{catalog.parent}")
        .config(f"{lake}.jdbc.schema-version", "V1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sql(f"USE lake.{NAMESPACE}")
    return lambda question: [tuple(row) for row in spark.sql(question).collect()]


ENGINES = {"duckdb": with_duckdb, "polars": with_polars, "spark": with_spark}


def main(engine: str, catalog: str, questions: Iterable[str]) -> None:
    """Print the answer of each question."""
    ask = ENGINES[engine](Path(catalog).absolute())
    for path in [Path(each) for each in questions] or sorted(QUESTIONS.glob("*.sql")):
        print(path.stem)
        for row in ask(path.read_text()):
            print("  ", *row)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
