"""``model``: scores worked out by hand, the same however records are cut, and models that are refused or fail."""

import base64
import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from onnx import helper

from crossline.basics.models.model import BLOCK, Model, ModelError, Scorer
from crossline.basics.texts.problems import Finding
from crossline.basics.texts.yamltext import load_yaml
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.partitioner import Chunk, route
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_document
from crossline.rules.ruleset import RuleSet
from crossline.rules.types.model import ModelRule

from . import scenes
from .onnxkit import model, weighted
from .scenes import alerts, refused

SCORED: dict[str, Any] = {
    "rule_type": "model",
    "model": "m.onnx",
    "figures": {"tries": {"count": True, "group_by": "card", "window": "1m"}},
    "features": ["amount", "tries"],
    "threshold": 100,
}


def body(data: bytes, **changes: Any) -> dict[str, Any]:
    return {**SCORED, "model_data": base64.b64encode(data).decode(), **changes}


def test_a_score_over_fields_and_figures_is_standing_against_the_line() -> None:
    data = weighted(1, 10, version="2026-01")
    found = alerts(
        body(data), [{"s": 0, "amount": 89}, {"s": 1, "amount": 80}, {"s": 2, "amount": 69}, {"s": 3, "amount": 90}]
    )
    assert [(alert["record_id"], alert["value"]) for alert in found] == [("n1", 100.0), ("n3", 130.0)], (
        "99, 100, 99, 130"
    )
    first = found[0]
    assert (first["operator"], first["threshold"], first["key"]) == (">=", 100, {"card": "c1"})
    evidence = first["evidence"]
    assert (evidence["model"], evidence["model_version"]) == ("m.onnx", "2026-01")
    assert evidence["model_digest"] == Model.of("m.onnx", data).digest
    assert evidence["features"] == {"amount": 80, "tries": 2}
    assert (evidence["figures"]["tries"]["value"], evidence["fields"]) == (2, {"amount": 80})
    assert evidence["record_ids"] == ["n0", "n1"]
    assert first["message"] == "score 100 by card c1 by m.onnx (line: 100)"


def test_features_are_formulas_and_the_sentence_may_cite_the_model() -> None:
    features = {"share": "amount / 4", "more": "coalesce(points, 7) * tries"}
    reported = body(
        weighted(1, 1), features=features, threshold=12, description="{value} {tries} {model} {model_version}"
    )
    (alert,) = alerts(reported, [{"s": 0, "amount": 20}])
    assert alert["evidence"]["features"] == {"share": 5.0, "more": 7}
    assert alert["message"] == "12 1 m.onnx 7"


@pytest.mark.parametrize("named", [["tries", "amount"], ["tries", {"amount": "amount"}], {"z": "tries", "a": "amount"}])
def test_features_keep_their_order_wherever_the_rule_goes(named: Any) -> None:
    """A set of rules travels as JSON, and stands in the log so; the model takes its columns by their places."""
    rule = body(weighted(100, 1), features=named, threshold=105)
    went = RuleSet.from_json(scenes.loaded(rule).to_json())
    (version,) = went.versions
    again = version.rule.to_json()
    assert again["features"] == (["tries", "amount"] if isinstance(named, list) else [{"z": "tries"}, {"a": "amount"}])
    assert version.rule.body_digest() == scenes.loaded(rule).versions[0].rule.body_digest()
    assert [each["value"] for each in alerts(again, [{"s": 0, "amount": 5}])] == [105.0]
    turned = dict(reversed(named.items())) if isinstance(named, dict) else named[::-1]
    other = scenes.loaded({**rule, "features": turned}).versions[0].rule
    assert other.body_digest() != version.rule.body_digest()


def test_the_key_of_a_rule_that_is_not_read_yet_is_that_of_its_first_feature() -> None:
    figures = {"a": {"count": True, "group_by": "merchant"}, "b": {"count": True, "group_by": "card"}}
    for features in (["amount", "b", "a"], ["amount", {"x": "b + 1"}, "a"], {"x": "b + a"}):
        written = {"rule_type": "model", "figures": figures, "features": features}
        assert ModelRule.keys_written(written) == "card"


def test_it_emits_at_every_hit_or_at_crossings() -> None:
    records = [{"s": n, "amount": amount} for n, amount in enumerate([100, 100, 5, 100])]
    assert len(alerts(body(weighted(1, 0)), records)) == 3
    crossings = alerts(body(weighted(1, 0), emit="on_crossing"), records)
    assert [alert["record_id"] for alert in crossings] == ["n0", "n3"]


def test_a_missing_feature_is_not_a_number_which_some_models_take() -> None:
    nan_is_one = model([helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=1)], 1)
    rule = body(nan_is_one, features={"f": "points + 0 * tries"}, threshold=1)
    records: list[dict[str, Any]] = [{"s": 0, "points": 5}, {"s": 1}]
    assert [each["record_id"] for each in alerts(rule, records)] == ["n1"]
    assert alerts(rule, [{"s": 1}])[0]["evidence"]["features"] == {"f": None}


