"""Tables of figures from files: the same however many processes and batches there are, and what rules judge by."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.figures.figure_table import FigureCounts, figure_types, write_figures
from crossline.backtest.trial import try_rules
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry.rule_files import read_figures
from crossline.rules.figure_tables import feature_query
from crossline.runtime.machine.temporary_folders import own_folder_for

from .samples import STREAMS, judged, payment, write

FIGURES: dict[str, Any] = {
    "tries": {"count": True, "group_by": "card", "window": "10m"},
    "usual": {"avg": "amount", "group_by": "card", "window": "1h", "include_current": False},
    "silent": {"since": True, "group_by": "card", "window": "1h"},
    "spread": {"stddev": "amount", "group_by": ["card", "status"], "window": "1h"},
    "cards": {"distinct_count": "card", "window": "30s"},
    "month": {"sum": "amount", "group_by": "card", "window": "2h", "resolution": "10m"},
}


def payments(count: int) -> list[dict[str, Any]]:
    """Some out of order, some very late, some twice, some without an amount or a status."""
    chance, made = random.Random(7), list[dict[str, Any]]()
    for number in range(count):
        late_s = chance.choice([0, 0, 0, 5, 60, 300])
        status = chance.choice(["ok", "declined", None])
        each = payment(number, 3 * number - late_s, f"c{chance.randrange(9)}", chance.randrange(500) or None)
        made.append({**each, "status": status})
        if number % 50 == 49:
            made.append(made[-10])
    return made


def table(tmp_path: Path, output: str, figures: dict[str, Any] = FIGURES, **options: Any) -> tuple[Path, FigureCounts]:
    (tmp_path / "figures.yaml").write_text(yaml.safe_dump({"source_topic": "payments", "figures": figures}))
    found = read_figures(tmp_path / "figures.yaml", STREAMS, None)
    history = RecordedInput(STREAMS, {"payments": [str(tmp_path / "in.jsonl")]})
    reported = BacktestSpec(feature_query(found), history, bounds=Bounds(60_000), feature_query=True)
    return tmp_path / output, write_figures(reported, figure_types(found, STREAMS), tmp_path / output, **options)


@pytest.fixture
def sample(tmp_path: Path) -> list[dict[str, Any]]:
    made = payments(700)
    write(tmp_path / "in.jsonl", made)
    return made


def test_batches_and_processes_do_not_matter(tmp_path: Path, sample: list[dict[str, Any]]) -> None:
    whole, one = table(tmp_path, "whole.parquet", processes=1)
    cut, many = table(tmp_path, "cut.parquet", processes=2, batch_bytes=4096)
    assert pq.ParquetFile(whole).num_row_groups == 1
    assert pq.ParquetFile(cut).num_row_groups > 10
    assert pq.read_table(whole) == pq.read_table(cut)
    assert (one.rows, one.missing, one.totals.late, one.totals.dead) == (
        many.rows,
        many.missing,
        many.totals.late,
        many.totals.dead,
    )
    assert one.totals.late > 10
    assert one.totals.dead["duplicate_id"] > 5
    assert one.rows == len(sample) - one.totals.late - one.totals.dead["duplicate_id"]


def test_rows_are_in_the_order_of_the_log(tmp_path: Path, sample: list[dict[str, Any]]) -> None:
    path, _ = table(tmp_path, "out.parquet", processes=2, batch_bytes=8192)
    ids = pq.read_table(path).column("record_id").to_pylist()
    order = {each["payment_id"]: place for place, each in reversed(list(enumerate(sample)))}
    assert [order[each] for each in ids] == sorted(order[each] for each in ids)


def test_a_rule_judges_by_what_the_table_says(tmp_path: Path, sample: list[dict[str, Any]]) -> None:
    """A formula over some of the figures, which always holds, shows in each alert what it read."""
    mine = {name: FIGURES[name] for name in ("tries", "usual", "silent")}
    rule = {"rule_id": "seen", "version": 1, "rule_type": "formula", "source_topic": "payments", "emit": "every"}
    when = "tries > 0 or usual > 0 or silent > 0"
    with own_folder_for("test") as folder:
        trial = try_rules(judged(tmp_path / "in.jsonl", {**rule, "figures": mine, "when": when}), folder)
    read = {
        alert["record_id"]: {name: each["value"] for name, each in alert["evidence"]["figures"].items()}
        for alert in trial.alerts
    }
    path, _ = table(tmp_path, "out.parquet", mine)
    rows = pq.read_table(path).to_pylist()
    assert {row["record_id"]: {name: row[name] for name in mine} for row in rows} == read
    assert len(rows) > 500
