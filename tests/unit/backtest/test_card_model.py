"""examples/card-model: its model judges as its table of figures says, and its measures are what they are called."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.xdist_group("card_model")  # what is judged, once
EXAMPLE = Path(__file__).parents[3] / "examples" / "card-model"
RULE = EXAMPLE / "rules" / "card_model.yaml"
BEFORE = 24_000  # 20 minutes
sys.path.append(str(EXAMPLE))

from features import featured  # noqa: E402
from measure import MODEL, average_precision, caught, curve  # noqa: E402

from crossline.basics.models.model import Model, Scorer  # noqa: E402
from crossline.generate.labels import PlantedFraud, read_labels  # noqa: E402

TRAINING = all(importlib.util.find_spec(name) for name in ("sklearn", "skl2onnx"))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What run.py leaves, with the model that stands there."""
    folder = tmp_path_factory.mktemp("card-model")
    given = ["--judge-only", "--out", str(folder), "--before", str(BEFORE), "--later", "24000"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "run.py"), *given], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def threshold(rule: Path) -> float:
    (line,) = (line for line in rule.read_text().splitlines() if line.startswith("threshold: "))
    return float(line.removeprefix("threshold: "))


def test_the_model_judges_what_the_table_says_and_meets_kinds_that_it_was_not_trained_on(out: Path) -> None:
    alerts: list[Any] = [json.loads(line) for line in (out / "alerts.jsonl").read_bytes().splitlines()]
    given = featured(RULE, out / "figures.parquet", sorted(out.glob("[12]-*.jsonl")))
    model = Model.of("m", RULE.with_name("card-model.onnx").read_bytes())
    scores, why = Scorer(model, given.names).scores(given.values)
    assert why == ""
    rows = dict(zip(given.ids, zip(given.values.tolist(), scores.tolist(), strict=True), strict=True))
    mine = {alert["record_id"]: alert for alert in alerts if alert["rule_id"] == MODEL}
    assert mine.keys() == {name for name, (_, score) in rows.items() if score >= threshold(RULE)}
    for name, alert in mine.items():
        features = alert["evidence"]["features"]
        assert ([features[each] for each in given.names], alert["value"]) == rows[name]

    labels = read_labels((out / "labels-later.jsonl").read_bytes())
    known = {label.scenario for label in read_labels((out / "labels-before.jsonl").read_bytes())}
    new = {label.scenario for label in labels} - known
    assert (len(known), new) == (3, {"impossible_travel", "mule_fan_in"})
    hit = {label.scenario for label in labels if mine.keys() & set(label.record_ids)}
    assert hit >= known
    assert hit & new, "frauds of a kind that it has not seen"
    assert json.loads((out / "report.json").read_bytes())["sides"]["rules"]["recall_new"] == 0


def test_what_counts_as_caught() -> None:
    """Rules rest on their evidence, the model on its own record; a fraud that is cut off is not asked for."""
    labels = [
        PlantedFraud("f1", "a", ("r1", "r2"), {}, 0, 1),
        PlantedFraud("f2", "b", ("r3",), {}, 0, 1),
        PlantedFraud("f3", "b", ("r4",), {}, 0, 1, complete=False),
    ]
    alerts = [
        {"rule_id": "r", "record_id": "r9", "evidence": {"record_ids": ["r1"]}},
        {"rule_id": MODEL, "record_id": "r9", "evidence": {"record_ids": ["r3"]}},
        {"rule_id": MODEL, "record_id": "r4", "evidence": {"record_ids": []}},
    ]
    found = caught(alerts, labels)
    assert (found.alerts, found.true, found.frauds, found.caught) == (3, 2, {"a": 1, "b": 1}, {"a": 1, "b": 0})
    assert (found.precision, found.recall(["a"]), found.recall(["b"]), found.recall(["a", "b"])) == (2 / 3, 1, 0, 0.5)


def test_the_area_under_a_curve_worked_by_hand() -> None:
    """At 0.9 one of one, at 0.5 two of four, equal scores together; at 0.1 three of five."""
    scores = np.array([0.5, 0.9, 0.1, 0.5, 0.5])
    fraud = np.array([False, True, True, True, False])
    assert average_precision(scores, fraud) == pytest.approx((1 * 1 + 1 * 2 / 4 + 1 * 3 / 5) / 3)
    rows = {line: (count, precision, recall) for line, count, precision, recall in curve(scores, fraud)}
    assert rows[0.5] == (4, 0.5, 2 / 3)
    assert rows[0.9] == (1, 1.0, 1 / 3)


@pytest.mark.skipif(not TRAINING, reason="examples/card-model/requirements.lock is not installed")
def test_training_is_a_function_of_what_it_is_given(out: Path) -> None:
    from train import train  # noqa: PLC0415 - needs what it is skipped without

    labels = read_labels((out / "labels-before.jsonl").read_bytes())
    frauds = {record for label in labels for record in label.record_ids}
    given = featured(RULE, out / "figures.parquet", sorted(out.glob("[12]-*.jsonl")))
    records = given.part([int(name[1:]) < BEFORE for name in given.ids])
    one, two = train(records, frauds, 7), train(records, frauds, 7)
    assert one == two
    assert one.model != train(records, frauds, 8).model
    model = Model.of("m", one.model)
    Scorer(model, records.names).check()
    assert model.version == "1"
    early = records.event_ms < records.event_ms.min() + (records.event_ms.max() - records.event_ms.min()) * 3 // 4
    scores, _ = Scorer(model, records.names).scores(records.part(~early).values)
    good = scores[~np.isin(records.part(~early).ids, list(frauds))]
    assert (good >= one.threshold).sum() <= 5 / 12 < 1, "five an hour, in five minutes"