def test_conditions_say_what_is_scored() -> None:
    rule = body(weighted(1, 0), conditions=[{"field": "status", "operator": "==", "value": "ok"}])
    records: list[dict[str, Any]] = [{"s": 0, "amount": 200}, {"s": 1, "amount": 200, "status": "ok"}]
    assert [each["record_id"] for each in alerts(rule, records)] == ["n1"]


def deep() -> bytes:
    """Three state stores of random weights: sums of many roundings."""
    rng = np.random.default_rng(7)
    sizes = [2, 37, 19, 1]
    nodes, weights, before = [], {}, "x"
    for n, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        weights[f"w{n}"] = rng.normal(size=(rows, columns))
        nodes += [helper.make_node("MatMul", [before, f"w{n}"], [f"m{n}"])]
        nodes += [helper.make_node("Sigmoid", [f"m{n}"], ["y" if n == 2 else f"s{n}"])]
        before = f"s{n}"
    return model(nodes, 2, weights=weights)


def test_scores_do_not_depend_on_how_records_are_cut() -> None:
    scorer = Scorer(Model.of("deep", deep()), ("a", "b"))
    scorer.check()
    features = np.random.default_rng(3).normal(size=(3 * BLOCK + 7, 2)) * 100
    whole, why = scorer.scores(features)
    assert why == ""
    assert len(set(whole.tolist())) > BLOCK
    for cut in (1, 2, BLOCK - 1, BLOCK, BLOCK + 1):
        parts = [scorer.scores(features[start : start + cut])[0] for start in range(0, len(features), cut)]
        assert np.concatenate(parts).tobytes() == whole.tobytes(), cut
    order = np.random.default_rng(4).permutation(len(features))
    assert scorer.scores(features[order])[0].tobytes() == whole[order].tobytes()


def test_alerts_are_the_same_in_any_cut_of_a_stream_in_disorder() -> None:
    rng = random.Random(5)
    back_s, amounts = [0, 0, 3.5, 20], range(9)
    records = [
        {"s": n - rng.choice(back_s), "card": rng.choice("ab"), "amount": rng.choice(amounts)} for n in range(150)
    ]
    rule = body(deep(), threshold=0.04)  # about the middle of what it gives for such records
    whole = alerts(rule, records)
    assert 10 < len(whole) < 140
    assert all(alerts(rule, records, batches=batches) == whole for batches in (2, 31, 150))


def test_a_record_without_a_score_is_not_judged_and_harms_no_other() -> None:
    """The logarithm of 0 is infinite, that of less is none."""
    data = model([helper.make_node("Log", ["x"], ["y"])], 1, (None, 1))
    rule = body(data, features={"f": "amount + 0 * tries"}, threshold=-1000)
    records = [{"s": n, "amount": amount} for n, amount in enumerate([1, 0, -5, 3])]
    assert [each["record_id"] for each in alerts(rule, records)] == ["n0", "n3"]
    scores, why = Scorer(Model.of("log", data), ("f",)).scores(np.array([[1.0], [0.0], [-5.0]]))
    assert (np.isnan(scores).tolist(), why) == ([False, True, True], "a score that is no finite number")


def gather() -> bytes:
    """Fails where the feature is no number of a row of its table, which has three."""
    nodes = [helper.make_node("Cast", ["x"], ["i"], to=7), helper.make_node("Gather", ["w", "i"], ["y"])]
    return model(nodes, 1, (None, 1), weights={"w": [5, 6, 7]})


def test_a_graph_that_raises_at_one_record_scores_the_others() -> None:
    scorer = Scorer(Model.of("gather", gather()), ("f",))
    scores, why = scorer.scores(np.array([[2.0], [99.0], [0.0]]))
    assert np.isnan(scores).tolist() == [False, True, False]
    assert scores[[0, 2]].tolist() == [7, 5]
    assert "99" in why or "bounds" in why


@pytest.mark.parametrize("window", [{"window": "1m"}, {"window": "1h", "resolution": "10m"}])
def test_what_failed_is_counted_by_rule_version_and_copies_are_none_of_it(window: dict[str, Any]) -> None:
    figures = {"tries": {"count": True, "group_by": "card", **window}}
    data = model([helper.make_node("Log", ["x"], ["y"])], 1, (None, 1))
    bad = {**body(data, figures=figures, features={"f": "amount + 0 * tries"}, threshold=0), "rule_id": "bad"}
    bad |= {"version": 2, "source_topic": "payments", "conditions": [{"field": "amount", "operator": "<", "value": 9}]}
    good = {"rule_id": "good", "version": 1, "source_topic": "payments", **body(weighted(1, 0), threshold=0)}
    spec = scenes.STREAMS["payments"]
    rules = load_rules_document(load_yaml(json.dumps([bad, good]), "r.json"), scenes.STREAMS)
    plan = compile_stream(RuleSet.from_rules(each.rule for each in rules), "payments", spec, Defaults())
    lines = [{"id": f"n{n}", "card": "c", "at": scenes.START_MS + n, "amount": n - 1} for n in range(12)]
    lines += lines[3:6]
    made = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    parts = route(plan, decode_lines(make_layout("payments", spec), made, "log", 0).records, Chunk("l", 0, "l"), 1, {})
    output = judge([plan], ShardState(), [(p.meta, p.arrays) for p in parts], Bounds())
    assert output.failed == {("bad", 2, "a score that is no finite number"): 2}, "-1 and 0, of those below 9"
    fired = [hit.version.rule.rule_id for hit in output.hits]
    assert (fired.count("good"), fired.count("bad")) == (11, 8)


