"""What goes with rules through a topic: the bytes of models, and shared figures, as a folder would have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.directory import ruleset_of_log
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet
from rule_registry.test_models import onnx_of, write
from rule_registry.test_shared_figures import FIGURE, RULE

from .board import Board, Pipeline, event_values, publisher_of

FIGURE_TEXT = FIGURE.format(version=1, status="active", window="1h")
RULE_TEXT = RULE.format(version=1, status="active", figure="{figure: account_spent}")


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def pipeline(board: Board, tmp_path: Path) -> Pipeline:
    return Pipeline(board, tmp_path / "rules")


def publish(board: Board, file: Path, text: str | None = None) -> list[str]:
    """As the command does; the keys that were sent."""
    if text is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    sent = [each for each in publisher_of(board).publish(file) if each.value is not None]
    for each in sent:
        board.post(each.key, each.value, "alice")
    return [each.key for each in sent]


def digests(rules: RuleSet) -> list[str]:
    return [version.rule.body_digest() for version in rules.versions]


def test_a_model_goes_with_its_rule(board: Board, pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(onnx_of(0.25))
    write(folder)
    assert publish(board, folder / "scored.yaml") == ["rule/scored/1"]
    (of_folder,) = read_rules(folder)
    (folder / "m.onnx").unlink()
    assert digests(pipeline.start()) == [of_folder.body_digest()]
    assert digests(ruleset_of_log(pipeline.folder / ".log" / "p.jsonl")) == [of_folder.body_digest()]


def test_a_model_is_no_part_of_what_bounds_the_text_of_a_rule(board: Board, pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    large = onnx_of(0.25, more=400_000)
    assert len(large) > 400_000
    (folder / "m.onnx").write_bytes(large)
    write(folder)
    publish(board, folder / "scored.yaml")
    (of_folder,) = read_rules(folder)
    assert digests(pipeline.start()) == [of_folder.body_digest()]
    too_large = "rule_id: scored\nversion: 2\nrule_type: model\nmodel_data: " + "A" * 5_592_412
    board.post("rule/scored/2", too_large, "eve")
    (event,) = pipeline.look()
    assert "5,592,412 bytes in base64; expected at most 5,592,408, which are 4 MiB" in str(event.text)


def test_a_figure_goes_before_the_rules_that_name_it(board: Board, pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.start()
    author_folder = tmp_path / "desk"
    with pytest.raises(RefusedError, match="account_spent"):
        publish(board, author_folder / "spender.yaml", RULE_TEXT)
    (author_folder / "spender.yaml").unlink()
    assert publish(board, author_folder / "figures.yaml", FIGURE_TEXT) == ["figure/account_spent/1"]
    assert publish(board, author_folder / "figures.yaml", FIGURE_TEXT) == [], "it stands there"
    assert publish(board, author_folder / "spender.yaml", RULE_TEXT) == ["rule/spender/1"]
    assert event_values(pipeline.look()) == [("published", "spender", 1, "active")]
    (of_folder,) = read_rules(author_folder)
    assert digests(pipeline.start()) == [of_folder.body_digest()]
    # What judges is in the log: a figure that is taken away is none for rules that come then.
    board.post("figure/account_spent/1", None, "bob")
    board.post("rule/spender/2", RULE_TEXT.replace("version: 1", "version: 2"), "bob")
    gone = {(each.event, each.source) for each in pipeline.look()}
    assert gone == {("refused", "rule/spender/1"), ("refused", "rule/spender/2")}, "and version 1 stays live"
    assert digests(pipeline.start()) == [of_folder.body_digest()]


def test_a_figure_in_one_file_with_its_rule_is_a_message_of_its_own(
    board: Board, pipeline: Pipeline, tmp_path: Path
) -> None:
    lines = [f"  {line}" for line in RULE_TEXT.splitlines()]
    both = f"{FIGURE_TEXT}- {lines[0].strip()}\n" + "\n".join(lines[1:]) + "\n"
    assert publish(board, tmp_path / "desk" / "both.yaml", both) == ["figure/account_spent/1", "rule/spender/1"]
    assert [version.rule.rule_id for version in pipeline.start().versions] == ["spender"]


def test_a_message_of_a_figure_has_that_figure_and_nothing_else(
    board: Board, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.start()
    board.post("figure/account_spent/2", FIGURE_TEXT, "eve")
    board.post("figure/spender/1", RULE_TEXT.replace("{figure: account_spent}", "{count: true}"), "eve")
    board.post("figure/none/1", "[]", "eve")
    refused = pipeline.look()
    assert {(each.event, each.source) for each in refused} == {
        ("refused", "figure/account_spent/2"),
        ("refused", "figure/spender/1"),
        ("refused", "figure/none/1"),
    }
    assert "version 1 of figure account_spent" in str(refused[0].text)
    with pytest.raises(UsageError, match="no rule and no shared figure"):
        publish(board, tmp_path / "desk" / "empty.yaml", "[]")
