"""Rules with models in Spark: what the naive twin and the backtest say; one whose model is missing or bad is alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rules.base import Defaults

from .project import Project, by_id, read_jsonl
from .traffic import STREAM, Body, expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TRIES = {"count": True, "group_by": "account", "window": "30s"}
DEVICES = {"distinct_count": "account", "group_by": "device", "window": "30s"}
COUNTED = velocity("counted", threshold=4, emit="every")


def graph(*weights: float, root: bool = False) -> bytes:
    """The sum of the columns, each times its weight; or the root of that, which is no number below 0."""
    given, score = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n]) for name, n in (("x", len(weights)), ("y", 1))
    )
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s" if root else "y"])]
    nodes += [helper.make_node("Sqrt", ["s"], ["y"])] if root else []
    column = numpy_helper.from_array(np.array([weights], np.float32).T, "w")
    made = helper.make_graph(nodes, "g", [given], [score], [column])
    return bytes(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())


def scored(rule_id: str, features: Any, threshold: float, **more: Any) -> Body:
    """By a model in a file called as the rule; ``more`` figures."""
    envelope = {"rule_id": rule_id, "version": 1, "rule_type": "model", "source_topic": STREAM}
    figures = {"tries": TRIES, **more}
    given = {"model": f"{rule_id}.onnx", "figures": figures, "features": features, "threshold": threshold}
    return {**envelope, **given}


def project_in(root: Path) -> Project:
    """The sum of 1,000 times the tries and the amount, which is below that, is beyond 4,000 where the tries are 4."""
    project = Project(root, [velocity("burst", threshold=5)])
    models = {
        "sums": (graph(1_000, 1), scored("sums", ["tries", "amount"], 4_000)),
        "keys": (graph(10, 1), scored("keys", {"z": "tries", "a": "coalesce(mates, 0)"}, 32, mates=DEVICES)),
        "roots": (graph(1, -1, root=True), scored("roots", ["tries", "amount"], 0)),
        "absent": (None, scored("absent", ["tries", "amount"], 0)),
        "broken": (b"no model", scored("broken", ["tries", "amount"], 0)),
        "narrow": (graph(1), scored("narrow", ["tries", "amount"], 0)),
    }
    for name, (model, rule) in models.items():
        if model is not None:
            (root / "rules" / f"{name}.onnx").write_bytes(model)
        project.publish(f"{name}.yaml", [rule])
    return project


def test_models_judge_in_spark_as_in_a_backtest_and_what_is_wrong_with_one_stops_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, project = records(240, seed=11), project_in(tmp_path)
    project.give("all.jsonl", lines(log))
    project.drain(spark)
    alerts = project.alerts()
    names = ("burst", "sums", "keys")
    of_rule = {name: [each for each in alerts.values() if each["rule_id"] == name] for name in names}

    counted = {hit.record_id: hit for hit in expected([COUNTED], log).hits}
    amounts = {each["id"]: each["amount"] for each in reversed(log)}  # of one that comes twice the first counts
    assert {each["record_id"]: each["value"] for each in of_rule["sums"]} == {
        name: 1_000 * hit.value + amounts[name] for name, hit in counted.items()
    }
    assert of_rule["burst"], "the rule beside them judges"
    assert {each["evidence"]["features"]["a"] for each in of_rule["keys"]} >= {3, 4}, "figures of another key"

    again = tmp_path / "backtest.jsonl"
    rules = ruleset_of_log(log_path(tmp_path / "rules", "shop"))
    history = RecordedInput(project.config().streams, {STREAM: [str(tmp_path / "in")]})
    defaults = Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
    in_process.backtest(BacktestSpec(rules, history, defaults=defaults), again)
    assert read_jsonl(again) == by_id(alerts.values())

    events = project.rule_log()
    assert {each["rule_id"] for each in events if each["event"] == "published"} == {"burst", "sums", "keys", "roots"}
    refused = [" ".join(each["text"].split()) for each in events if each["event"] == "refused"]
    for file, found in {
        "absent.yaml": "absent.onnx",
        "broken.yaml": "what ONNX Runtime cannot open",
        "narrow.yaml": "as many as there are features: 2",
    }.items():
        assert any(file in text and found in text for text in refused), (file, refused)
    (unscored,) = [each for each in events if each["event"] == "unscored"]
    assert "roots" in unscored["text"]
    assert "no finite number" in unscored["text"]
    assert {each["value"] >= 0 for each in alerts.values() if each["rule_id"] == "roots"} == {True}
