"""Figures of the records of the lake are those of the files that they came from."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crossline.cli.main import run_command
from unit.lake.lake_kit import START_MS, SpooledPipeline, payment

FIGURES = """\
source_topic: payments
figures:
  payments_10m: {count: true, group_by: account_id, window: 10m}
  spent_1h: {sum: cents, group_by: account_id, window: 1h}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """Records in and out of order, a copy among them, in three batches and two commits."""
    made = SpooledPipeline(tmp_path)
    draw = random.Random(4)
    records = [payment(number, START_MS + 30_000 * number - draw.choice([0, 0, 40_000])) for number in range(90)]
    made.batch(records[:30])
    made.batch([*records[30:60], records[45]])
    made.write_all()
    made.batch(records[60:])
    made.write_all()
    (tmp_path / "pipeline.yaml").write_text(made.text)
    (tmp_path / "figures.yaml").write_text(FIGURES)
    (tmp_path / "rules").mkdir()
    return made


def test_they_are_those_of_the_files(pipeline: SpooledPipeline) -> None:
    root = pipeline.root
    given = ["figures", "--pipeline", str(root / "pipeline.yaml"), "--figures", str(root / "figures.yaml")]
    assert run_command([*given, "--from-lake", "--output", str(root / "lake.parquet")]) == 0
    assert run_command([*given, "--input", str(root / "in"), "--output", str(root / "files.parquet")]) == 0
    lake, files = (pq.read_table(root / name) for name in ("lake.parquet", "files.parquet"))
    assert lake.equals(files)
    assert len(lake) == 90
    assert lake.column("payments_10m").to_pylist()[0] == 1


@pytest.mark.parametrize("more", [["--input", "x"], ["--follow"], ["--on", "spark"]])
def test_what_does_not_go_with_the_lake_is_refused(pipeline: SpooledPipeline, more: list[str]) -> None:
    root = pipeline.root
    given = ["figures", "--pipeline", str(root / "pipeline.yaml"), "--figures", str(root / "figures.yaml")]
    assert run_command([*given, "--from-lake", *more, "--output", str(root / "out.parquet")]) == 2
