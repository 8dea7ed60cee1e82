"""Compressed files and tables in the stream: in many batches, over two lives, they give what plain lines give."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .killing import RULES, SEED
from .project import Project, crossline
from .traffic import STREAM, STREAMS, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BATCH_BYTES = 9_000  # some sixty records


def packed(items: list[dict[str, Any]]) -> bytes:
    return gzip.compress(lines(items))


def table(items: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    # Every field in every row, as the first row alone would say which columns there are.
    names = ("id", "account", "amount", "kind", "event_time", "device", "price")
    columns = {name: [each.get(name) for each in items] for name in names}
    pq.write_table(pa.table(columns), sink, row_group_size=70)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(("form", "bytes_of"), [("json", packed), ("parquet", table)])
def test_they_give_what_lines_give(
    spark: SparkSession, tmp_path: Path, form: str, bytes_of: Callable[[list[dict[str, Any]]], bytes]
) -> None:
    given = records(450, SEED)
    plain = Project(tmp_path / "plain", RULES)
    plain.give("all.jsonl", lines(given))
    plain.drain(spark)
    streams = {STREAM: {**STREAMS[STREAM], "format": form}}
    sources = {STREAM: {"kind": "files", "path": "in", "max_batch_bytes": BATCH_BYTES}}
    project = Project(tmp_path / "packed", RULES, streams=streams, sources=sources)
    project.give("1", bytes_of(given[:300]))
    assert project.drain(spark).batches >= 4
    project.give("2", bytes_of(given[300:]))
    project.drain(spark)
    assert project.alerts() == plain.alerts()
    assert len(plain.alerts()) > 20
    assert (project.dead(), project.late()) == (plain.dead(), plain.late())
    by_id = {each["id"]: each for each in reversed(given)}  # of copies the first
    alert_id, alert = list(project.alerts().items())[-1]
    shown = json.loads(crossline("alerts", "show", alert_id, "--pipeline", project.pipeline, "--json").stdout)
    fields = [{name: value for name, value in each["fields"].items() if value is not None} for each in shown["records"]]
    assert fields == [by_id[name] for name in alert["evidence"]["record_ids"]]
    if form == "json":  # late records are read again for their bytes
        raws = dict(project.rows("SELECT record_id, raw FROM late_records"))
        assert {name: json.loads(raw)["id"] for name, raw in raws.items()} == {name: name for name in raws}