TWO = {"figures": SCORED["figures"]}
CASES: list[tuple[bytes, dict[str, Any], str, str]] = [
    (b"no model", {}, "model", "what ONNX Runtime cannot open"),
    (weighted(1, 2, 3), {}, "model", "input x of 3 columns; as many as there are features: 2"),
    (model([helper.make_node("Identity", ["x"], ["y"])], None, (None, None)), {}, "model", ""),
    (weighted(1, 1), {"output": "score"}, "model", "no output score: those of real numbers are y"),
    (
        model([helper.make_node("Softmax", ["x"], ["y"], axis=0)], 2, (None, 2)),
        {},
        "model",
        "depends on the records beside it",
    ),
    (gather(), {"features": {"f": "amount + tries"}}, "model", "a model that fails"),
    (weighted(1, 1, inputs=("x", "z")), {}, "model", "inputs x, z; those of the features: amount, tries"),
    (weighted(1, 1), {"features": ["amuont", "tries"]}, "features.amuont", "a field or figure"),
    (weighted(1, 1), {"features": ["card", "tries"]}, "features.card", "number"),
    (weighted(1, 1), {"features": ["amount", "points"]}, "figures.tries", "one of the features names"),
    (weighted(1, 1), {"features": []}, "features", "names of fields and figures"),
    (weighted(1, 1), {"features": ["amount", "rule:x.value"]}, "features", "not in this version yet"),
    (weighted(1, 1), {"figures": {}}, "figures", "one or more figures"),
    (weighted(1, 1), {"threshold": "high"}, "threshold", "a number"),
    (weighted(1, 1), {"description": "{modle}"}, "description", "in braces"),
    (weighted(1, 1), {"model_data": "###"}, "model_data", "base64"),
    (weighted(1, 1), {"model_data": None}, "model_data", "the bytes of m.onnx"),
]


@pytest.mark.parametrize(("data", "changes", "path", "words"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_what_is_refused(data: bytes, changes: dict[str, Any], path: str, words: str) -> None:
    found = refused(body(data, **changes))
    if not words:
        assert found == [], "two outputs for two classes"
        return
    ((at, text),) = found
    assert at == path
    assert words in text


def test_one_input_for_each_feature_goes_by_name() -> None:
    nodes = [helper.make_node("Mul", ["tries", "ten"], ["t"]), helper.make_node("Add", ["amount", "t"], ["y"])]
    data = model(nodes, 1, weights={"ten": [10]}, inputs=("tries", "amount"))
    assert [each["value"] for each in alerts(body(data, threshold=0), [{"s": 0, "amount": 5}])] == [15]


def test_the_bytes_are_part_of_the_body_and_reported_in_short() -> None:
    """Read through a file: another model under the same version is another body."""
    text = json.dumps({"rule_id": "r", "version": 1, "source_topic": "payments", **SCORED})
    files: dict[str, Any] = {"m.onnx": weighted(1, 10)}

    def read(name: str) -> bytes | Finding:
        assert name == "m.onnx"
        found: bytes | Finding = files[name]
        return found

    (first,) = load_rules_document(load_yaml(text, "r.json"), scenes.STREAMS, attach=read)
    files["m.onnx"] = weighted(1, 11)
    (second,) = load_rules_document(load_yaml(text, "r.json"), scenes.STREAMS, attach=read)
    assert first.rule.body_digest() != second.rule.body_digest()
    assert first.rule.display_json()["model_data"] == f"{len(weighted(1, 10)):,} bytes"
    again = RuleSet.from_json(RuleSet.from_rules([first.rule]).to_json()).versions[0].rule
    assert again.body_digest() == first.rule.body_digest(), "what a log has judges without the file"


def test_without_the_runtime_a_rule_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    other = weighted(1, 3)  # of which no session is open
    ((path, text),) = refused(body(other))
    assert (path, "crossline[onnx]" in text) == ("model", True)
    with pytest.raises(ModelError, match="no ONNX Runtime"):
        _ = Model.of("x", other).version
    scores, why = Scorer(Model.of("x", other), ("a", "b")).scores(np.zeros((2, 2)))
    assert np.isnan(scores).all()
    assert why.startswith("no ONNX Runtime here; expected it to be installed")
