"""A backtest by a model, in one process and in several that are forked when its session is open: the same alerts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from structlog.testing import capture_logs

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.stages import outcome

STREAM = """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, card: string, amount: integer}
"""
RULE = """\
rule_id: scored
version: 1
rule_type: model
source_topic: payments
model: log.onnx
figures: {tries: {count: true, group_by: card, window: 1m}}
features: {amount: amount * 1.0, tries: tries}
threshold: 4.7
"""


def logarithms() -> bytes:
    """The logarithm of amount, and as much as the tries: no number where amount is below 0."""
    real = TensorProto.FLOAT
    given, score = (helper.make_tensor_value_info(name, real, [None, n]) for name, n in (("x", 2), ("y", 1)))
    weights = {"first": [[1.0], [0.0]], "second": [[0.0], [1.0]]}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Log", ["a"], ["l"]),
        helper.make_node("MatMul", ["x", "second"], ["t"]),
        helper.make_node("Add", ["l", "t"], ["y"]),
    ]
    arrays = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], [score], arrays)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_in_one_process_and_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.onnx").write_bytes(logarithms())
    (tmp_path / "scored.yaml").write_text(RULE)
    lines = [
        {"id": f"n{n}", "at": 1_700_000_000_000 + 7_000 * n, "card": "abc"[n % 3], "amount": n % 9 - 1}
        for n in range(300)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    streams = load_streams(STREAM, "stream.yaml")
    rules = RuleSet.from_rules(read_rules(tmp_path / "scored.yaml", Known(streams)))
    judged = BacktestSpec(
        rules, RecordedInput(streams, {"payments": [str(tmp_path / "in.jsonl")]}), {}, Defaults(), Bounds(0)
    )
    texts, lines_of_log = [], list[str]()
    outcome._log_unscored.cache_clear()  # it is logged once in the life of a process
    for processes, batch_bytes in ((1, 10**6), (2, 900)):
        monkeypatch.setattr(in_process, "BATCH_BYTES", batch_bytes)
        with capture_logs() as logged:
            in_process.backtest(judged, tmp_path / "alerts.jsonl", processes=processes)
        lines_of_log += [line["event"] for line in logged]
        alerts = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
        texts.append([{name: value for name, value in alert.items() if name != "detected_at"} for alert in alerts])
    # A card has a record every 21 s, so 3 in the minute from its third on. The logarithm of 6 is 1.79, that of 5 1.61.
    wanted = [f"n{n}" for n in range(6, 300) if n % 9 in {7, 8}]
    assert [alert["record_id"] for alert in texts[0]] == wanted
    assert texts[1] == texts[0]
    assert [each for each in lines_of_log if each.startswith("a model did not score records")] == lines_of_log[:1]
    assert lines_of_log
