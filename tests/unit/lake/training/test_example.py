"""docs/how-to/train-a-model.md: a training set of the lake, a model of it, and a shadow version of the rule."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crossline.basics.models.model import Model, Scorer
from crossline.cli.main import run_command
from unit.lake.lake_kit import SpooledPipeline

pytestmark = pytest.mark.filterwarnings("ignore:Iceberg scan planning")
EXAMPLES = Path(__file__).parents[4] / "examples"
sys.path.append(str(EXAMPLES / "card-model"))

import from_lake  # noqa: E402

COUNT = 12_000  # ten minutes


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> SpooledPipeline:
    """The example's pipeline, its records in files, in the lake; labels that came 20 days after each fraud."""
    root = tmp_path_factory.mktemp("examples") / "card-model"
    for name in ("card-model", "cards"):
        shutil.copytree(EXAMPLES / name, root.parent / name, ignore=shutil.ignore_patterns("out", ".*", "__pycache__"))
    source = "{kind: generator, workload: cards, seed: 21, records: 144000}"
    text = (root / "lake.yaml").read_text().replace(source, "{kind: files, path: in/*.jsonl}")
    text = text.replace("out/lake-checkpoint", "out/checkpoint")
    (root / "lake.yaml").write_text(text)
    made = SpooledPipeline(root, text)
    records, planted = root / "payments.jsonl", root / "planted.jsonl"
    given = ["generate", "cards", "--seed", "21", "--records", str(COUNT), "--output", str(records)]
    assert run_command([*given, "--labels", str(planted)]) == 0
    made.batch([json.loads(line) for line in records.read_text().splitlines()])
    made.write_all()
    write_labels(planted, root / "labels.csv")
    lake = ["figures", "--from-lake", "--pipeline", str(root / "lake.yaml"), "--labels-file", str(root / "labels.csv")]
    assert run_command([*lake, "--labels-known-by", "+30d", "--output-table", "training"]) == 0
    return made


def write_labels(planted: Path, labels: Path) -> None:
    """As the page does."""
    with planted.open() as frauds, labels.open("w") as out:
        out.write("record_id,is_fraud,known_at\n")
        for fraud in map(json.loads, frauds):
            known_at = datetime.fromisoformat(fraud["end"]) + timedelta(days=20)
            out.writelines(f"{each},true,{known_at.isoformat()}\n" for each in fraud["record_ids"])


@pytest.fixture(scope="module")
def candidate(pipeline: SpooledPipeline) -> Path:
    """What the example writes."""
    folder = pipeline.root / "candidate"
    from_lake.main([str(pipeline.root / "out" / "lake" / "catalog.db"), "--out", str(folder)])
    return folder


def test_every_engine_reads_the_same_rows(pipeline: SpooledPipeline) -> None:
    tables = from_lake.LakeTables.of(pipeline.root / "out" / "lake" / "catalog.db", "card_model", "training")
    wanted, *others = (from_lake.prepared(read(tables)) for read in from_lake.ENGINES.values())
    assert len(wanted) == COUNT
    names = ["record_id", "amount_cents", "account_spent", "device_accounts", "label"]
    for each in others:
        assert each.select(names).to_pydict() == wanted.select(names).to_pydict()
    planted = [json.loads(line) for line in (pipeline.root / "planted.jsonl").read_text().splitlines()]
    frauds = {record for fraud in planted for record in fraud["record_ids"]}
    assert {row["record_id"] for row in wanted.select(["record_id", "label"]).to_pylist() if row["label"]} == frauds


def test_the_file_says_what_the_regression_says() -> None:
    """Worked by numpy from the definition; a feature without a value is 0."""
    draw = np.random.default_rng(3)
    values = draw.uniform(0, 50, (300, 4))
    model = from_lake.Regression.fit(values, (values[:, 2] > 30).astype(np.float64))
    values[7, 1] = np.nan
    scores, why = Scorer(Model.of("m.onnx", model.onnx("7")), ("a", "b", "c", "d")).scores(values)
    assert (why, Model.of("m.onnx", model.onnx("7")).version) == ("", "7")
    logs = np.log(np.where(np.isnan(values), 0, values) + 1)
    expected = 1 / (1 + np.exp(-((logs - model.mean) / model.spread @ model.weights + model.bias)))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert ((scores > 0.5) == (values[:, 2] > 30)).mean() > 0.9


def test_a_threshold_worked_by_hand() -> None:
    """F1 is 2/3 at 0.9, 1/2 at 0.8, 4/5 at 0.7, 2/3 at 0.1."""
    scores, fraud = np.array([0.1, 0.9, 0.7, 0.8]), np.array([0.0, 1.0, 1.0, 0.0])
    assert from_lake.threshold_of(scores, fraud) == 0.7


def test_it_is_a_shadow_version_that_finds_frauds(
    pipeline: SpooledPipeline, candidate: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, rule = pipeline.root, candidate / "card_model.yaml"
    assert "version: 2\nshare: 0%\n" in rule.read_text()
    assert run_command(["rules", "check", str(candidate), "--pipeline", str(root / "lake.yaml")]) == 0
    given = ["rules", "compare", str(root / "rules" / "card_model.yaml"), str(rule), "--json"]
    inputs = ["--pipeline", str(root / "lake.yaml"), "--input", str(root / "payments.jsonl")]
    capfd.readouterr()
    assert run_command([*given, *inputs, "--labels", str(root / "labels.csv")]) == 0
    found: Any = json.loads(capfd.readouterr().out)
    assert found["records"] == COUNT
    assert found["b"]["alerts"] > 0
    assert found["b"]["recall"] > 0.5
    assert found["b"]["precision"] > 0.5
    assert run_command(["rules", "publish", str(rule), "--rules", str(root / "rules"), *inputs[:2]]) == 0
    published = (root / "rules" / "card_model.yaml").read_text()
    assert "version: 2" in published


def test_labels_that_are_too_young_are_left_out(pipeline: SpooledPipeline) -> None:
    """A training set as of ten days after the payments has no mature row."""
    lake = ["figures", "--from-lake", "--pipeline", str(pipeline.root / "lake.yaml"), "--output-table", "young"]
    labels = ["--labels-file", str(pipeline.root / "labels.csv"), "--labels-known-by", "+30d"]
    as_of = datetime(2026, 1, 11, tzinfo=UTC).isoformat()
    assert run_command([*lake, *labels, "--labels-as-of", as_of]) == 0
    tables = from_lake.LakeTables.of(pipeline.root / "out" / "lake" / "catalog.db", "card_model", "young")
    assert len(from_lake.prepared(from_lake.with_pyiceberg(tables))) == 0
