"""Figures of every record in Spark: the table that processes of this machine write, in many batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.figures import figure_stream, figure_table, figure_table_in_spark
from crossline.basics.errors import UsageError
from crossline.rule_registry.rule_files import read_figures
from crossline.rules.base import Defaults
from crossline.rules.figure_tables import feature_query

from .project import Project
from .traffic import CASH, STREAM, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FIGURES: dict[str, Any] = {
    "tries": {"count": True, "group_by": "account", "window": "30s"},
    "cash": {"sum": "amount", "group_by": "account", "window": "2m", "conditions": CASH},
    "usual": {"avg": "price", "group_by": "account", "window": "60s", "include_current": False},
    "accounts": {"distinct_count": "account", "group_by": "device", "window": "60s"},
    "long": {"max": "amount", "group_by": ["device", "kind"], "window": "2m", "resolution": "10s"},
}


def test_spark_writes_the_table_that_processes_write(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [])
    project.give("all.jsonl", lines(records(400, seed=5)))
    (tmp_path / "figures.yaml").write_text(yaml.safe_dump({"source_topic": STREAM, "figures": FIGURES}))
    streams = project.config().streams
    found = read_figures(tmp_path / "figures.yaml", streams, None)
    columns = figure_table.figure_types(found, streams)
    history = RecordedInput(streams, {STREAM: [str(tmp_path / "in")]})
    judged = BacktestSpec(
        feature_query(found), history, defaults=Defaults("event_time", 5_000, 20_000), feature_query=True
    )
    here = figure_table.write_figures(judged, columns, tmp_path / "here.parquet", processes=1)
    there = figure_table_in_spark.write_figures(spark, judged, columns, tmp_path / "there.parquet", batch_bytes=16_384)
    assert pq.ParquetFile(tmp_path / "there.parquet").num_row_groups >= 3
    table = pq.read_table(tmp_path / "there.parquet")
    assert table == pq.read_table(tmp_path / "here.parquet")
    assert table.num_rows > 300
    assert 0 < table.column("accounts").null_count < table.num_rows, "some records have no device"
    texts = [
        (each.records, each.rows, each.copies, each.late, each.missing, each.totals.dead) for each in (here, there)
    ]
    assert texts[0] == texts[1]
    assert here.late
    assert here.copies


def test_what_is_followed_is_what_a_table_of_it_all_says(spark: SparkSession, tmp_path: Path) -> None:
    """Some records at a time, in pipelines that go on where the one before ended; then other figures are refused."""
    project = Project(tmp_path, [])
    made = lines(records(300, seed=6)).splitlines(keepends=True)
    config = project.config()
    found = figures_of(FIGURES, project)
    columns, history = figure_table.figure_types(found, config.streams), RecordedInput(config.streams, {STREAM: []})
    judged = BacktestSpec(
        feature_query(found), history, defaults=Defaults("event_time", 5_000, 20_000), feature_query=True
    )
    rows = 0
    for number, (first, end) in enumerate(((0, 120), (120, 125), (125, 300))):
        project.give(f"{number}.jsonl", b"".join(made[first:end]))
        reported = figure_stream.write_figure_stream(spark, config, judged, columns, tmp_path / "table", drain=True)
        assert reported.records == end - first
        rows += reported.rows
    every = RecordedInput(config.streams, {STREAM: [str(tmp_path / "in")]})
    whole = figure_table.write_figures(replace(judged, history=every), columns, tmp_path / "whole.parquet", processes=1)
    assert pq.read_table(tmp_path / "table") == pq.read_table(tmp_path / "whole.parquet")
    assert len(list((tmp_path / "table").glob("part-*.parquet"))) == 3
    assert rows == whole.rows > 200
    others = figures_of({**FIGURES, "tries": {**FIGURES["tries"], "window": "40s"}}, project)
    with pytest.raises(UsageError, match="figures of other definitions"):
        figure_stream.write_figure_stream(
            spark, config, replace(judged, rules=feature_query(others)), columns, tmp_path / "table", drain=True
        )


def figures_of(body: dict[str, Any], project: Project) -> Any:
    path = project.root / "figures.yaml"
    path.write_text(yaml.safe_dump({"source_topic": STREAM, "figures": body}))
    return read_figures(path, project.config().streams, None)
