"""``crossline.figures``: the rows of the command over the same records, whatever holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossline as cl
from crossline.cli.main import run_command

STREAM = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: s}
    fields: {id: string, card: string?, cents: integer, at: integer}
"""
FIGURES = """
source_topic: payments
figures:
  tries: {count: true, group_by: card, window: 60s}
  seen: {last: at, group_by: card, window: 60s, include_current: false}
"""
# id, card, cents, at; and tries and seen, by hand
ROWS = [
    ("a", "c1", 5, 100, 1, None),
    ("b", "c2", 7, 110, 1, None),
    ("c", "c1", 9, 130, 2, 100),
    ("d", None, 1, 140, None, None),
    ("b", "c2", 7, 110, None, None),  # again: no row
    ("e", "c1", 1, 191, 1, None),  # later than 60 s after c
]
GIVEN = [dict(zip(("id", "card", "cents", "at"), row, strict=False)) for row in ROWS]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stream.yaml").write_text(STREAM)
    Path("figures.yaml").write_text(FIGURES)


@pytest.mark.parametrize("data", [GIVEN, pa.Table.from_pylist(GIVEN)], ids=["dicts", "arrow"])
def test_a_table_worked_by_hand(data: Any) -> None:
    found = cl.figures(data, "figures.yaml", "stream.yaml")
    table = found.to_arrow()
    assert table.column_names == ["record_id", "event_time", "tries", "seen"]
    rows = [(row["record_id"], row["tries"], row["seen"]) for row in table.to_pylist()]
    wanted = [(name, tries, seen) for name, *_, tries, seen in ROWS]
    del wanted[4]
    assert rows == wanted
    assert repr(found) == "<Figures: figures of 5 records, 1 dead letters>"
    assert "<td>c</td>" in found._repr_html_()


def test_the_rows_are_those_of_the_command() -> None:
    pq.write_table(pa.Table.from_pylist(GIVEN), "in.parquet")
    stream = Path("stream.yaml").read_text().replace("    id: id", "    format: parquet\n    id: id")
    Path("stream.yaml").write_text(stream)
    command = ["figures", "--figures", "figures.yaml", "--stream", "stream.yaml", "--input", "in.parquet"]
    assert run_command([*command, "--output", "t.parquet", "--json"]) == 0
    found = cl.figures(pq.read_table("in.parquet"), "figures.yaml", "stream.yaml").to_arrow()
    assert found.equals(pq.read_table("t.parquet").cast(found.schema))


def test_no_records_give_an_empty_table() -> None:
    assert cl.figures([], "figures.yaml", "stream.yaml").to_arrow().num_rows == 0


def test_figures_of_another_stream_are_refused() -> None:
    Path("stream.yaml").write_text(STREAM.replace("payments:", "others:"))
    with pytest.raises(cl.UsageError, match="payments"):
        cl.figures(GIVEN, "figures.yaml", "stream.yaml")


RISK = """
source_topic: payments
figures:
  risk: {risk: true, group_by: card, half_life: 10s}
"""
LARGE = """
{rule_id: large, version: 1, rule_type: threshold, source_topic: payments, score: 40,
 conditions: [{field: cents, operator: ">=", value: 9}]}
"""


def test_a_risk_score_is_of_its_rules() -> None:
    """A hit of 40 at second 130: it is no part of its own record's score, and half of it is left ten seconds later."""
    Path("figures.yaml").write_text(RISK)
    Path("large.yaml").write_text(LARGE)
    with pytest.raises(cl.UsageError, match="risk is a risk score; pass the rules that it is of as rules="):
        cl.figures(GIVEN, "figures.yaml", "stream.yaml")
    hit, later = GIVEN[2], {"id": "x", "card": "c1", "cents": 1, "at": 140}
    table = cl.figures([hit, later], "figures.yaml", "stream.yaml", rules="large.yaml").to_arrow()
    assert table.column("risk").to_pylist() == [0.0, 20.0]
