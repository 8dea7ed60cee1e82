"""Models that rules name: read with their rule's file, and from then on what the log has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.publish import RuleFolder
from crossline.rule_registry.rule_files import ATTACHED_BYTES_MAX, Known, read_rules
from crossline.rules.base import Rule
from crossline.rules.ruleset import RuleSet

from .harness import Harness

RULE = """\
rule_id: scored
version: {version}
rule_type: model
source_topic: payments
model: {model}
figures: {{tries: {{count: true, group_by: account, window: 1m}}}}
features: [amount, tries]
threshold: 0.5
"""


def onnx_of(weight: float, more: int = 0) -> bytes:
    """``more``: bytes that say nothing."""
    real, weights = TensorProto.FLOAT, np.array([[weight], [1.0]], np.float32)
    given, score = (helper.make_tensor_value_info(name, real, [None, n]) for name, n in (("x", 2), ("y", 1)))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [given], [score], [numpy_helper.from_array(weights, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    made.doc_string = "x" * more
    return bytes(made.SerializeToString())


def write(folder: Path, version: int = 1, model: str = "m.onnx") -> None:
    (folder / "scored.yaml").write_text(RULE.format(version=version, model=model), encoding="utf-8")


def only(rules: RuleSet) -> Rule:
    (version,) = rules.versions
    return version.rule


def test_the_log_has_the_bytes_that_judged_when_the_file_is_another_or_gone(harness: Harness) -> None:
    (harness.folder / "m.onnx").write_bytes(onnx_of(1))
    write(harness.folder)
    first = only(harness.start())
    (harness.folder / "m.onnx").write_bytes(onnx_of(2))
    write(harness.folder, model="./m.onnx")
    harness.take_up()
    again = only(harness.restart())
    assert again.body_digest() == first.body_digest()
    (harness.folder / "m.onnx").unlink()
    (harness.folder / "scored.yaml").unlink()
    assert only(harness.restart()).body_digest() == first.body_digest()


def test_the_same_version_with_another_model_is_refused_and_a_new_one_is_taken(harness: Harness) -> None:
    (harness.folder / "m.onnx").write_bytes(onnx_of(1))
    write(harness.folder)
    first = only(harness.start())
    (harness.folder / "n.onnx").write_bytes(onnx_of(2))
    write(harness.folder, model="n.onnx")
    rules, events = harness.take_up()
    assert only(rules).body_digest() == first.body_digest()
    assert [event.event for event in events] == ["refused"]
    write(harness.folder, version=2, model="n.onnx")
    _, events = harness.take_up()
    assert [(event.event, event.version) for event in events] == [("published", 2)]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("none.onnx", "found no file none.onnx; expected a file of at most 4 MiB in"),
        ("../m.onnx", 'found "../m.onnx"; expected a file'),
        ("/etc/passwd", 'found "/etc/passwd"; expected a file'),
        ("folder", "folder, which is a folder"),
        ("large.onnx", "large.onnx, which is more than"),
        ("text.onnx", "what ONNX Runtime cannot open"),
        ('"m\\0.onnx"', 'found "m\\u0000.onnx"; expected a file of at most 4 MiB in'),
        ('"m\\e[2J.onnx"', "found no file m\\x1b[2J.onnx; expected a file"),
    ],
)
def test_a_file_that_is_no_model_refuses_its_rule_alone(harness: Harness, model: str, words: str) -> None:
    (harness.folder / "folder").mkdir()
    (harness.folder / "large.onnx").write_bytes(b"x" * (ATTACHED_BYTES_MAX + 1))
    (harness.folder / "text.onnx").write_bytes(b"text")
    harness.start()
    write(harness.folder, model=model)
    rules, (event,) = harness.take_up()
    assert (len(rules), event.event) == (0, "refused")
    assert "scored.yaml:5: model" in str(event.text)
    assert words in str(event.text)


def loop(turns: int) -> bytes:
    """A score that is the first feature, after so many turns."""
    real, whole, yes = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["held"], ["next"])],
        "body",
        [value("n", whole, []), value("go", yes, []), value("held", real, [None, 1])],
        [value("on", yes, []), value("next", real, [None, 1])],
    )
    nodes = [
        helper.make_node("Constant", [], ["turns"], value=helper.make_tensor("t", whole, [], [turns])),
        helper.make_node("Constant", [], ["go"], value=helper.make_tensor("b", yes, [], [True])),
        helper.make_node("MatMul", ["x", "w"], ["first"]),
        helper.make_node("Loop", ["turns", "go", "first"], ["y"], body=body),
    ]
    weights = numpy_helper.from_array(np.array([[1.0], [0.0]], np.float32), "w")
    graph = helper.make_graph(nodes, "g", [value("x", real, [None, 2])], [value("y", real, [None, 1])], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_a_model_without_an_end_is_refused_and_the_last_good_set_judges_on(harness: Harness) -> None:
    (harness.folder / "m.onnx").write_bytes(onnx_of(1))
    write(harness.folder)
    first = only(harness.start())
    (harness.folder / "n.onnx").write_bytes(loop(2**62))
    write(harness.folder, version=2, model="n.onnx")
    rules, (event,) = harness.take_up()
    assert only(rules).body_digest() == first.body_digest()
    assert event.event == "refused"
    assert "n.onnx: a model that takes more than 1 s of a processor; expected one that opens, and scores" in str(
        event.text
    )
    (harness.folder / "n.onnx").write_bytes(loop(3))
    write(harness.folder, version=2, model="./n.onnx")
    _, (event,) = harness.take_up()
    assert (event.event, event.version) == ("published", 2)


def test_files_that_people_name_have_their_models_beside_them(harness: Harness, tmp_path: Path) -> None:
    author_folder = tmp_path / "author"
    author_folder.mkdir()
    (author_folder / "m.onnx").write_bytes(onnx_of(1))
    write(author_folder)
    (rule,) = read_rules(author_folder / "scored.yaml", Known(harness.streams))
    assert rule.display_json()["model_data"] == f"{len(onnx_of(1)):,} bytes"
    folder = RuleFolder(harness.folder, (), Known(harness.streams))
    with pytest.raises(RefusedError, match=r"found no file m\.onnx"):
        folder.publish(author_folder / "scored.yaml")
    (harness.folder / "m.onnx").write_bytes(onnx_of(1))
    published = folder.publish(author_folder / "scored.yaml")
    assert [each.change for each in published.rules] == ["published"]
    assert folder.set_status("scored", "paused").rule.status == "paused"
