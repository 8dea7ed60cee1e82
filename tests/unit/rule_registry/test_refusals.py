"""What is refused at a start is known, with how many rules that takes; and no start judges by nothing in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.times import BEGINNING_MS
from crossline.rule_registry.directory import log_path

from .harness import Harness, rule

WRONG = rule("wrong").replace("amount", "amuont")


def refused(harness: Harness) -> dict[str, tuple[int | None, bool]]:
    """By file: how many rules it takes with it, and whether the report names the field."""
    found = harness.log.refusals
    return {name: (event.count, "did you mean amount?" in str(event.text)) for name, event in found.items()}


def test_a_start_knows_what_it_refused_and_how_many_rules_that_takes(harness: Harness) -> None:
    harness.write("a.yaml", rule("good"))
    harness.write("b.yaml", rule("one"), WRONG, rule("three"))
    harness.write("c.yaml", "- [")
    assert len(harness.start()) == 1
    assert refused(harness) == {"b.yaml": (3, True), "c.yaml": (None, False)}
    assert refused(harness) == {"b.yaml": (3, True), "c.yaml": (None, False)}


def test_the_next_start_knows_it_too(harness: Harness) -> None:
    harness.write("a.yaml", rule("good"))
    harness.write("b.yaml", rule("one"), WRONG)
    harness.start()
    harness.restart()
    assert refused(harness) == {"b.yaml": (2, True)}, "before anything is taken up"
    assert harness.take_up()[1] == [], "and it stands in the log once"
    assert refused(harness) == {"b.yaml": (2, True)}
    harness.write("b.yaml", rule("one"))
    harness.take_up()
    assert refused(harness) == {}


def test_a_file_that_changed_while_nothing_ran_is_known_at_the_start(harness: Harness) -> None:
    harness.write("a.yaml", rule("good"))
    harness.start()
    harness.log.close()
    harness.write("a.yaml", rule("good", version=2), WRONG)
    harness.restart()
    assert refused(harness) == {"a.yaml": (2, True)}
    assert [event.event for event in harness.take_up()[1]] == ["refused"]


def test_two_files_that_cannot_stand_together_count_their_rules(harness: Harness) -> None:
    harness.write("a.yaml", rule("one"), rule("two"))
    harness.write("b.yaml", rule("two", amount=7), rule("three"), rule("four"))
    harness.start()
    assert {name: event.count for name, event in harness.log.refusals.items()} == {"b.yaml": 3}


def test_a_start_without_a_rule_ends_and_logs_nothing(harness: Harness) -> None:
    harness.write("a.yaml", rule("one"), WRONG, rule("three"))
    with pytest.raises(PermanentError) as raised:
        harness.log.start(harness.now_ms, allow_no_rules=False)
    assert raised.value.exit_code == 1
    text = str(raised.value)
    assert "no rule is left to judge by" in text
    assert "a.yaml is refused with all its 3 rules" in text
    assert "did you mean amount?" in text
    assert "--allow-no-rules" in text
    assert log_path(harness.folder, "p").read_text() == ""
    harness.write("a.yaml", rule("one"), rule("three"))
    rules = harness.log.start(harness.now_ms, allow_no_rules=False)
    assert [each.effective_from_ms for each in rules.versions] == [BEGINNING_MS] * 2, "as at a first start"


def test_an_empty_folder_is_reported_too(harness: Harness) -> None:
    with pytest.raises(PermanentError, match="found no rule; expected one or more"):
        harness.log.start(harness.now_ms, allow_no_rules=False)
    assert len(harness.log.start(harness.now_ms, allow_no_rules=True)) == 0


@pytest.mark.parametrize("status", ["draft", "paused", "retired"])
def test_rules_that_a_person_stopped_are_no_fault(harness: Harness, status: str) -> None:
    harness.write("a.yaml", rule("one", status=status))
    assert len(harness.log.start(harness.now_ms, allow_no_rules=False)) == 0
    harness.log.close()
    harness.write("b.yaml", WRONG)
    with pytest.raises(PermanentError, match="no rule is left to judge by: one file is refused"):
        harness.log.start(harness.now_ms, allow_no_rules=False)


def test_the_last_good_version_is_a_rule_that_is_left(harness: Harness) -> None:
    harness.write("a.yaml", rule("one"))
    harness.start()
    harness.log.close()
    harness.write("a.yaml", rule("one", version=2), WRONG)
    assert len(harness.log.start(harness.now_ms, allow_no_rules=False)) == 1


def test_a_rule_that_came_while_nothing_ran_is_a_rule(harness: Harness) -> None:
    harness.log.start(harness.now_ms, allow_no_rules=True)
    harness.log.close()
    harness.write("a.yaml", rule("one"))
    assert len(harness.log.start(harness.now_ms, allow_no_rules=False)) == 0, "it holds once it is taken up"
    assert [event.event for event in harness.take_up()[1]] == ["published"]


def test_a_wrong_figure_takes_the_rules_that_name_it(harness: Harness, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    figures.mkdir()
    harness.figures = figures
    figure = (
        "{kind: figure, figure_id: n, version: 1, source_topic: payments, sum: amuont, group_by: account, window: 1m}"
    )
    (figures / "n.yaml").write_text(figure, encoding="utf-8")
    harness.write(
        "a.yaml",
        "{rule_id: f, version: 1, rule_type: formula, source_topic: payments, when: n > 3, figures: {n: {figure: n}}}",
    )
    harness.write("b.yaml", rule("good"))
    harness.restart()
    body = {Path(name).name: event.count for name, event in harness.log.refusals.items()}
    assert body == {"a.yaml": 1, "n.yaml": None}
